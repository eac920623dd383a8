#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/little_endian.h"
#include "io/file_mapping.h"
#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// The .idx file of Megatron-LM's indexed dataset (megatron/core/datasets/indexed_dataset.py): the
/// places of the sequences in the .bin file beside it. Little-endian: "MMIDIDX\0\0", u64 version 1,
/// u8 element type, u64 sequences, u64 documents; then an i32 of each sequence's elements, an i64
/// of its first byte, an i64 for each document (not used here), and of a multimodal set an i8 for
/// each sequence (not used either). Immutable, thread safe.
class MegatronIndex {
 public:
  static constexpr std::size_t kHeaderBytes = 34;
  /// Of an index in a store: of 300 million sequences.
  static constexpr std::uint64_t kMostObjectBytes = std::uint64_t{8} << 30;

  /// Fails if the file is no such index, or too short for what its header counts.
  /// A file is mapped. An object of a store, an address, is read into memory.
  static Status Load(const std::string& file, std::shared_ptr<const MegatronIndex>* index);
  /// The same of bytes that `owner` keeps; `file` is for messages.
  static Status Read(const std::string& file, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner,
                     std::shared_ptr<const MegatronIndex>* index);

  /// Whether the file was found shorter than it was. If so, what was read of it before the call may
  /// be zeros in place of numbers.
  bool shrunk() const { return mapping_ != nullptr && mapping_->damaged(); }
  /// The message for that.
  static constexpr const char* kShrunk = "Megatron's index shrank while it was read";

  std::uint64_t sequences() const { return sequences_; }
  /// The elements' type, as the index says.
  DType element_type() const { return element_type_; }
  std::size_t element_bytes() const { return element_bytes_; }
  /// Of sequence i, as the index has it: negative if it is damaged.
  std::int64_t begin(std::uint64_t i) const {
    return LoadOnceLe<std::int64_t>(at(kHeaderBytes + 4 * sequences_ + 8 * i));
  }
  std::int64_t elements(std::uint64_t i) const {
    return LoadOnceLe<std::int32_t>(at(kHeaderBytes + 4 * i));
  }
  std::int64_t bytes(std::uint64_t i) const {
    return elements(i) * static_cast<std::int64_t>(element_bytes_);
  }

 private:
  const std::byte* at(std::uint64_t offset) const { return bytes_.data() + offset; }
  Status ReadHeader(const std::string& file);

  std::shared_ptr<const void> owner_;
  std::shared_ptr<const FileMapping> mapping_;  ///< null if the bytes are in no mapping
  std::span<const std::byte> bytes_;
  std::uint64_t sequences_ = 0;
  std::size_t element_bytes_ = 0;
  DType element_type_ = DType::kUInt8;
};

/// Megatron-LM's indexed dataset: an .idx file (see MegatronIndex) and the .bin file beside it. A
/// record is a sequence: its elements, little-endian, as they are in the .bin file, which is the
/// file that is read. Either file may be named; only the .idx can be detected. A writer gets the
/// name of the .idx file and makes both; it must be told the type of an element.
struct MegatronElement {
  std::uint8_t code = 0;  ///< Megatron-LM's number for the type
  std::size_t bytes = 0;  ///< 0: not told
};

/// "", "u2", "i4", …: what follows "megatron:".
Status ParseMegatronElement(std::string_view text, MegatronElement* element);

std::shared_ptr<const Format> MegatronFormat(const MegatronElement& element);

/// Both files of the pair that either of them names, the .bin file last; others name no pair.
std::vector<std::string> MegatronFiles(const std::string& file);
/// Loads the index of the pair that `file` names, and names its .bin file.
Status LoadMegatronPair(const std::string& file, std::shared_ptr<const MegatronIndex>* index,
                        std::string* data_file);

/// OK if the reader accepts the elements for what the index says that they are.
Status CheckMegatronElements(const MegatronIndex& index, const FramerOptions& options);

/// The damage that a framer reports for a damaged index, or for a .bin file of another size.
struct MegatronDamage {
  std::vector<std::uint64_t> lost;  ///< numbers of sequences, ascending
  std::vector<IndexDamage> ranges;  ///< sorted
};
MegatronDamage FindMegatronDamage(const FramerOptions& options,
                                  std::shared_ptr<const MegatronIndex> index);

/// Cuts a .bin file. If the index is damaged, a sequence is believed if it begins at or after the
/// end of the one before it, and ends at the start of the next one.
std::unique_ptr<Framer> NewMegatronFramer(const FramerOptions& options,
                                          std::shared_ptr<const MegatronIndex> index);

}  // namespace ringfeed
