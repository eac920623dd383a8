// Which records of a data set are read: a file that WriteSubset writes, and OpenOptions::subset
// names.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/index/kept_file.h"
#include "readers/order/position.h"
#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The first bytes of a subset. The numbers of the kept records follow, ascending, `width` bytes
/// each; the file ends with the last one.
struct SubsetHeader {
  static constexpr std::string_view kMagic{"ringfeed subset\0", 16};
  static constexpr std::uint32_t kVersion = 1;

  std::array<char, 16> magic{};
  std::uint32_t version = 0;
  std::uint32_t checksum = 0;  ///< CRC-32C of the header with zero here
  // Of the data, as DataFingerprint.
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t sizes = 0;
  std::uint64_t samples = 0;
  std::uint64_t count = 0;             ///< of the numbers
  std::uint64_t digest = 0;            ///< MixedHash of the numbers, eight bytes each
  std::uint32_t numbers_checksum = 0;  ///< CRC-32C of their bytes
  std::uint32_t width = 0;             ///< 4, or 8 if the data have more than 2^32 records
  std::uint32_t parts = 0;             ///< that are set
  std::uint32_t unused = 0;
  std::array<std::uint16_t, DataFingerprint::kMostParts> part{};
};
static_assert(sizeof(SubsetHeader) == 16 + 8 + 7 * 8 + 16 + 2 * DataFingerprint::kMostParts);

/// Makes the bytes of a subset. `numbers` ascend, and are below data.records.
std::vector<std::byte> EncodeSubset(std::span<const std::uint64_t> numbers,
                                    const DataFingerprint& data);

/// A subset that was opened: mapped, if the system can, and checked as a whole. Thread safe.
class SubsetFile final : public KeptRows {
 public:
  /// Takes bytes that EncodeSubset made. kDamaged if they are no such, kInvalidArgument if they are
  /// of another version.
  static Status Open(StoredIndex stored, std::shared_ptr<const SubsetFile>* subset);
  SubsetFile(StoredIndex stored, const SubsetHeader& header);

  std::uint64_t count() const override { return header_.count; }
  RowNumber all() const override { return header_.records; }
  std::uint64_t Before(RowNumber row) const override;
  Status ToRows(std::span<RowNumber> numbers) const override;

  /// Of the data set that it is of.
  DataFingerprint data() const;
  /// Tells it from other subsets of the same data, for positions.
  std::uint64_t digest() const { return header_.digest; }

 private:
  RowNumber At(std::uint64_t number) const;
  Status CheckNumbers() const;

  const StoredIndex stored_;
  const SubsetHeader header_;
  const std::span<const std::byte> numbers_;
};

/// Writes what EncodeSubset makes: others see all of it or nothing. Blocks. Throws Error.
void SaveSubset(const std::string& path, std::span<const std::uint64_t> numbers,
                const DataFingerprint& data);
/// Opens the subset at `path`. Blocks. Throws Error, with its name and a remedy, if it cannot be
/// read or is damaged.
std::shared_ptr<const SubsetFile> OpenSubset(const std::string& path);
/// Throws Error, with what differs and a remedy, if the subset at `path` is of other data than
/// these.
void CheckSubset(const SubsetFile& subset, const std::string& path, const DataFingerprint& data);

}  // namespace ringfeed
