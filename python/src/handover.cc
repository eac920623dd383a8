#include "handover.h"

#include <chrono>

#include "gil.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

bool IsGiven(nb::handle object) { return object.is_valid() && !object.is_none(); }

nb::tuple CopiesOf(const nb::tuple& arrays) {
  nb::list copies;
  for (const nb::handle array : arrays) copies.append(array.attr("copy")());
  return nb::tuple(copies);
}

nb::object DictOf(const nb::tuple& arrays, const nb::tuple& names) {
  if (names.size() != arrays.size()) throw nb::value_error("one name for each field is needed");
  nb::dict batch;
  for (std::size_t i = 0; i < arrays.size(); ++i) batch[names[i]] = arrays[i];
  return batch;
}

nb::object Called(nb::handle function, const nb::object& batch) {
  nb::object result =
      nb::steal(InPython([&] { return PyObject_CallOneArg(function.ptr(), batch.ptr()); }));
  if (result.is_valid()) return result;
  nb::python_error raised;
  if (!raised.matches(PyExc_StopIteration)) throw raised;
  // Only the reader's own StopIteration is the end of the data.
  nb::raise_from(raised, PyExc_RuntimeError, "the function of map= raised StopIteration");
}

// Adds the time of its life, even if an exception ends it.
class Timed {
 public:
  explicit Timed(std::atomic<std::int64_t>* total_ns) : total_ns_(total_ns) {}
  ~Timed() {
    if (total_ns_ == nullptr) return;
    const std::chrono::nanoseconds taken = Clock::now() - begin_;
    total_ns_->fetch_add(taken.count(), std::memory_order_relaxed);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  std::atomic<std::int64_t>* const total_ns_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

nb::object BatchForm::Of(const nb::tuple& arrays, bool* in_function) const {
  const nb::tuple given = copies_ ? CopiesOf(arrays) : arrays;
  nb::object made = given;
  if (IsGiven(names_)) made = DictOf(given, nb::cast<nb::tuple>(names_));
  *in_function = IsGiven(map_) || IsGiven(convert_);
  if (IsGiven(map_)) {
    const Timed timed(map_ns_);
    made = Called(map_, made);
  }
  return IsGiven(convert_) ? Called(convert_, made) : made;
}

void RaiseSignals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

bool IsAnswer(const nb::python_error& raised) { return raised.matches(PyExc_Exception); }

}  // namespace ringfeed::python
