#include "program_scope.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>

#include "array.h"
#include "blocking_queue.h"
#include "gil.h"
#include "held_object.h"
#include "instance_arrays.h"
#include "reader_handle.h"
#include "ringfeed/instance.h"
#include "text.h"
#include "weak_list.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

using SharedObject = std::shared_ptr<HeldObject>;

WeakList<Scope>& TheLive() {
  static constinit OneInProcess<WeakList<Scope>> live;
  return live.Get();
}

nb::list InstancesOf(const std::vector<Instance>& instances) {
  nb::list arrays;
  for (const Instance& instance : instances) arrays.append(ArraysOf(instance));
  return arrays;
}

// Programs read tensors. If the variable is a tensor, an array of any kind replaces its value; for
// another variable, a foreign array is an object like others.
void SetObject(Scope* scope, const std::string& name, nb::handle value) {
  const Array* array = nullptr;
  if (auto* tensor = scope->Find<Tensor>(name)) {
    *tensor = TensorOf(value, CopyInput::kIfNeeded);
  } else if (nb::try_cast(value, array) && array != nullptr) {
    scope->Var<Tensor>(name) = array->tensor();
  } else {
    scope->Var<SharedObject>(name) = Hold(value);
  }
}

}  // namespace

ScopeHandle::ScopeHandle() : scope_(std::shared_ptr<Scope>(new Scope, &DeleteUnlocked<Scope>)) {
  TheLive().Note(scope_.Shared());
}

nb::object ScopeHandle::Get(const std::string& name) const {
  const Scope& scope = this->scope();
  if (!scope.Has(name)) {
    PyErr_SetObject(PyExc_KeyError, ReadableText(name).ptr());
    throw nb::python_error();
  }
  if (const auto* tensor = scope.Find<Tensor>(name)) return nb::cast(Array(*tensor));
  if (const auto* counter = scope.Find<std::int64_t>(name)) return nb::cast(*counter);
  if (const auto* condition = scope.Find<bool>(name)) return nb::cast(*condition);
  if (const auto* number = scope.Find<double>(name)) return nb::cast(*number);
  if (const auto* text = scope.Find<std::string>(name)) return nb::cast(*text);
  if (const auto* instances = scope.Find<std::vector<Instance>>(name)) {
    return InstancesOf(*instances);
  }
  if (const auto* object = scope.Find<SharedObject>(name)) return (*object)->Get();
  if (const auto* holder = scope.Find<ReaderHolder>(name)) {
    return nb::cast(ReaderHandle(holder->Get(), Keepers()));
  }
  throw nb::type_error(
      ("the variable \"" + name + "\" has no value that Python could have").c_str());
}

void ScopeHandle::Set(const std::string& name, nb::handle value) {
  Scope& scope = this->scope();
  if (const ReaderHandle* reader = nullptr; nb::try_cast(value, reader) && reader != nullptr) {
    auto& holder = scope.Var<ReaderHolder>(name);
    Unlocked([&] { holder.Reset(reader->reader()); });
    const std::scoped_lock lock(mutex_);
    keepers_.insert(keepers_.end(), reader->keepers().begin(), reader->keepers().end());
  } else if (std::optional<QueueParts> queue = QueuePartsOf(value)) {
    scope.Put(name, std::move(queue->holder));
    const std::scoped_lock lock(mutex_);
    keepers_.push_back(std::move(queue->keeper));
  } else if (PyBool_Check(value.ptr())) {
    scope.Var<bool>(name) = nb::cast<bool>(value);
  } else if (auto* number = scope.Find<double>(name);
             number != nullptr || PyFloat_Check(value.ptr())) {
    scope.Var<double>(name) = nb::cast<double>(value);
  } else if (std::int64_t integer = 0; nb::try_cast(value, integer, false)) {
    scope.Var<std::int64_t>(name) = integer;
  } else if (std::string text; nb::try_cast(value, text, false)) {
    scope.Var<std::string>(name) = std::move(text);
  } else {
    SetObject(&scope, name, value);
  }
}

std::vector<std::shared_ptr<ThrownKeeper>> ScopeHandle::Keepers() const {
  const std::scoped_lock lock(mutex_);
  return keepers_;
}

void ScopeHandle::RaiseThrown(const Status& status) const {
  for (const auto& keeper : Keepers()) keeper->RaiseAgain(status);
}

std::vector<Reader> ReadersInScopes() {
  std::vector<Reader> readers;
  TheLive().TakeEach([&](const Scope& scope) {
    for (const std::string& name : scope.Names()) {
      const auto* holder = scope.Find<ReaderHolder>(name);
      if (holder != nullptr && !holder->empty()) readers.push_back(holder->Get());
    }
  });
  return readers;
}

void BindProgramScope(nb::module_& module) {
  nb::class_<ScopeHandle>(
      module, "Scope",
      "Variables by name, of which each keeps its type: readers and queues, which programs name; "
      "Arrays, which `read` sets; int, bool, float and str; and other objects, for functions "
      "alone. "
      "Any thread may use it; the variables of a program that runs are its own and its functions'.")
      .def(nb::init<>())
      .def("__getitem__", &ScopeHandle::Get, nb::arg("name"),
           nb::sig("def __getitem__(self, name: str) -> typing.Any"),
           "The variable's value; a list of tuples of Arrays of what read_recordio set. KeyError "
           "if there is none.")
      .def(
          "__setitem__", &ScopeHandle::Set, nb::arg("name"), nb::arg("value").none(),
          nb::sig("def __setitem__(self, name: str, value: typing.Any) -> None"),
          "Makes the variable, or sets it: a value of another type is InvalidArgument, and so is a "
          "queue's name that is taken. If there is an Array, whatever exports one is taken.")
      .def("__contains__", &ScopeHandle::Has, nb::arg("name"))
      .def("names", &ScopeHandle::Names, "The names of all variables, sorted.");
}

}  // namespace ringfeed::python
