#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "readers/formats/format.h"

namespace ringfeed {

/// Tar archives as WebDataset uses them: consecutive members of one key are one sample. A record is
/// a sample as it is in the file, from its first header to the zeros after its last member: a piece
/// of tar that SplitTarSample takes apart. Nothing is copied.
struct TarOptions {
  std::string extension = "bin";  ///< of what is written: one member a record
};

/// "", "ext=jpg": what follows "tar:".
Status ParseTarOptions(std::string_view text, TarOptions* options);

std::shared_ptr<const Format> TarFormat(const TarOptions& options);
std::unique_ptr<Framer> NewTarFramer(const FramerOptions& options);
/// For the bytes after a loss, from `offset` on: the next header may be at any byte, and the first
/// sample is passed over, since it may have lost members.
std::unique_ptr<Framer> NewTarFramerBehindGap(const FramerOptions& options, std::uint64_t offset);

}  // namespace ringfeed
