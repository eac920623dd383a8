#include "handover.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

bool IsGiven(nb::handle object) { return object.is_valid() && !object.is_none(); }

nb::object DictOf(const nb::tuple& arrays, const nb::tuple& names) {
  if (names.size() != arrays.size()) throw nb::value_error("one name for each field is needed");
  nb::dict batch;
  for (std::size_t i = 0; i < arrays.size(); ++i) batch[names[i]] = arrays[i];
  return batch;
}

nb::object Called(nb::handle function, const nb::object& batch) {
  nb::object result = nb::steal(PyObject_CallOneArg(function.ptr(), batch.ptr()));
  if (result.is_valid()) return result;
  nb::python_error raised;
  if (!raised.matches(PyExc_StopIteration)) throw raised;
  // The reader's alone is the end of the data.
  nb::raise_from(raised, PyExc_RuntimeError, "the function of map= raised StopIteration");
}

}  // namespace

nb::object BatchForm::Of(const nb::tuple& arrays, bool* in_function) const {
  nb::object made = arrays;
  if (IsGiven(names_)) made = DictOf(arrays, nb::cast<nb::tuple>(names_));
  for (const nb::handle function : functions_) {
    if (!IsGiven(function)) continue;
    *in_function = true;
    made = Called(function, made);
  }
  return made;
}

void RaiseSignals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

bool IsAnswer(const nb::python_error& raised) { return raised.matches(PyExc_Exception); }

}  // namespace ringfeed::python
