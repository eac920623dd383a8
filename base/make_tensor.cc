#include "base/refuse.h"
#include "ringfeed/slot.h"
#include "ringfeed/status.h"
#include "ringfeed/tensor.h"

namespace ringfeed {
namespace {

/// Whether the size in bytes can be counted. Steps of an empty dimension count, too: a user of the
/// array multiplies them for its strides.
bool CanBe(DType dtype, const Shape& shape) {
  auto bytes = static_cast<std::int64_t>(DTypeBytes(dtype));
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return false;
    if (dimension > 0 && __builtin_mul_overflow(bytes, dimension, &bytes)) return false;
  }
  return true;
}

/// The address of the values of a tensor that has none.
constexpr std::byte kNoValues{};

}  // namespace

Tensor MakeTensorOver(DType dtype, Shape shape, const void* data, std::size_t elements,
                      std::shared_ptr<const void> owner) {
  if (!CanBe(dtype, shape)) Refuse("a tensor of shape " + ShapeToString(shape) + " cannot be");
  const std::int64_t needed = ShapeElements(shape);
  if (needed != static_cast<std::int64_t>(elements)) {
    Refuse("a tensor of shape " + ShapeToString(shape) + " has " + std::to_string(needed) +
           " elements, " + std::to_string(elements) + " were given");
  }
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.data = elements == 0 ? &kNoValues : static_cast<const std::byte*>(data);
  tensor.bytes = elements * DTypeBytes(dtype);
  tensor.owner = std::move(owner);
  return tensor;
}

Tensor WithLoD(Tensor tensor, std::vector<std::vector<std::int64_t>> levels) {
  struct Leveled {
    std::vector<std::vector<std::int64_t>> levels;
    std::shared_ptr<const void> values;
  };
  auto owner = std::make_shared<Leveled>(Leveled{std::move(levels), std::move(tensor.owner)});
  tensor.lod.assign(owner->levels.begin(), owner->levels.end());
  tensor.owner = std::move(owner);
  const SlotSpec slot{"", tensor.dtype, tensor.shape, tensor.lod.size()};
  const Status fits = CheckTensor(slot, tensor);
  if (!fits.ok()) throw Error(fits);
  return tensor;
}

std::vector<std::int64_t> OffsetsOf(const std::vector<std::int64_t>& row_lengths) {
  std::vector<std::int64_t> offsets = {0};
  offsets.reserve(row_lengths.size() + 1);
  for (const std::int64_t length : row_lengths) {
    if (length < 0) Refuse("a row of " + std::to_string(length) + " steps cannot be");
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

Tensor MakeBytes(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const char* const data = owner->data();
  const std::size_t count = owner->size();
  return MakeTensorOver(kUInt8, {static_cast<std::int64_t>(count)}, data, count, std::move(owner));
}

Tensor MakeRagged(const std::vector<std::string>& rows) {
  std::string bytes;
  std::vector<std::int64_t> lengths;
  for (const std::string& row : rows) {
    bytes += row;
    lengths.push_back(static_cast<std::int64_t>(row.size()));
  }
  return WithLoD(MakeBytes(std::move(bytes)), {OffsetsOf(lengths)});
}

}  // namespace ringfeed
