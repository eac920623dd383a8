#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "base/stream_copy.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/field_text.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kStageBytes = 8 * 1024;
// Numbers that are converted at a time: they fit into the stage.
constexpr std::size_t kMostNumbers = 512;
// A row stays far below the largest count of bytes.
constexpr std::int64_t kMostElements = std::int64_t{1} << 28;

// How numbers of one type become those of another.
struct Conversion {
  /// The first of `count` numbers that the other type cannot hold; `count` if there is none. Null
  /// if the type holds all.
  std::size_t (*find_outside)(const std::byte* from, std::size_t count) = nullptr;
  /// Null if they stay as they are.
  void (*convert)(const std::byte* from, std::size_t count, std::byte* to) = nullptr;
};

template <typename From, typename To>
std::size_t FindOutside(const std::byte* from, std::size_t count) {
  std::size_t at = 0;
  while (at < count && std::in_range<To>(LoadLe<From>(from + at * sizeof(From)))) ++at;
  return at;
}

template <typename From, typename To>
void Convert(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    StoreLe(to + i * sizeof(To), static_cast<To>(LoadLe<From>(from + i * sizeof(From))));
  }
}

template <typename From, typename To>
constexpr Conversion ConversionOf() {
  if constexpr (std::is_same_v<From, To>) return {};
  const bool fits = std::in_range<To>(std::numeric_limits<From>::min()) &&
                    std::in_range<To>(std::numeric_limits<From>::max());
  return {fits ? nullptr : FindOutside<From, To>, Convert<From, To>};
}

[[noreturn]] void RefuseArray(const std::string& why) { Refuse("tokens parser: " + why); }

template <typename To>
Conversion ConversionFrom(DType from) {
  switch (from) {
    case DType::kUInt8:
      return ConversionOf<std::uint8_t, To>();
    case DType::kInt8:
      return ConversionOf<std::int8_t, To>();
    case DType::kUInt16:
      return ConversionOf<std::uint16_t, To>();
    case DType::kInt16:
      return ConversionOf<std::int16_t, To>();
    case DType::kUInt32:
      return ConversionOf<std::uint32_t, To>();
    case DType::kInt32:
      return ConversionOf<std::int32_t, To>();
    case DType::kUInt64:
      return ConversionOf<std::uint64_t, To>();
    case DType::kInt64:
      return ConversionOf<std::int64_t, To>();
    default:
      RefuseArray(std::string(DTypeName(from)) + " is not converted, integers are");
  }
}

Conversion FindConversion(DType from, DType to) {
  if (from == to) return {};
  if (to == DType::kInt32) return ConversionFrom<std::int32_t>(from);
  if (to == DType::kInt64) return ConversionFrom<std::int64_t>(from);
  RefuseArray("numbers become int32 or int64, not " + std::string(DTypeName(to)));
}

struct Unit {
  std::size_t unit_bytes = 0;
};

struct TokensScratch final : Parser::Scratch {
  StagedColumns columns{1, kStageBytes};
};

// Records that are arrays of numbers of one type, bytes among them.
class ArrayParser final : public Parser {
 public:
  /// `takes_bytes`: takes records of any content.
  ArrayParser(std::string parser, const TokensSpec& spec, bool takes_bytes)
      : parser_(std::move(parser)),
        takes_bytes_(takes_bytes),
        dtype_(spec.dtype),
        conversion_(FindConversion(spec.dtype, spec.as.value_or(spec.dtype))) {
    FieldRow row;
    if (const char* why = SetFieldRow({spec.name, dtype_, spec.shape}, kMostElements, &row)) {
      RefuseArray(why);
    }
    record_unit_bytes_ = row.unit_bytes;
    fields_ = {{spec.name, spec.as.value_or(dtype_), spec.shape}};
    unit_[0].unit_bytes = fields_[0].unit_bytes();
    two_phase_ = true;
    units_alike_ = true;
  }

  std::string name() const override { return parser_; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<TokensScratch>(); }

  // A chain that takes bytes knows that they are.
  Status CheckElements(const FileElements& elements) const override {
    return takes_bytes_ ? Status() : CheckElementType(elements, dtype_);
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch*,
              std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status = LocateOne(rows[row], locations + row);
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
  }
  bool CopiesBytesOf(std::size_t) const override { return conversion_.convert == nullptr; }
  bool ReadsBytes() const override { return conversion_.convert != nullptr; }
  std::span<const std::byte> BytesOf(std::size_t, const RecordSpan&,
                                     const FieldLocation& at) const override {
    return {at.data, at.bytes};
  }
  FieldLengths LengthsOf(std::size_t) const override {
    if (takes_bytes_) return {parser_, RawParser(), record_unit_bytes_};
    return {parser_ + ": " + FieldText({"", dtype_, fields_[0].shape, {}}),
            TokensParser({dtype_, fields_[0].shape}), record_unit_bytes_};
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  Status LocateOne(const RecordSpan& row, FieldLocation* location) const;
  void AppendConverted(const FieldLocation& at, ColumnStager* stager) const;

  const std::string parser_;
  const bool takes_bytes_;
  const DType dtype_;  // as records hold it
  const Conversion conversion_;
  std::size_t record_unit_bytes_ = 0;
  Unit unit_[1];
};

Status ArrayParser::LocateOne(const RecordSpan& row, FieldLocation* location) const {
  if (row.size > std::numeric_limits<std::uint32_t>::max()) {
    return Status(StatusCode::kUnsupported, "a field of 4 GiB and more is not supported");
  }
  const bool ragged = fields_[0].ragged();
  if (ragged ? row.size % record_unit_bytes_ != 0 : row.size != record_unit_bytes_) {
    // A file seldom ends with a whole block, and drops the rest only if it is told to.
    const bool may_be_tail = !ragged && !takes_bytes_ && row.size < record_unit_bytes_ &&
                             row.size % DTypeBytes(dtype_) == 0;
    return Status(StatusCode::kDamaged,
                  "a record of " + std::to_string(row.size) + " bytes where " +
                      std::string(DTypeName(dtype_)) + ShapeToString(fields_[0].shape) +
                      (ragged ? " takes a multiple of " : " takes ") +
                      std::to_string(record_unit_bytes_) +
                      (may_be_tail ? ": if it is the short block at the end of a file, the format "
                                     "tokens leaves it out with tail=drop"
                                   : ""));
  }
  if (conversion_.find_outside != nullptr) {
    const std::size_t count = row.size / DTypeBytes(dtype_);
    const std::size_t outside = conversion_.find_outside(row.data, count);
    if (outside != count) {
      return Status(StatusCode::kDamaged,
                    "number " + std::to_string(outside) + " of the record is none that " +
                        std::string(DTypeName(fields_[0].dtype)) + " can hold");
    }
  }
  *location = {row.data, static_cast<std::uint32_t>(row.size),
               static_cast<std::uint32_t>(row.size / record_unit_bytes_), 0};
  return {};
}

void ArrayParser::AppendConverted(const FieldLocation& at, ColumnStager* stager) const {
  const std::size_t from_bytes = DTypeBytes(dtype_);
  const std::size_t to_bytes = DTypeBytes(fields_[0].dtype);
  const std::size_t count = at.bytes / from_bytes;
  for (std::size_t done = 0; done < count;) {
    const std::size_t some = std::min(kMostNumbers, count - done);
    if (some * to_bytes > stager->room()) stager->Flush();
    conversion_.convert(at.data + done * from_bytes, some, stager->next());
    stager->Advance(some * to_bytes);
    done += some;
  }
}

// After a shuffle the next arrays may be anywhere. A short array is fetched some arrays ahead. The
// missing part of the next one is fetched beside this one's stores.
[[gnu::always_inline]] inline void FetchArrays(std::span<const FieldLocation> arrays) {
  constexpr std::size_t kAhead = 3;
  constexpr std::size_t kShortBytes = 4096;
  constexpr std::size_t kLine = 64;
  if (arrays.size() > kAhead && arrays[kAhead].bytes <= kShortBytes) {
    const std::byte* const array = arrays[kAhead].data;
    for (std::size_t at = 0; at < arrays[kAhead].bytes; at += kLine) __builtin_prefetch(array + at);
  }
  if (arrays.size() > 1) SetStreamCompanion(arrays[1].data, arrays[1].bytes);
}

void ArrayParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                        std::span<const ColumnTarget> targets, Scratch* scratch,
                        std::vector<RowFailure>*) const {
  auto* own = static_cast<TokensScratch*>(scratch);
  own->columns.Start(unit_, targets);
  std::int64_t* const offsets = targets[0].offsets;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const FieldLocation& at = locations[row];
    if (offsets != nullptr) offsets[row + 1] = offsets[row] + at.units;
    if (targets[0].data == nullptr) continue;
    FetchArrays(std::span(locations, rows.size()).subspan(row));
    if (conversion_.convert == nullptr) {
      own->columns[0].Append(at.data, at.bytes);
    } else {
      AppendConverted(at, &own->columns[0]);
    }
  }
  own->columns.Finish();
}

}  // namespace

std::shared_ptr<const Parser> RawParser() {
  static const auto kParser = std::make_shared<const ArrayParser>(
      "raw", TokensSpec{DType::kUInt8, {-1}, std::nullopt, "bytes"}, true);
  return kParser;
}

std::shared_ptr<const Parser> TokensParser(const TokensSpec& spec) {
  return std::make_shared<const ArrayParser>("tokens", spec, false);
}

}  // namespace ringfeed
