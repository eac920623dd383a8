#pragma once

#include <memory>

#include "readers/formats/format.h"
#include "readers/formats/samples/sample_table.h"

namespace ringfeed {

/// Framers of files of samples: of a whole one, whose head `read` reads, and of samples by
/// themselves.
std::unique_ptr<Framer> NewSampleFramer(const FramerOptions& options, ReadSampleHead read);
std::unique_ptr<UnitFramer> NewSampleUnitFramer(const FramerOptions& options, SampleLayout layout);
/// The index that a head gives.
OwnIndexResult SampleIndex(const FramerOptions& options, std::span<const std::byte> head,
                           const ReadSampleHead& read);

/// Decompresses one frame of zstd that tells its size, at most options.max_record_bytes, into
/// `memory`. kResourceExhausted if that has no more; else a failure is damage.
Status DecompressFrame(const FramerOptions& options, std::span<const std::byte> frame,
                       FrameMemory* memory, std::span<const std::byte>* content);

}  // namespace ringfeed
