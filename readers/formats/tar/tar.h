#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/format.h"

namespace ringfeed {

/// Tar archives as WebDataset uses them: consecutive members of one key are one sample. A record is
/// a sample as it is in the file, from its first header to the zeros after its last member: a piece
/// of tar that SplitTarSample takes apart. Nothing is copied.
struct TarOptions {
  static constexpr std::size_t kMostExtension = 64;  ///< bytes; a key and it fit into a header

  std::string extension = "bin";  ///< of what is written: one member a record
  bool samples = false;           ///< what is written are samples, as they are read
};

/// "", "ext=jpg", "samples": what follows "tar:".
Status ParseTarOptions(std::string_view text, TarOptions* options);

std::shared_ptr<const Format> TarFormat(const TarOptions& options);
/// A writer of samples that a record each becomes, or is.
std::unique_ptr<RecordWriter> NewTarWriter(std::unique_ptr<OutputFile> file,
                                           const TarOptions& options);
/// An encoder of rows as samples: a member NAME of the bytes of each field of ragged bytes,
/// NAME.npy of each other one. The key is the field "__key__", or the row's number.
RowEncoderResult NewTarEncoder(const std::vector<FieldSpec>& fields);
std::unique_ptr<Framer> NewTarFramer(const FramerOptions& options);
/// For the bytes after a loss, from `offset` on: the next header may be at any byte, and the first
/// sample is passed over, since it may have lost members.
std::unique_ptr<Framer> NewTarFramerBehindGap(const FramerOptions& options, std::uint64_t offset);

}  // namespace ringfeed
