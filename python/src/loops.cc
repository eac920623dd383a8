#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "device_feed_handle.h"
#include "handover.h"
#include "module_parts.h"
#include "reader_handle.h"
#include "user_call.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// The attributes that the Python classes share with this file. Made once, and never freed, like the
// interpreter's own names.
struct Names {
  PyObject* reader = Name("_reader");
  PyObject* names = Name("_names");
  PyObject* find_names = Name("names");
  PyObject* as_tuple = Name("_as_tuple");
  PyObject* copies = Name("_copies");
  PyObject* map = Name("_map");
  PyObject* note_end = Name("_note_end");
  PyObject* ended_loops = Name("_ended_loops");
  PyObject* loader = Name("_loader");
  PyObject* index = Name("_index");
  PyObject* convert = Name("_convert");
  PyObject* turn = Name("_turn");
  PyObject* ended = Name("ended");

  static PyObject* Name(const char* text) {
    PyObject* const name = PyUnicode_InternFromString(text);
    if (name == nullptr) throw nb::python_error();
    return name;
  }
};

const Names& Known() {
  static const Names known;
  return known;
}

nb::object Get(nb::handle object, PyObject* name) {
  nb::object value = nb::steal(InPython([&] { return PyObject_GetAttr(object.ptr(), name); }));
  if (!value.is_valid()) throw nb::python_error();
  return value;
}

nb::object NamesOf(nb::handle loader) {
  nb::object names = Get(loader, Known().names);
  return names.is_none() ? Get(loader, Known().find_names) : names;
}

struct LoaderLoop {
  /// How long the function of map= took. Relaxed: loops of several threads add to it.
  std::atomic<std::int64_t> map_ns{0};
};

// The next batch of a Loader, for all its devices or for one, as its loop gets it.
nb::object NextOf(nb::handle loader, nb::handle index, nb::handle convert) {
  const nb::object as_tuple = Get(loader, Known().as_tuple);
  const nb::object names = as_tuple.is(Py_True) ? nb::none() : NamesOf(loader);
  const nb::object map = Get(loader, Known().map);
  const nb::object source = Get(loader, Known().reader);
  LoaderLoop* loop = nullptr;
  const bool timed = nb::try_cast(loader, loop) && loop != nullptr;
  const bool copies = Get(loader, Known().copies).is(Py_True);
  const BatchForm form(names, map, convert, timed ? &loop->map_ns : nullptr, copies);
  nb::object batch;
  if (const ReaderHandle* reader = nullptr; nb::try_cast(source, reader)) {
    batch = reader->NextAs(form);
  } else {
    std::optional<std::size_t> device;
    if (!index.is_none()) device = nb::cast<std::size_t>(index);
    batch = nb::cast<DeviceFeedHandle&>(source).NextAs(device, form);
  }
  if (batch.is_valid()) return batch;
  const nb::object ended_loops = Get(loader, Known().ended_loops);  // before any signal handler
  const nb::object note_end = Get(loader, Known().note_end);
  const nb::object noted = nb::steal(InPython([&] {
    return PyObject_CallFunctionObjArgs(note_end.ptr(), index.ptr(), ended_loops.ptr(), nullptr);
  }));
  if (!noted.is_valid()) throw nb::python_error();
  throw nb::stop_iteration();
}

nb::object LoaderNext(nb::handle self) { return NextOf(self, nb::none(), {}); }

// A loop over an epoch ends with it, even if the loader is in the next one by now.
void CheckTurn(nb::handle loop, nb::handle loader) {
  const nb::object turn = Get(loop, Known().turn);
  if (turn.is_none() || turn.is(Get(loader, Known().turn))) return;
  if (Get(turn, Known().ended).is(Py_True)) throw nb::stop_iteration();
  throw std::runtime_error(
      "iter(loader), or another for, has started the next epoch, so this loop is over in the "
      "middle "
      "of its own: one loop at a time reads a Loader, and loader.rest() goes on in an epoch");
}

nb::object LoopNext(nb::handle self) {
  const nb::object loader = Get(self, Known().loader);
  CheckTurn(self, loader);
  const nb::object index = Get(self, Known().index);
  const nb::object convert = Get(self, Known().convert);
  return NextOf(loader, index, convert);
}

// Holds a lock of Python's threading.
class Locked {
 public:
  explicit Locked(nb::object lock) : lock_(std::move(lock)) { CallMethod(lock_, "acquire"); }
  ~Locked() {
    const nb::error_scope raised;  // a pending exception stays pending
    const nb::object released = nb::steal(PyObject_CallMethod(lock_.ptr(), "release", nullptr));
    if (!released.is_valid()) PyErr_WriteUnraisable(lock_.ptr());
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const nb::object lock_;
};

nb::object PyReaderNext(nb::handle self) {
  nb::object batch;
  {
    const Locked reading(self.attr("_reading"));
    if (!nb::cast<bool>(self.attr("_producer").attr("started"))) {
      // Another thread may have closed it between two reads of a loop.
      if (nb::cast<bool>(self.attr("_closed"))) throw nb::stop_iteration();
      throw std::runtime_error("not started: call start() first");
    }
    nb::object reader = self.attr("_reader");
    if (reader.is_none()) reader = CallMethod(self, "_await_reader");
    if (reader.is_none()) throw nb::stop_iteration();
    batch = nb::cast<const ReaderHandle&>(reader).NextAs(BatchForm());
  }
  if (!batch.is_valid()) throw nb::stop_iteration();
  return batch;
}

double MapSeconds(const LoaderLoop& loop) {
  return 1e-9 * static_cast<double>(loop.map_ns.load(std::memory_order_relaxed));
}

struct OtherLoop {};
struct PyReaderLoop {};

}  // namespace

void BindLoops(nb::module_& module) {
  const auto signature = nb::sig("def __next__(self) -> typing.Any");
  nb::class_<LoaderLoop>(module, "LoaderNext", "A Loader's iterator.")
      .def(nb::init<>())
      .def("__next__", &LoaderNext, signature,
           "The next batch. Raises what the chain failed of, or map= raised.")
      .def_prop_ro("_map_s", &MapSeconds, "Seconds that the function of map= took, of all calls.");
  nb::class_<OtherLoop>(
      module, "LoopNext",
      "An iterator over the batches of a Loader, `_loader`, as long as that is in "
      "the epoch `_turn` (None: in each): of the device `_index` or of all, made "
      "into something else by `_convert`, or left.")
      .def(nb::init<>())
      .def("__next__", &LoopNext, signature, "As of LoaderNext.");
  nb::class_<PyReaderLoop>(module, "PyReaderNext", "A PyReader's iterator.")
      .def(nb::init<>())
      .def("__next__", &PyReaderNext, nb::sig("def __next__(self) -> tuple[Array, ...]"),
           "The next mini-batch; StopIteration at the end.");
}

}  // namespace ringfeed::python
