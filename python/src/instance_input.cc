#include "instance_input.h"

#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gil.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

using Offsets = std::vector<std::int64_t>;
using Levels = std::vector<Offsets>;

constexpr const char* kOffsetsNeeded =
    "offsets of LoD are a list of ints, or an int32 or int64 array of one dimension, per level";

// A tensor's values and its LoD.
struct WithLod {
  std::shared_ptr<const void> values;
  Levels levels;
};

Tensor OffsetArray(nb::handle level) {
  try {
    return TensorOf(level, CopyInput::kIfNeeded);
  } catch (const nb::builtin_exception&) {
    throw nb::type_error(kOffsetsNeeded);
  }
}

Offsets OffsetsOf(nb::handle level) {
  if (PyList_Check(level.ptr()) || PyTuple_Check(level.ptr())) {
    Offsets offsets;
    if (!nb::try_cast(level, offsets)) throw nb::type_error(kOffsetsNeeded);
    return offsets;
  }
  const Tensor array = OffsetArray(level);
  const auto copied = [](auto values) { return Offsets(values.begin(), values.end()); };
  if (array.shape.size() == 1 && array.dtype == DType::kInt64) {
    return copied(array.Values<std::int64_t>());
  }
  if (array.shape.size() == 1 && array.dtype == DType::kInt32) {
    return copied(array.Values<std::int32_t>());
  }
  throw nb::type_error(kOffsetsNeeded);
}

Levels LevelsOf(nb::handle lod) {
  if (!PySequence_Check(lod.ptr())) throw nb::type_error(kOffsetsNeeded);
  Levels levels;
  for (const nb::handle level : lod) levels.push_back(OffsetsOf(level));
  return levels;
}

void AddLod(Levels levels, Tensor* tensor) {
  auto owner = std::make_shared<WithLod>(WithLod{std::move(tensor->owner), std::move(levels)});
  tensor->lod.assign(owner->levels.begin(), owner->levels.end());
  tensor->owner = std::move(owner);
}

// A copy of an Array's values does not have its levels.
Tensor ArrayOf(nb::handle item, CopyInput copy, const Allocate& allocate) {
  Tensor tensor = TensorOf(item, copy, allocate);
  const Array* array = nullptr;
  if (!tensor.lod.empty() || !nb::try_cast(item, array)) return tensor;
  Levels levels;
  for (const auto level : array->tensor().lod) levels.emplace_back(level.begin(), level.end());
  if (!levels.empty()) AddLod(std::move(levels), &tensor);
  return tensor;
}

// Null at the end.
nb::object NextItem(nb::handle iterator) {
  nb::object item = nb::steal(InPython([&] { return PyIter_Next(iterator.ptr()); }));
  if (!item.is_valid() && PyErr_Occurred() != nullptr) throw nb::python_error();
  return item;
}

Tensor SlotOf(nb::handle item, CopyInput copy, const Allocate& allocate) {
  if (!PyTuple_Check(item.ptr())) return ArrayOf(item, copy, allocate);
  const auto pair = nb::borrow<nb::tuple>(item);
  if (pair.size() != 2) {
    throw nb::type_error("an array is needed, or (values, lod) with the offsets of each level");
  }
  Levels levels = LevelsOf(pair[1]);
  Tensor tensor = TensorOf(pair[0], copy, allocate);
  if (!levels.empty()) AddLod(std::move(levels), &tensor);
  return tensor;
}

}  // namespace

Instance InstanceOf(std::span<const SlotSpec> slots, nb::handle arrays, CopyInput copy,
                    const Allocate& allocate) {
  Instance instance;
  const nb::object iterator = nb::iter(arrays);
  while (const nb::object item = NextItem(iterator)) {
    const std::size_t slot = instance.size();
    try {
      instance.push_back(SlotOf(item, copy, allocate));
    } catch (const nb::builtin_exception& wrong) {
      std::string where = "slot " + std::to_string(slot);
      if (slot < slots.size()) where += " \"" + slots[slot].name + "\"";
      throw nb::builtin_exception(wrong.type(), (where + ": " + wrong.what()).c_str());
    }
  }
  return instance;
}

}  // namespace ringfeed::python
