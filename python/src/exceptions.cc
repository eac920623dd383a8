#include "exceptions.h"

#include <unistd.h>

#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include "gil.h"
#include "ringfeed/reader.h"
#include "text.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// Relaxed: the lock orders it.
std::atomic<bool> ends{false};

// A copy that was never raised, as Python's copy module makes one; null if the type allows none.
nb::object CopyOf(const nb::object& exception) {
  try {
    nb::object copy = nb::module_::import_("copy").attr("copy")(exception);
    const bool alike = PyExceptionInstance_Check(copy.ptr()) && !copy.is(exception) &&
                       copy.type().is(exception.type());
    return alike ? copy : nb::object();
  } catch (const nb::python_error&) {
    return {};
  }
}

void SetRaised(const nb::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
}

}  // namespace

void NoteExit() { ends.store(true, std::memory_order_relaxed); }

void Raise(const Status& status) {
  if (status.code() == StatusCode::kCancelled && ends.load(std::memory_order_relaxed) &&
      getpid() != gettid()) {
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
  }
  const nb::object make = nb::module_::import_("ringfeed.errors").attr("from_status");
  const DataPlace& place = status.place();
  const nb::object error = InPython([&] {
    return make(std::string(StatusCodeName(status.code())).c_str(), ReadableText(status.message()),
                FileNameText(place.file), place.offset, place.record);
  });
  SetRaised(error);
  throw nb::python_error();
}

void RethrowDamage(nb::python_error& thrown) {
  if (!thrown.matches(nb::module_::import_("ringfeed.errors").attr("Damaged"))) return;
  throw Error(Status(StatusCode::kDamaged, nb::str(thrown.value()).c_str()));
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
  if (thrown_.empty()) return;
  if (!Py_IsInitialized()) {
    for (auto& [text, exception] : thrown_) {
      exception.value.release();
      exception.traceback.release();
    }
    return;
  }
  const GilHeld lock;
  thrown_.clear();
}

Error ThrownKeeper::Keep(nb::python_error&& thrown) {
  Error error(Status(StatusCode::kUserError, thrown.what()));
  Exception exception{nb::borrow(thrown.value()), nb::borrow(thrown.traceback())};
  const std::scoped_lock lock(mutex_);
  thrown_.try_emplace(error.status().message(), std::move(exception));
  return error;
}

void ThrownKeeper::RaiseAgain(const Status& status) {
  const Thrown all = TakeAll();
  for (const auto& [text, exception] : all) {
    if (!status.message().ends_with(text)) continue;  // Map names the function before it
    if (nb::object copy = CopyOf(exception.value); copy.is_valid()) {
      if (exception.traceback.is_valid()) {
        PyException_SetTraceback(copy.ptr(), exception.traceback.ptr());
      }
      const std::scoped_lock lock(mutex_);
      thrown_.try_emplace(text, Exception{std::move(copy), exception.traceback});
    }
    SetRaised(exception.value);
    if (PyErr_ExceptionMatches(PyExc_StopIteration) == 0) throw nb::python_error();
    nb::python_error stop;  // a loop would take it for the end of the data
    nb::raise_from(stop, PyExc_RuntimeError, "a function of Python's raised StopIteration");
  }
}

void ThrownKeeper::Forget() { TakeAll(); }

// The caller drops them, outside of the mutex: their destructors may run anything.
ThrownKeeper::Thrown ThrownKeeper::TakeAll() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(thrown_, {});
}

}  // namespace ringfeed::python
