#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/builders/wire_format.h"
#include "readers/parsers/parser.h"
#include "ringfeed/slot.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

inline constexpr std::size_t kMostLodLevels = 16;

/// What a tensor of a record must be.
struct TensorField {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;                 ///< a first dimension of -1 is any number of rows
  std::size_t lod_levels = 0;  ///< above 0 only with such a dimension
  std::size_t unit_bytes = 0;  ///< of a row, or of all of a fixed one

  bool ragged() const { return !shape.empty() && shape[0] < 0; }
};

/// Throws Error(kInvalidArgument), which begins with `parser` and calls a tensor `noun`, if there
/// is none, one is named twice or one cannot be a tensor of a batch.
std::vector<TensorField> MakeTensorFields(std::span<const SlotSpec> slots,
                                          const std::string& parser, const std::string& noun);

/// The dimensions of a tensor as Protobuf has them, packed or not.
struct TensorDims {
  // Above what Paddle's own tensors can have, which is 9.
  static constexpr std::size_t kMost = 16;

  bool Read(WireReader* reader);
  bool ReadPacked(WireReader* reader);

  std::array<std::int64_t, kMost> values;  // the first of them
  std::size_t rank = 0;                    // also above kMost
};

/// Reads one record of tensors. Checks each tensor against what must be there, in the order of its
/// levels of LoD, its dimensions and its values, and locates it. A level's location is its offsets
/// without the first, which is 0. If a call returns false, status() names tensor, byte and what was
/// expected: kDamaged, or kUnsupported for 4 GiB and more.
class TensorRecordReader {
 public:
  const Status& status() const { return status_; }

 protected:
  /// Failures call a tensor `noun`, which must outlive this.
  TensorRecordReader(std::string_view noun, std::span<const std::byte> record)
      : record_(record), noun_(noun) {}

  /// The tensor that is read next; null: no tensor.
  void StartTensor(const TensorField* field);
  const TensorField& field() const { return *field_; }
  std::span<const std::byte> record() const { return record_; }
  /// The place of a byte in the record.
  std::size_t PlaceOf(const std::byte* at) const {
    return static_cast<std::size_t>(at - record_.data());
  }
  /// Always false.
  bool Fail(std::size_t at, const std::string& why, StatusCode code = StatusCode::kDamaged);

  /// How many levels the record says that there are; it says so at `at`.
  bool CheckLevels(std::size_t at, std::uint64_t levels);
  /// The next level, whose offsets are 8 bytes each, one at least; their length is at `at`.
  bool LocateLevel(std::size_t at, std::span<const std::byte> offsets, FieldLocation* location);
  /// Sets `units` to the rows that there must be, 1 for a fixed tensor. No dtype: the record's
  /// number, `type`, means none.
  bool CheckDims(std::size_t at, std::optional<DType> dtype, std::uint64_t type,
                 const TensorDims& dims, std::uint64_t* units);
  /// The values, of which there are units * field().unit_bytes.
  bool LocateValues(std::span<const std::byte> values, std::uint64_t units,
                    FieldLocation* location);

 private:
  const std::span<const std::byte> record_;
  const std::string_view noun_;
  const TensorField* field_ = nullptr;
  std::size_t levels_ = 0;       // located so far
  std::uint64_t level_end_ = 0;  // what the last of them reaches to
  Status status_;
};

}  // namespace ringfeed
