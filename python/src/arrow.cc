// Batches for Arrow's libraries, by the PyCapsule protocol.

#include <nanobind/nanobind.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "gil.h"
#include "held_object.h"
#include "module_parts.h"
#include "ringfeed/export/arrow_c.h"
#include "ringfeed/instance.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

constexpr const char* kSchemaName = "arrow_schema";
constexpr const char* kArrayName = "arrow_array";
constexpr const char* kStreamName = "arrow_array_stream";
constexpr const char* kDeviceArrayName = "arrow_device_array";

void ReleaseIn(ArrowDeviceArray* array) {
  if (array->array.release != nullptr) array->array.release(&array->array);
}
template <typename Structure>
void ReleaseIn(Structure* structure) {
  if (structure->release != nullptr) structure->release(structure);
}

// A capsule that owns the structure, and releases what nobody moved out of it.
template <typename Structure>
nb::object CapsuleOf(std::unique_ptr<Structure> structure, const char* name) {
  PyObject* const capsule = PyCapsule_New(structure.get(), name, [](PyObject* self) {
    auto* const owned =
        static_cast<Structure*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    ReleaseIn(owned);
    delete owned;
  });
  if (capsule == nullptr) {
    ReleaseIn(structure.get());
    throw nb::python_error();
  }
  (void)structure.release();
  return nb::steal(capsule);
}

void Need(const Status& status) {
  if (status.ok()) return;
  if (status.code() == StatusCode::kUnsupported) throw nb::buffer_error(status.message().c_str());
  throw nb::value_error(status.message().c_str());
}

nb::tuple CapsulesOf(const std::function<Status(ArrowSchema*, ArrowArray*)>& exported) {
  auto schema = std::make_unique<ArrowSchema>();
  auto array = std::make_unique<ArrowArray>();
  Need(exported(schema.get(), array.get()));
  nb::object first = CapsuleOf(std::move(schema), kSchemaName);
  return nb::make_tuple(std::move(first), CapsuleOf(std::move(array), kArrayName));
}

nb::object StreamCapsule(std::function<bool(Instance*)> next) {
  auto stream = std::make_unique<ArrowArrayStream>();
  ExportArrowStream(std::move(next), stream.get());
  return CapsuleOf(std::move(stream), kStreamName);
}

/// A batch as it reaches the loop: a dict of Arrays by name, or a tuple of them.
class ArrowBatch {
 public:
  explicit ArrowBatch(nb::handle batch) {
    const bool has_names = PyMapping_Check(batch.ptr()) != 0 && nb::hasattr(batch, "items");
    std::vector<std::string> names;
    const nb::object listed = has_names ? nb::object(batch.attr("items")()) : nb::borrow(batch);
    const nb::object items = nb::steal(PySequence_List(listed.ptr()));
    if (!items.is_valid()) throw nb::python_error();
    for (const nb::handle item : items) {
      if (has_names) names.push_back(nb::str(nb::object(item[0])).c_str());
      Add(has_names ? nb::object(item[1]) : nb::borrow(item));
    }
    if (has_names) tensors_.set_names(std::make_shared<FieldNames>(std::move(names)));
  }

  const Instance& tensors() const { return tensors_; }

  nb::tuple Capsules() const {
    return CapsulesOf([&](ArrowSchema* schema, ArrowArray* array) {
      const GilReleased unlocked;  // bools are packed
      return ExportArrow(tensors_, schema, array);
    });
  }

  // The batch is exported with its schema, so what cannot be is told here.
  nb::object Stream() const {
    auto stream = std::make_unique<ArrowArrayStream>();
    ExportArrowStream(
        [tensors = tensors_, is_first = true](Instance* batch) mutable {
          if (is_first) *batch = std::move(tensors);
          return std::exchange(is_first, false);
        },
        stream.get());
    Status status;
    {
      const GilReleased unlocked;  // bools are packed
      ArrowSchema schema{};
      if (const int code = stream->get_schema(stream.get(), &schema); code != 0) {
        status = Status(code == ENOTSUP ? StatusCode::kUnsupported : StatusCode::kInvalidArgument,
                        stream->get_last_error(stream.get()));
      }
      ReleaseIn(&schema);
    }
    nb::object capsule = CapsuleOf(std::move(stream), kStreamName);
    Need(status);
    return capsule;
  }

  // The consumer's work on the default stream is waited for, as with __cuda_array_interface__.
  nb::tuple DeviceCapsules() const {
    std::vector<std::optional<Tensor>> offsets;
    for (const Array& array : arrays_) {
      std::optional<Array> rows;
      if (array.lease() != nullptr) rows = array.Offsets();
      offsets.push_back(rows ? std::optional(rows->tensor()) : std::nullopt);
    }
    auto schema = std::make_unique<ArrowSchema>();
    auto device_array = std::make_unique<ArrowDeviceArray>();
    {
      const GilReleased unlocked;
      for (const Array& array : arrays_) {
        if (array.lease() == nullptr || array.tensor().place.type != DeviceType::kCuda) continue;
        array.lease()->WaitHost();
        array.lease()->UseOnNumbered(std::nullopt);
      }
    }
    Need(ExportArrowDevice(tensors_, offsets, schema.get(), device_array.get()));
    nb::object first = CapsuleOf(std::move(schema), kSchemaName);
    return nb::make_tuple(std::move(first), CapsuleOf(std::move(device_array), kDeviceArrayName));
  }

 private:
  void Add(nb::handle value) {
    const Array* array = nullptr;
    if (!nb::try_cast(value, array) || array == nullptr) {
      throw nb::type_error(
          "a batch for Arrow has an Array for each field, as a Loader and a "
          "Reader give it, before anything converts it");
    }
    array->NeedHere();
    arrays_.push_back(*array);
    tensors_.push_back(array->tensor());
  }

  std::vector<Array> arrays_;
  Instance tensors_;
};

// The next batch of an iterator, from any thread.
bool NextBatch(HeldObject& iterator, Instance* batch) {
  const GilHeld lock;
  try {
    const nb::object from = iterator.Get();
    const nb::object next = nb::steal(InPython([&] { return PyIter_Next(from.ptr()); }));
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (!next.is_valid()) return false;
    *batch = ArrowBatch(next).tensors();
    return true;
  } catch (nb::python_error& raised) {
    const std::string kind = nb::str(raised.type().attr("__name__")).c_str();
    throw std::runtime_error(kind + ": " + nb::str(raised.value()).c_str());
  }
}

// The protocol asks for NotImplementedError.
void RefuseUnknown(const nb::kwargs& options) {
  for (const auto& [name, value] : options) {
    if (value.is_none()) continue;
    PyErr_Format(PyExc_NotImplementedError, "there is no option %S", name.ptr());
    throw nb::python_error();
  }
}

}  // namespace

void BindArrowExchange(nb::class_<Array>* array) {
  array->def(
      "__arrow_c_array__",
      [](const Array& self, nb::handle) {
        self.NeedHere();
        return CapsulesOf([&](ArrowSchema* schema, ArrowArray* exported) {
          return ExportArrow(self.tensor(), schema, exported);
        });
      },
      nb::arg("requested_schema") = nb::none(),
      nb::sig("def __arrow_c_array__(self, requested_schema: object = None) -> "
              "tuple[typing.Any, typing.Any]"),
      "The field as a column of Arrow's, its memory shared: lists of fixed size for further "
      "dimensions, large lists for ragged rows, large binary for ragged bytes. Raises BufferError "
      "for a device's memory and for bfloat16.");
}

void BindArrow(nb::module_& module) {
  nb::class_<ArrowBatch>(module, "ArrowBatch", "A batch as Arrow's libraries take it.")
      .def(nb::init<nb::handle>(), nb::arg("batch"),
           nb::sig("def __init__(self, batch: typing.Any) -> None"))
      .def(
          "__arrow_c_schema__", [](const ArrowBatch& self) { return self.Capsules()[0]; },
          nb::sig("def __arrow_c_schema__(self) -> typing.Any"))
      .def(
          "__arrow_c_array__", [](const ArrowBatch& self, nb::handle) { return self.Capsules(); },
          nb::arg("requested_schema") = nb::none(),
          nb::sig("def __arrow_c_array__(self, requested_schema: object = None) -> "
                  "tuple[typing.Any, typing.Any]"))
      .def(
          "__arrow_c_stream__", [](const ArrowBatch& self, nb::handle) { return self.Stream(); },
          nb::arg("requested_schema") = nb::none(),
          nb::sig("def __arrow_c_stream__(self, requested_schema: object = None) -> typing.Any"))
      .def(
          "__arrow_c_device_array__",
          [](const ArrowBatch& self, nb::handle, const nb::kwargs& options) {
            RefuseUnknown(options);
            return self.DeviceCapsules();
          },
          nb::arg("requested_schema") = nb::none(), nb::arg("kwargs"),
          nb::sig("def __arrow_c_device_array__(self, requested_schema: object = None, **kwargs: "
                  "object) -> tuple[typing.Any, typing.Any]"));
  module.def(
      "arrow_stream",
      [](nb::handle iterator) {
        return StreamCapsule(
            [held = Hold(iterator)](Instance* batch) { return NextBatch(*held, batch); });
      },
      nb::arg("iterator"), nb::sig("def arrow_stream(iterator: object) -> typing.Any"),
      "A capsule of a stream of the batches that the iterator gives.");
}

}  // namespace ringfeed::python
