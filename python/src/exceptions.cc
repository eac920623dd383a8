#include "exceptions.h"

#include <exception>
#include <utility>

#include "gil.h"
#include "ringfeed/reader.h"

namespace nb = nanobind;

namespace ringfeed::python {

void Raise(const Status& status) {
  const nb::object make = nb::module_::import_("ringfeed.errors").attr("from_status");
  const DataPlace& place = status.place();
  const nb::object error =
      make(std::string(StatusCodeName(status.code())).c_str(), status.message().c_str(),
           place.file.c_str(), place.offset, place.record);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

void BindExceptions(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const EndOfData& end) {
      PyErr_SetString(PyExc_StopIteration, end.what());
    } catch (const Error& error) {
      try {
        Raise(error.status());
      } catch (nb::python_error& raised) {
        raised.restore();
      }
    }
  });
}

ThrownKeeper::~ThrownKeeper() {
  if (thrown_ == nullptr || !Py_IsInitialized()) return;
  const GilHeld lock;
  Py_CLEAR(thrown_);
}

Error ThrownKeeper::Keep(nb::python_error&& thrown) {
  Error error(Status(StatusCode::kUserError, thrown.what()));
  const std::scoped_lock lock(mutex_);
  if (thrown_ == nullptr) thrown_ = nb::borrow(thrown.value()).release().ptr();
  return error;
}

void ThrownKeeper::RaiseAgain() {
  nb::object thrown;
  {
    const std::scoped_lock lock(mutex_);
    thrown = nb::steal(std::exchange(thrown_, nullptr));
  }
  if (!thrown.is_valid()) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(thrown.ptr())), thrown.ptr());
  throw nb::python_error();
}

void ThrownKeeper::Forget() {
  nb::object dropped;  // outside of the mutex: its destructor may run anything
  const std::scoped_lock lock(mutex_);
  dropped = nb::steal(std::exchange(thrown_, nullptr));
}

}  // namespace ringfeed::python
