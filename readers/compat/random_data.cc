#include "ringfeed/compat/random_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/philox.h"
#include "base/refuse.h"

namespace ringfeed {
namespace {

[[noreturn]] void RefuseData(const std::string& why) { Refuse("random data: " + why); }

/// A form of numbers in 16 bits: a sign, an exponent and a mantissa of so many bits, as IEEE 754
/// has them.
template <int kMantissaBits>
struct ShortFloat {
  static constexpr int kBias = (1 << (14 - kMantissaBits)) - 1;
  static constexpr std::uint16_t kSign = 0x8000;

  /// The value of a finite number.
  static double ValueOf(std::uint16_t bits) {
    constexpr int kImplied = 1 << kMantissaBits;
    const int exponent = (bits & ~kSign) >> kMantissaBits;
    const int mantissa = bits & (kImplied - 1);
    const double size = exponent == 0
                            ? std::ldexp(mantissa, 1 - kBias - kMantissaBits)
                            : std::ldexp(kImplied + mantissa, exponent - kBias - kMantissaBits);
    return (bits & kSign) != 0 ? -size : size;
  }
  /// The largest one that is not above `value`, which is in the form's range.
  static std::uint16_t Below(double value) {
    int exponent = 1 - kBias;  // of all numbers below the normal ones
    if (std::abs(value) >= std::ldexp(1, exponent)) exponent = std::ilogb(value);
    const double steps = std::floor(std::ldexp(value, kMantissaBits - exponent));
    // A normal number's leading bit adds itself to the exponent.
    const int size = ((exponent + kBias - 1) << kMantissaBits) + static_cast<int>(std::abs(steps));
    return static_cast<std::uint16_t>(std::signbit(value) ? kSign | size : size);
  }
  /// The smallest one that is not below `value`, which is in the form's range.
  static std::uint16_t AtLeast(double value) {
    return static_cast<std::uint16_t>(Below(-value) ^ kSign);
  }
};
using Float16 = ShortFloat<10>;
using BFloat16 = ShortFloat<7>;

float FloatAtLeast(double value) {
  const auto near = static_cast<float>(value);
  return static_cast<double>(near) < value
             ? std::nextafter(near, std::numeric_limits<float>::infinity())
             : near;
}

// The whole numbers between the ends: the lowest, and how many.
struct WholeNumbers {
  double first = 0;
  double count = 0;
};

constexpr std::size_t kMostBytes = std::size_t{1} << 40;

class RandomReader final : public InstanceSource {
 public:
  RandomReader(std::vector<SlotSpec> slots, const RandomDataOptions& options)
      : slots_(std::move(slots)),
        options_(options),
        whole_{std::ceil(options.low), std::ceil(options.high) - std::ceil(options.low)} {}

  std::vector<SlotSpec> slots() const override { return slots_; }
  bool Ready() const override { return true; }
  bool ReInit() override {
    next_ = 0;
    return true;
  }
  ReadResult ReadNext(Instance* instance, std::stop_token /*stop*/, Status* /*status*/) override {
    if (options_.count != 0 && next_ == options_.count) return ReadResult::kEnd;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
      instance->push_back(MakeTensor(static_cast<std::uint32_t>(slot)));
    }
    ++next_;
    return ReadResult::kRecord;
  }

 private:
  Tensor MakeTensor(std::uint32_t slot) const;
  double Fraction(std::uint32_t slot, std::uint64_t value) const;
  template <typename T>
  T Number(std::uint32_t slot, std::uint64_t value) const;
  template <typename Form>
  void FillShort(std::uint32_t slot, std::span<std::byte> to) const;
  template <typename T, typename Make>
  static void Fill(std::span<std::byte> to, Make make);
  void FillAs(DType dtype, std::uint32_t slot, std::span<std::byte> to) const;

  const std::vector<SlotSpec> slots_;
  const RandomDataOptions options_;
  const WholeNumbers whole_;
  std::uint64_t next_ = 0;
};

// In [0, 1), of 53 bits.
double RandomReader::Fraction(std::uint32_t slot, std::uint64_t value) const {
  constexpr auto kPurpose = static_cast<std::uint32_t>(DrawPurpose::kRandomData);
  constexpr unsigned kPurposeBits = 8;
  const auto words = Philox4x32(
      {static_cast<std::uint32_t>(value / 2), static_cast<std::uint32_t>(next_),
       kPurpose | slot << kPurposeBits, static_cast<std::uint32_t>(next_ >> 32)},
      {static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)});
  const std::size_t at = value % 2 * 2;
  const std::uint64_t bits = std::uint64_t{words[at]} << 32 | words[at + 1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

template <typename T>
T RandomReader::Number(std::uint32_t slot, std::uint64_t value) const {
  const double fraction = Fraction(slot, value);
  if constexpr (std::is_floating_point_v<T>) {
    const double spread = options_.low + fraction * (options_.high - options_.low);
    if (options_.low == options_.high) return static_cast<T>(spread);
    // Rounding may reach the upper end, or fall below the lower one.
    const T below = std::nextafter(static_cast<T>(options_.high), static_cast<T>(options_.low));
    const T rounded = std::min(static_cast<T>(spread), below);
    if constexpr (std::is_same_v<T, float>) return std::max(rounded, FloatAtLeast(options_.low));
    return rounded;
  } else {
    return static_cast<T>(whole_.first + std::floor(fraction * whole_.count));
  }
}

template <typename T, typename Make>
void RandomReader::Fill(std::span<std::byte> to, Make make) {
  for (std::size_t i = 0; i < to.size() / sizeof(T); ++i) {
    const T value = make(i);
    std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
  }
}

// Numbers are cut off, so that they stay below the upper end.
template <typename Form>
void RandomReader::FillShort(std::uint32_t slot, std::span<std::byte> to) const {
  const bool open_end = options_.low < options_.high;
  const std::uint16_t least = Form::AtLeast(options_.low);
  Fill<std::uint16_t>(to, [&](std::uint64_t i) {
    const std::uint16_t cut = Form::Below(static_cast<double>(Number<float>(slot, i)));
    return open_end && Form::ValueOf(cut) < options_.low ? least : cut;
  });
}

void RandomReader::FillAs(DType dtype, std::uint32_t slot, std::span<std::byte> to) const {
  const auto fill = [&]<typename T>(T /*type*/) {
    Fill<T>(to, [&](std::uint64_t i) { return Number<T>(slot, i); });
  };
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return fill(std::uint8_t{});
    case DType::kInt8:
      return fill(std::int8_t{});
    case DType::kUInt16:
      return fill(std::uint16_t{});
    case DType::kInt16:
      return fill(std::int16_t{});
    case DType::kUInt32:
      return fill(std::uint32_t{});
    case DType::kInt32:
      return fill(std::int32_t{});
    case DType::kUInt64:
      return fill(std::uint64_t{});
    case DType::kInt64:
      return fill(std::int64_t{});
    case DType::kFloat32:
      return fill(float{});
    case DType::kFloat64:
      return fill(double{});
    case DType::kFloat16:
      return FillShort<Float16>(slot, to);
    case DType::kBFloat16:
      return FillShort<BFloat16>(slot, to);
  }
}

Tensor RandomReader::MakeTensor(std::uint32_t slot) const {
  const SlotSpec& spec = slots_[slot];
  Tensor tensor;
  tensor.dtype = spec.dtype;
  tensor.shape = spec.dims;
  tensor.bytes = static_cast<std::size_t>(ShapeElements(spec.dims)) * DTypeBytes(spec.dtype);
  std::shared_ptr<std::byte[]> values(new std::byte[std::max<std::size_t>(1, tensor.bytes)]);
  FillAs(spec.dtype, slot, {values.get(), tensor.bytes});
  tensor.data = values.get();
  tensor.owner = std::move(values);
  return tensor;
}

struct Range {
  double least = 0;
  double most = 0;
};
bool IsWhole(DType dtype) {
  return dtype != DType::kFloat16 && dtype != DType::kBFloat16 && dtype != DType::kFloat32 &&
         dtype != DType::kFloat64;
}

Range RangeOf(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  if (dtype == DType::kFloat16) return {-65504, 65504};
  if (!IsWhole(dtype)) return {-3.0e38, 3.0e38};
  constexpr double kMost = 0x1p53;  // a double has all whole numbers up to it
  const bool has_sign = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 ||
                        dtype == DType::kInt64;
  const auto bits = static_cast<int>(8 * DTypeBytes(dtype));
  const double end = std::ldexp(1, has_sign ? bits - 1 : bits);
  return {has_sign ? -std::min(end, kMost) : 0, std::min(end - 1, kMost)};
}

// The smallest number of a floating type at or above `value`, which is in its range.
double AtLeastIn(DType dtype, double value) {
  if (dtype == DType::kFloat16) return Float16::ValueOf(Float16::AtLeast(value));
  if (dtype == DType::kBFloat16) return BFloat16::ValueOf(BFloat16::AtLeast(value));
  return dtype == DType::kFloat32 ? static_cast<double>(FloatAtLeast(value)) : value;
}

void CheckSlot(const SlotSpec& slot, const RandomDataOptions& options) {
  const std::string name = "slot \"" + slot.name + "\" ";
  if (slot.lod_levels > 0) RefuseData(name + "has levels of LoD");
  const bool open =
      std::any_of(slot.dims.begin(), slot.dims.end(), [](auto dim) { return dim < 0; });
  if (open) RefuseData(name + "has an open dimension: " + ShapeToString(slot.dims));
  std::size_t bytes = DTypeBytes(slot.dtype);
  for (const std::int64_t dim : slot.dims) {
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes) ||
        bytes > kMostBytes) {
      RefuseData(name + "of " + ShapeToString(slot.dims) + " has more than 2^40 bytes");
    }
  }
  const Range range = RangeOf(slot.dtype);
  const bool whole = IsWhole(slot.dtype);
  const bool open_end = options.low < options.high;
  const double most = whole && open_end ? std::ceil(options.high) - 1 : options.high;
  const bool beyond = options.low < range.least || most > range.most;
  const bool none = whole
                        ? std::ceil(options.low) > most
                        : !beyond && open_end && AtLeastIn(slot.dtype, options.low) >= options.high;
  if (beyond || none) {
    RefuseData(name + "of " + std::string(DTypeName(slot.dtype)) + " does not hold numbers from " +
               std::to_string(options.low) + " to " + (open_end ? "below " : "") +
               std::to_string(options.high));
  }
}

}  // namespace

Reader RandomData(std::vector<SlotSpec> slots, const RandomDataOptions& options,
                  const OpenOptions& open) {
  if (!(options.low <= options.high)) {
    RefuseData("low (" + std::to_string(options.low) + ") must not be above high (" +
               std::to_string(options.high) + ")");
  }
  for (const SlotSpec& slot : slots) CheckSlot(slot, options);
  return FromInstanceSource(std::make_unique<RandomReader>(std::move(slots), options), open);
}

}  // namespace ringfeed
