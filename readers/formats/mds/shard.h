#pragma once

#include <cstddef>
#include <span>

#include "readers/formats/format.h"
#include "readers/formats/samples/sample_table.h"

namespace ringfeed {

/// The head of a shard of MosaicML's streaming (streaming/base/format/mds/writer.py): after the
/// offsets of a SampleTable, up to the first sample, what it says of its columns, as JSON.
SampleHead ReadMdsHead(std::span<const std::byte> head, bool ends, const FramerOptions& options);

/// Whether a file may be a shard; then how long its head is, at least.
bool StartsAsMdsShard(std::span<const std::byte> head);
std::size_t MdsHeadBytes(std::span<const std::byte> head);

}  // namespace ringfeed
