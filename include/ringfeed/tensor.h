#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringfeed {

/// Element types. Values are stable.
enum class DType : std::uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

inline constexpr DType kBool = DType::kBool;
inline constexpr DType kUInt8 = DType::kUInt8;
inline constexpr DType kInt8 = DType::kInt8;
inline constexpr DType kUInt16 = DType::kUInt16;
inline constexpr DType kInt16 = DType::kInt16;
inline constexpr DType kUInt32 = DType::kUInt32;
inline constexpr DType kInt32 = DType::kInt32;
inline constexpr DType kUInt64 = DType::kUInt64;
inline constexpr DType kInt64 = DType::kInt64;
inline constexpr DType kFloat16 = DType::kFloat16;
inline constexpr DType kBFloat16 = DType::kBFloat16;
inline constexpr DType kFloat32 = DType::kFloat32;
inline constexpr DType kFloat64 = DType::kFloat64;

/// Bytes of one element.
std::size_t DTypeBytes(DType dtype) noexcept;
/// The dtype's name: "float32", "uint8", …
std::string_view DTypeName(DType dtype) noexcept;
/// The type of that name; none if there is no such type.
std::optional<DType> DTypeOfName(std::string_view name) noexcept;

/// The natural dtype of T's values: bool is kBool; std::byte, char and unsigned char are kUInt8;
/// other integers go by their size and sign, float and double by their size. Other types do not
/// compile.
template <typename T>
constexpr DType DTypeOf() {
  using Value = std::remove_cv_t<T>;
  constexpr bool kIsBytes = std::is_same_v<Value, std::byte> || std::is_same_v<Value, char>;
  constexpr bool kIsReal = std::is_same_v<Value, float> || std::is_same_v<Value, double>;
  static_assert(kIsBytes || kIsReal || (std::is_integral_v<Value> && sizeof(Value) <= 8),
                "tensors have no elements of this type");
  if constexpr (std::is_same_v<Value, bool>) return kBool;
  if constexpr (kIsBytes) return kUInt8;
  if constexpr (kIsReal) return sizeof(Value) == 4 ? kFloat32 : kFloat64;
  constexpr bool kIsSigned = std::is_signed_v<Value>;
  if constexpr (sizeof(Value) == 1) return kIsSigned ? kInt8 : kUInt8;
  if constexpr (sizeof(Value) == 2) return kIsSigned ? kInt16 : kUInt16;
  if constexpr (sizeof(Value) == 4) return kIsSigned ? kInt32 : kUInt32;
  return kIsSigned ? kInt64 : kUInt64;
}
/// Whether elements of `dtype` may be taken as T: if it is DTypeOf<T>(). std::uint8_t may stand for
/// kBool besides, and std::uint16_t for kFloat16 and kBFloat16, which C++20 has no types for.
template <typename T>
constexpr bool IsElementOf(DType dtype) {
  using Value = std::remove_cv_t<T>;
  if (std::is_same_v<Value, std::uint8_t> && dtype == kBool) return true;
  const bool is_half = dtype == kFloat16 || dtype == kBFloat16;
  return dtype == DTypeOf<T>() || (std::is_same_v<Value, std::uint16_t> && is_half);
}

/// Row-major dimensions. In a declaration a negative dimension is a wildcard.
using Shape = std::vector<std::int64_t>;

/// The shape as a text: "[64, 13]".
std::string ShapeToString(const Shape& shape);
/// Product of the dimensions, at most INT64_MAX; 1 for a scalar. None may be negative.
std::int64_t ShapeElements(const Shape& shape);

/// The kind of memory that an array lies in.
enum class DeviceType : std::uint8_t {
  kCpu,       ///< host memory
  kCuda,      ///< memory of a CUDA device: the host must not touch it
  kEmulated,  ///< memory of an emulated device: host memory that only the device's work may touch
};

/// The memory that an array lies in, by its device.
struct Place {
  DeviceType type = DeviceType::kCpu;
  int device = 0;  ///< of the kind's, from 0; 0 of the CPU
  friend bool operator==(Place, Place) = default;
};

/// The place's name: "CPU", "CUDA:0", "EMU:1".
std::string PlaceName(Place place);
/// The place of that name, exactly as PlaceName writes it; none if there is no such place.
std::optional<Place> PlaceOfName(std::string_view name) noexcept;

/// Throws Error(kInvalidArgument), which names both: elements of `found` cannot be taken as
/// `asked`.
[[noreturn]] void RefuseDType(DType found, DType asked);

/// A view of an array that keeps its memory alive. Copies share `owner`, and the memory goes with
/// the last of them. It lies in host memory unless `place` says otherwise; `data` is then an
/// address of that device. MakeTensor makes one of values of your own.
///
/// Ragged data: `data` holds the values of all rows without gaps, and lod[0] the offsets of the
/// rows in steps of the first dimension (rows + 1 of them, from 0): Paddle's LoD in offset form.
/// Levels may be nested (LoDTensorParser): the top level comes first, the offsets of each one count
/// sequences of the next, those of the last one count steps of the first dimension.
///
/// Thread safety: that of a struct. What `data` and `lod` show does not change while it is held.
struct Tensor {
  DType dtype = DType::kUInt8;
  Shape shape;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::vector<std::span<const std::int64_t>> lod;
  std::shared_ptr<const void> owner;
  Place place{};

  /// The values as T, all in one piece. They are kept as long as this tensor or a copy of it is
  /// held, so a temporary tensor does not compile: give it a name. Throws Error(kInvalidArgument)
  /// with both names if T is no element of `dtype` (IsElementOf).
  template <typename T>
  std::span<const T> Values() const& {
    if (!IsElementOf<T>(dtype)) RefuseDType(dtype, DTypeOf<T>());
    return {reinterpret_cast<const T*>(data), bytes / sizeof(T)};
  }
  template <typename T>
  std::span<const T> Values() const&& = delete;
};

/// @file
/// @details MakeTensor and the functions below it make tensors of values of your own, for a reader
/// of your own (InstanceSource) or for a queue. These own their values, which are moved there, not
/// copied, and lie in host memory. T is a number type, bool, char or std::byte; the dtype is
/// DTypeOf<T>(). Values that do not fit together throw Error(kInvalidArgument) with both numbers.
/// Thread safe.

/// A tensor over memory that `owner` keeps: `elements` of `dtype`, in `shape`. Throws if the shape
/// has another number of elements or a negative dimension.
Tensor MakeTensorOver(DType dtype, Shape shape, const void* data, std::size_t elements,
                      std::shared_ptr<const void> owner);

/// The tensor with levels of LoD, the top one first, as Tensor::lod has them: offsets from 0 that
/// ascend. Each level ends at the number of sequences of the next, the last one at the tensor's
/// first dimension; throws otherwise. The offsets are moved here, the values stay where they are.
Tensor WithLoD(Tensor tensor, std::vector<std::vector<std::int64_t>> levels);
/// The offsets of rows of these lengths: {2, 3} gives {0, 2, 5}. Throws if a length is negative.
std::vector<std::int64_t> OffsetsOf(const std::vector<std::int64_t>& row_lengths);

/// A tensor of `shape`, row by row, whose elements are of `dtype`, which T may stand for
/// (IsElementOf): std::uint16_t for kBFloat16, for example.
template <typename T>
Tensor MakeTensor(DType dtype, Shape shape, std::vector<T> values) {
  if (!IsElementOf<T>(dtype)) RefuseDType(dtype, DTypeOf<T>());
  if constexpr (std::is_same_v<T, bool>) {
    // std::vector<bool> has no bools to point at.
    const std::size_t count = values.size();
    std::shared_ptr<bool[]> bools(new bool[count]);
    for (std::size_t at = 0; at < count; ++at) bools[at] = values[at];
    const bool* const data = bools.get();
    return MakeTensorOver(dtype, std::move(shape), data, count, std::move(bools));
  } else {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    const T* const data = owner->data();
    const std::size_t count = owner->size();
    return MakeTensorOver(dtype, std::move(shape), data, count, std::move(owner));
  }
}
/// A tensor of `shape`, row by row: `MakeTensor({2, 3}, std::vector<float>{…})`.
template <typename T>
Tensor MakeTensor(Shape shape, std::vector<T> values) {
  return MakeTensor(DTypeOf<T>(), std::move(shape), std::move(values));
}
/// A tensor of one dimension.
template <typename T>
Tensor MakeTensor(std::vector<T> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return MakeTensor(DTypeOf<T>(), {count}, std::move(values));
}
/// A tensor of no dimensions: one value.
template <typename T>
Tensor MakeScalar(T value) {
  return MakeTensor({}, std::vector<T>(1, value));
}
/// The bytes of a string: uint8 [bytes].
Tensor MakeBytes(std::string bytes);

/// Rows of different lengths: their values one after another, and lod[0] with their offsets. Each
/// value is a step of shape `step`, one element if that is {}. Throws if the lengths add up to
/// another number of steps.
template <typename T>
Tensor MakeRagged(std::vector<T> values, const std::vector<std::int64_t>& row_lengths,
                  const Shape& step = {}) {
  std::vector<std::int64_t> offsets = OffsetsOf(row_lengths);
  Shape shape = step;
  shape.insert(shape.begin(), offsets.back());
  Tensor tensor = MakeTensor(std::move(shape), std::move(values));
  return WithLoD(std::move(tensor), {std::move(offsets)});
}
/// The same from a vector for each row: their elements are copied.
template <typename T>
Tensor MakeRagged(const std::vector<std::vector<T>>& rows) {
  std::vector<T> values;
  std::vector<std::int64_t> lengths;
  for (const std::vector<T>& row : rows) {
    values.insert(values.end(), row.begin(), row.end());
    lengths.push_back(static_cast<std::int64_t>(row.size()));
  }
  return MakeRagged(std::move(values), lengths);
}
/// The bytes of a string for each row: ragged uint8. They are copied.
Tensor MakeRagged(const std::vector<std::string>& rows);

/// Declares one field of a record: its name, element type and per-record shape.
/// A first dimension of -1 makes the field ragged; other dimensions must be positive.
struct FieldSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;  ///< per record, without the batch dimension; {} is a scalar
  /// What the numbers stand for, as Arrow spells it: "timestamp[us]", "decimal128(10, 2)". Columns
  /// of tables have it, if their type is a time or a decimal; else it is empty.
  std::string logical_type{};

  bool ragged() const { return !shape.empty() && shape[0] < 0; }
  /// Bytes of one row of a fixed field; bytes of one step of the first dimension of a ragged one.
  std::size_t unit_bytes() const;
  bool operator==(const FieldSpec&) const = default;
};

}  // namespace ringfeed
