#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "array.h"
#include "field_specs.h"
#include "gil.h"
#include "ringfeed/detail/elements.h"
#include "ringfeed/tensor.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

nb::object ElementAt(DType dtype, const std::byte* from) {
  return WithElement(dtype, from, [](auto value) { return nb::cast(value); });
}

template <typename T>
std::string NumberText(T value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

std::string ElementText(DType dtype, const std::byte* from) {
  return WithElement(dtype, from, [](auto value) -> std::string {
    using Value = decltype(value);
    if constexpr (std::is_same_v<Value, bool>) {
      return value ? "True" : "False";
    } else {
      std::string text = NumberText(value);
      const bool is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
      return std::is_floating_point_v<Value> && is_whole ? text + ".0" : text;
    }
  });
}

// Nested lists of the dimensions from `dim` on; Moves `*from` past their elements.
nb::object ListOf(const Tensor& tensor, std::size_t dim, const std::byte** from) {
  if (dim == tensor.shape.size()) {
    nb::object element = ElementAt(tensor.dtype, *from);
    *from += DTypeBytes(tensor.dtype);
    return element;
  }
  nb::list list;
  for (std::int64_t i = 0; i < tensor.shape[dim]; ++i) list.append(ListOf(tensor, dim + 1, from));
  return list;
}

nb::object ToList(const Array& array) {
  array.NeedHost();
  const std::byte* from = array.tensor().data;
  return ListOf(array.tensor(), 0, &from);
}

// The elements as nested lists, and "…" for those after the first `*left`.
std::string ElementsText(const Tensor& tensor, std::size_t dim, const std::byte** from, int* left) {
  if (dim == tensor.shape.size()) {
    const std::byte* const element = *from;
    *from += DTypeBytes(tensor.dtype);
    --*left;
    return ElementText(tensor.dtype, element);
  }
  std::string text = "[";
  for (std::int64_t i = 0; i < tensor.shape[dim]; ++i) {
    if (i > 0) text += ", ";
    if (*left <= 0) return text + "…]";
    text += ElementsText(tensor, dim + 1, from, left);
  }
  return text + "]";
}

std::string Describe(const Array& array) {
  constexpr int kShownElements = 8;
  const Tensor& tensor = array.tensor();
  std::string text =
      "<ringfeed.Array " + std::string(DTypeName(tensor.dtype)) + " " + ShapeToString(tensor.shape);
  if (!tensor.lod.empty()) text += ", lod of " + std::to_string(tensor.lod.size());
  text += ", " + PlaceName(tensor.place);
  if (!array.IsHere() || tensor.place.type == DeviceType::kCuda) return text + ">";
  int left = kShownElements;
  const std::byte* from = tensor.data;
  return text + ": " + ElementsText(tensor, 0, &from, &left) + ">";
}

std::int64_t Length(const Array& array) {
  if (array.tensor().shape.empty()) throw nb::type_error("len() of a scalar");
  return array.tensor().shape[0];
}

// Steps [begin, end) of the first dimension, in the same memory.
Tensor StepsOf(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  Tensor part = tensor;
  const std::size_t step_bytes =
      tensor.shape[0] == 0 ? 0 : tensor.bytes / static_cast<std::size_t>(tensor.shape[0]);
  part.shape[0] = end - begin;
  part.bytes = step_bytes * static_cast<std::size_t>(end - begin);
  if (part.bytes > 0) part.data += step_bytes * static_cast<std::size_t>(begin);
  part.lod.clear();
  return part;
}

nb::object StepAt(const Array& array, Py_ssize_t index) {
  const std::int64_t length = array.tensor().shape[0];
  const std::int64_t step = index < 0 ? index + length : index;
  if (step < 0 || step >= length) {
    throw nb::index_error(
        ("step " + std::to_string(index) + " of an Array of " + std::to_string(length)).c_str());
  }
  Tensor part = StepsOf(array.tensor(), step, step + 1);
  if (part.shape.size() == 1) {
    array.NeedHost();
    return ElementAt(part.dtype, part.data);
  }
  part.shape.erase(part.shape.begin());
  return nb::cast(array.ViewOf(std::move(part)));
}

nb::object Item(const Array& array, nb::handle key) {
  const std::int64_t length = Length(array);
  if (PyIndex_Check(key.ptr()) != 0) {
    const Py_ssize_t index = PyNumber_AsSsize_t(key.ptr(), PyExc_IndexError);
    if (index == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    return StepAt(array, index);
  }
  if (PySlice_Check(key.ptr()) == 0) {
    throw nb::type_error(
        "an Array takes a number or a slice of its first dimension: take array.numpy()[…] for "
        "others");
  }
  Py_ssize_t begin = 0;
  Py_ssize_t end = 0;
  Py_ssize_t step = 0;
  if (PySlice_Unpack(key.ptr(), &begin, &end, &step) != 0) throw nb::python_error();
  const Py_ssize_t steps = PySlice_AdjustIndices(length, &begin, &end, step);
  if (step != 1) {
    throw nb::value_error("an Array is sliced by steps of 1: take array.numpy()[…] for others");
  }
  return nb::cast(array.ViewOf(StepsOf(array.tensor(), begin, begin + steps)));
}

nb::object Iterate(nb::handle self) {
  const Array& array = nb::cast<const Array&>(self);
  if (array.tensor().shape.empty()) throw nb::type_error("iteration over a scalar");
  if (array.tensor().shape.size() == 1) return nb::iter(ToList(array));
  nb::object views = nb::steal(PySeqIter_New(self.ptr()));
  if (!views.is_valid()) throw nb::python_error();
  return views;
}

std::vector<std::vector<std::int64_t>> LevelsOf(const Tensor& tensor) {
  std::vector<std::vector<std::int64_t>> levels;
  for (const auto& offsets : tensor.lod) levels.emplace_back(offsets.begin(), offsets.end());
  return levels;
}

Array Copied(const Array& array) {
  array.NeedHost();
  const GilReleased unlocked;
  Tensor copy = CopyOf(array.tensor());
  copy.place = {};
  return Array::OfOwnMemory(WithLoD(std::move(copy), LevelsOf(array.tensor())));
}

// dtype, shape, bytes, levels of LoD.
using State = std::tuple<std::string, Shape, nb::bytes, std::vector<std::vector<std::int64_t>>>;

State StateOf(const Array& array) {
  array.NeedHost();
  const Tensor& tensor = array.tensor();
  return {std::string(DTypeName(tensor.dtype)), tensor.shape, nb::bytes(tensor.data, tensor.bytes),
          LevelsOf(tensor)};
}

// Throws InvalidArgument if the parts do not fit together.
Array ArrayOf(const State& state) {
  const auto& [name, shape, content, levels] = state;
  const DType dtype = DTypeNamed(name);
  const std::size_t elements = content.size() / DTypeBytes(dtype);
  if (content.size() % DTypeBytes(dtype) != 0) {
    throw nb::value_error("the bytes of an Array's pickle are no whole elements");
  }
  const std::shared_ptr<std::byte> bytes = NewBytes(content.size());
  if (content.size() > 0) std::memcpy(bytes.get(), content.data(), content.size());
  return Array::OfOwnMemory(
      WithLoD(MakeTensorOver(dtype, shape, bytes.get(), elements, bytes), levels));
}

}  // namespace

void BindElements(nb::class_<Array>* array) {
  array->def("__len__", &Length)
      .def("__repr__", &Describe)
      .def("__getitem__", &Item, nb::arg("key").none(),
           nb::sig("def __getitem__(self, key: typing.SupportsIndex | slice, /) -> typing.Any"),
           "A step of the first dimension, or a slice of its steps: an Array of the same memory, "
           "without a LoD. Of one dimension a step is a Python number. Raises IndexError, and "
           "ValueError for slices of steps other than 1.")
      .def("__iter__", &Iterate,
           nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"),
           "The steps of the first dimension: Arrays of the same memory, or Python's numbers.")
      .def("tolist", &ToList, nb::sig("def tolist(self) -> typing.Any"),
           "The elements as nested lists of Python's numbers; of a scalar the number. Raises "
           "TypeError for a device's memory.")
      .def("copy", &Copied,
           "An Array of memory of its own on the host, with the LoD: it holds no batch, and a "
           "forked child has it too. Raises TypeError for a device's memory: copy its tensor.")
      .def("__getstate__", &StateOf, nb::sig("def __getstate__(self) -> typing.Any"))
      .def(
          "__setstate__",
          [](Array& self, const State& state) { new (&self) Array(ArrayOf(state)); },
          nb::sig("def __setstate__(self, state: typing.Any, /) -> None"));
}

}  // namespace ringfeed::python
