#include <nanobind/stl/string.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "array.h"
#include "bytes_of.h"
#include "gil.h"
#include "instance_input.h"
#include "module_parts.h"
#include "ringfeed/formats.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// A record of fewer bytes is made before another thread would have the lock.
constexpr std::size_t kUnlockedBytes = std::size_t{64} << 10;

// Values of a list of bytes, and the objects that keep them.
struct BytesList {
  std::vector<std::span<const std::byte>> values;
  std::vector<nb::object> objects;
  std::vector<std::unique_ptr<BytesOf>> buffers;
  Tensor array;
};

// The types of an OFRecord's lists.
using Values = std::variant<BytesList, std::vector<float>, std::vector<double>,
                            std::vector<std::int32_t>, std::vector<std::int64_t>>;
// The types of a tf.Example's lists: floats and integers have one size each.
using ExampleValues = std::variant<BytesList, std::vector<float>, std::vector<std::int64_t>>;

template <typename Stored>
struct Feature {
  std::string name;
  Stored values;
};

[[noreturn]] void RefuseType(const std::string& why) { throw nb::type_error(why.c_str()); }

std::string TypeNameOf(nb::handle value) {
  return nb::cast<std::string>(value.type().attr("__name__"));
}

bool IsBytes(nb::handle value) {
  return PyBytes_Check(value.ptr()) || PyUnicode_Check(value.ptr()) ||
         PyByteArray_Check(value.ptr()) || PyMemoryView_Check(value.ptr());
}

// Text as the UTF-8 that Python keeps with it.
std::span<const std::byte> Utf8Of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    PyErr_Clear();
    throw nb::value_error("text is stored as UTF-8, which this has none in");
  }
  return std::as_bytes(std::span(data, static_cast<std::size_t>(size)));
}

std::string NameOf(nb::handle key) {
  if (!PyUnicode_Check(key.ptr())) RefuseType("a name is a str, not " + TypeNameOf(key));
  const auto name = Utf8Of(key);
  return std::string(reinterpret_cast<const char*>(name.data()), name.size());
}

void AddBytes(nb::handle value, BytesList* list) {
  if (PyUnicode_Check(value.ptr())) {
    list->values.push_back(Utf8Of(value));
    list->objects.push_back(nb::borrow(value));
  } else {
    list->buffers.push_back(std::make_unique<BytesOf>(value));
    list->values.push_back(list->buffers.back()->bytes());
  }
}

std::int64_t IntegerOf(nb::handle integer) {
  std::int64_t value = 0;
  if (nb::try_cast(integer, value)) return value;
  throw nb::value_error("an integer is one of 64 bits, with a sign");
}

// A number of a list: NumPy's and other libraries' scalars, too.
std::variant<std::int64_t, double> NumberOf(nb::handle value) {
  if (PyLong_Check(value.ptr())) return IntegerOf(value);
  if (PyFloat_Check(value.ptr())) return PyFloat_AS_DOUBLE(value.ptr());
  const nb::object integer = nb::steal(PyNumber_Index(value.ptr()));
  if (integer.is_valid()) return IntegerOf(integer);
  PyErr_Clear();
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() == nullptr) return number;
  PyErr_Clear();
  RefuseType("a list holds numbers, or bytes and text, not " + TypeNameOf(value));
}

// Integers if all are, else floating-point numbers.
Values NumbersOf(nb::handle list) {
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  bool whole = true;
  for (const nb::handle item : list) {
    const auto number = NumberOf(item);
    if (const auto* integer = std::get_if<std::int64_t>(&number)) {
      integers.push_back(*integer);
      numbers.push_back(static_cast<double>(*integer));
    } else {
      whole = false;
      numbers.push_back(std::get<double>(number));
    }
  }
  if (whole) return integers;
  return numbers;
}

Values ListOf(nb::handle list) {
  if (nb::len(list) == 0) {
    RefuseType(
        "an empty list does not say of what: numbers are an empty array, numpy.empty(0, \"int64\") "
        "or of \"float32\"; bytes and text are left out, and a parser's default [] reads that");
  }
  if (!IsBytes(list[0])) return NumbersOf(list);
  BytesList values;
  for (const nb::handle item : list) {
    if (!IsBytes(item)) RefuseType("a list of bytes or text holds " + TypeNameOf(item));
    AddBytes(item, &values);
  }
  return values;
}

template <typename To, typename From>
std::vector<To> Converted(const Tensor& tensor) {
  std::vector<To> converted;
  const auto values = tensor.Values<From>();
  converted.reserve(values.size());
  for (const From value : values) {
    if constexpr (std::is_same_v<From, std::uint64_t>) {
      if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
        throw nb::value_error("an integer is one of 64 bits, with a sign");
      }
    }
    converted.push_back(static_cast<To>(value));
  }
  return converted;
}

// A uint8 array is bytes, as in the parsers; a scalar is a number.
Values ArrayOf(nb::handle array) {
  if (!PyObject_CheckBuffer(array.ptr()) && !nb::hasattr(array, "__dlpack__")) {
    RefuseType("a feature is bytes, text, a number, a list of them or an array, not " +
               TypeNameOf(array));
  }
  Tensor tensor = TensorOf(array, CopyInput::kIfNeeded);
  switch (tensor.dtype) {
    case kUInt8: {
      if (tensor.shape.empty()) return Converted<std::int32_t, std::uint8_t>(tensor);
      BytesList list;
      list.array = std::move(tensor);
      list.values.emplace_back(list.array.data, list.array.bytes);
      return list;
    }
    case kBool:
      return Converted<std::int32_t, std::uint8_t>(tensor);
    case kInt8:
      return Converted<std::int32_t, std::int8_t>(tensor);
    case kUInt16:
      return Converted<std::int32_t, std::uint16_t>(tensor);
    case kInt16:
      return Converted<std::int32_t, std::int16_t>(tensor);
    case kInt32:
      return Converted<std::int32_t, std::int32_t>(tensor);
    case kUInt32:
      return Converted<std::int64_t, std::uint32_t>(tensor);
    case kUInt64:
      return Converted<std::int64_t, std::uint64_t>(tensor);
    case kInt64:
      return Converted<std::int64_t, std::int64_t>(tensor);
    case kFloat32:
      return Converted<float, float>(tensor);
    case kFloat64:
      return Converted<double, double>(tensor);
    default:
      RefuseType("no list is of " + std::string(DTypeName(tensor.dtype)) +
                 ": convert the array to float32");
  }
}

Values ValuesOf(nb::handle value) {
  if (PyBytes_Check(value.ptr()) || PyUnicode_Check(value.ptr())) {
    BytesList list;
    AddBytes(value, &list);
    return list;
  }
  if (PyLong_Check(value.ptr())) return std::vector{IntegerOf(value)};
  if (PyFloat_Check(value.ptr())) return std::vector{PyFloat_AS_DOUBLE(value.ptr())};
  if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) return ListOf(value);
  if (value.is_none()) RefuseType("None is no value: leave the feature out");
  return ArrayOf(value);
}

std::vector<float> Narrowed(const std::vector<double>& values) {
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const double value : values) {
    floats.push_back(static_cast<float>(value));
    if (std::isinf(floats.back()) && !std::isinf(value)) {
      throw nb::value_error("a number is beyond the range of float32, which a tf.Example has");
    }
  }
  return floats;
}

// Converts the values to Stored's lists: all kinds of an OFRecord's, or the wider ones of a
// tf.Example.
template <typename Stored>
Stored StoredAs(Values values) {
  return std::visit(
      [](auto& list) -> Stored {
        using List = std::decay_t<decltype(list)>;
        if constexpr (std::is_constructible_v<Stored, List>) {
          return std::move(list);
        } else if constexpr (std::is_same_v<List, std::vector<double>>) {
          return Narrowed(list);
        } else {
          return std::vector<std::int64_t>(list.begin(), list.end());
        }
      },
      values);
}

template <typename Stored>
std::vector<Feature<Stored>> FeaturesOf(nb::handle features) {
  const nb::object items = nb::steal(PyMapping_Items(features.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  std::vector<Feature<Stored>> found;
  for (const nb::handle item : items) {
    std::string name = NameOf(item[0]);
    try {
      Stored values = StoredAs<Stored>(ValuesOf(item[1]));
      found.push_back({std::move(name), std::move(values)});
    } catch (const nb::builtin_exception& wrong) {
      throw nb::builtin_exception(wrong.type(),
                                  ("feature \"" + name + "\": " + wrong.what()).c_str());
    }
  }
  return found;
}

std::size_t BytesIn(const BytesList& list) {
  std::size_t bytes = 0;
  for (const auto value : list.values) bytes += value.size();
  return bytes;
}

template <typename Number>
std::size_t BytesIn(const std::vector<Number>& values) {
  return std::span(values).size_bytes();
}

std::size_t BytesIn(const Instance& instance) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : instance) bytes += tensor.bytes;
  return bytes;
}

// One overload for each kind of list; a builder has those of its record.
template <typename Builder>
void Add(const std::string& name, const BytesList& list, Builder* to) {
  to->AddBytesList(name, list.values);
}
template <typename Builder>
void Add(const std::string& name, const std::vector<float>& values, Builder* to) {
  to->AddFloats(name, values);
}
template <typename Builder>
void Add(const std::string& name, const std::vector<double>& values, Builder* to) {
  to->AddDoubles(name, values);
}
template <typename Builder>
void Add(const std::string& name, const std::vector<std::int32_t>& values, Builder* to) {
  to->AddInt32s(name, values);
}
template <typename Builder>
void Add(const std::string& name, const std::vector<std::int64_t>& values, Builder* to) {
  to->AddInts(name, values);
}

// The result of build(), a record of about so many bytes.
template <typename Build>
nb::bytes Built(std::size_t bytes, Build&& build) {
  const std::span<const std::byte> record = bytes < kUnlockedBytes ? build() : Unlocked(build);
  return nb::bytes(record.data(), record.size());
}

template <typename Stored, typename Builder>
nb::bytes BuiltOf(nb::handle from) {
  const std::vector<Feature<Stored>> features = FeaturesOf<Stored>(from);
  std::size_t bytes = 0;
  for (const auto& feature : features) {
    bytes += std::visit([](const auto& list) { return BytesIn(list); }, feature.values);
  }
  Builder builder;
  return Built(bytes, [&] {
    for (const auto& feature : features) {
      std::visit([&](const auto& list) { Add(feature.name, list, &builder); }, feature.values);
    }
    return builder.Finish();
  });
}

nb::bytes BuildLoDTensors(nb::handle tensors) {
  const Instance instance = InstanceOf({}, tensors, CopyInput::kIfNeeded);
  LoDTensorBuilder builder;
  return Built(BytesIn(instance), [&] {
    for (const Tensor& tensor : instance) builder.Add(tensor);
    return builder.Finish();
  });
}

nb::bytes BuildInstance(nb::handle fields) {
  const nb::object items = nb::steal(PyMapping_Items(fields.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  std::vector<SlotSpec> slots;
  nb::list values;
  for (const nb::handle item : items) {
    slots.push_back({.name = NameOf(item[0]), .dims = {}});
    values.append(item[1]);
  }
  const Instance instance = InstanceOf(slots, values, CopyInput::kIfNeeded);
  InstanceBuilder builder;
  return Built(BytesIn(instance), [&] {
    for (std::size_t i = 0; i < instance.size(); ++i) builder.Add(slots[i].name, instance[i]);
    return builder.Finish();
  });
}

}  // namespace

void BindRecordBuilders(nb::module_& module) {
  module.def("build_example", &BuiltOf<ExampleValues, ExampleBuilder>, nb::arg("features"),
             nb::sig("def build_example(features: typing.Mapping[str, typing.Any]) "
                     "-> bytes"));
  module.def("build_ofrecord", &BuiltOf<Values, OFRecordBuilder>, nb::arg("features"),
             nb::sig("def build_ofrecord(features: typing.Mapping[str, typing.Any]) "
                     "-> bytes"));
  module.def("build_lod_tensors", &BuildLoDTensors, nb::arg("tensors"),
             nb::sig("def build_lod_tensors(tensors: typing.Iterable[typing.Any]) "
                     "-> bytes"));
  module.def("build_instance", &BuildInstance, nb::arg("fields"),
             nb::sig("def build_instance(fields: typing.Mapping[str, typing.Any]) "
                     "-> bytes"));
}

}  // namespace ringfeed::python
