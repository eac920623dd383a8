#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
/// "float32", "uint8", …
std::string_view DTypeName(DType dtype) noexcept;
/// The type of that name; none where there is no such type.
std::optional<DType> DTypeOfName(std::string_view name) noexcept;

/// Row-major dimensions. In a declaration a negative dimension is a wildcard.
using Shape = std::vector<std::int64_t>;

/// "[64, 13]".
std::string ShapeToString(const Shape& shape);
/// Product of the dimensions; 1 for a scalar. Dimensions must not be negative.
std::int64_t ShapeElements(const Shape& shape);

/// What kind of memory an array lies in.
enum class DeviceType : std::uint8_t {
  kCpu,       ///< host memory
  kCuda,      ///< memory of a CUDA device: the host must not touch it
  kEmulated,  ///< memory of an emulated device: host memory that only the device's work may touch
};

/// Where an array lies.
struct Place {
  DeviceType type = DeviceType::kCpu;
  int device = 0;  ///< of the kind's, from 0; 0 of the CPU
  friend bool operator==(Place, Place) = default;
};

/// "CPU", "CUDA:0", "EMU:1".
std::string PlaceName(Place place);
/// The place of that name, exactly as PlaceName writes it; none where there is no such place.
std::optional<Place> PlaceOfName(std::string_view name) noexcept;

/// A view of an array that keeps its memory alive: copies share `owner`. It lies in host memory
/// unless `place` says otherwise; `data` is then an address of that device's.
/// Ragged data: `data` holds the values of all rows without gaps, and lod[0] the offsets of the
/// rows in elements (rows + 1 of them, starting at 0): Paddle's LoD in offset form. Sequences that
/// records themselves have (LoDTensorParser) may be nested: the top level first, each one's offsets
/// in sequences of the next, the last one's in steps of the first dimension.
struct Tensor {
  DType dtype = DType::kUInt8;
  Shape shape;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::vector<std::span<const std::int64_t>> lod;
  std::shared_ptr<const void> owner;
  Place place{};

  /// The values as T. T must be of the size of dtype. They lie where `owner` keeps them: give what
  /// ReadNext returned a name, as `for (auto x : reader.ReadNext()[0].Values<float>())` lets go of
  /// the batch before its first value (in C++20), and its slot is filled again.
  template <typename T>
  std::span<const T> Values() const {
    return {reinterpret_cast<const T*>(data), bytes / sizeof(T)};
  }
};

/// What one ReadNext delivers: one tensor per declared field, in their order.
using Instance = std::vector<Tensor>;

/// Declares one field of a record: its name, element type and per-record shape.
/// A first dimension of -1 makes the field ragged; other dimensions must be positive.
struct FieldSpec {
  std::string name;
  DType dtype = DType::kUInt8;
  Shape shape;  ///< per record, without the batch dimension; {} is a scalar

  bool ragged() const { return !shape.empty() && shape[0] < 0; }
  /// Bytes of one row of a fixed field; bytes of one step of the first dimension of a ragged one.
  std::size_t unit_bytes() const;
};

}  // namespace ringfeed
