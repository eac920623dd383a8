#include <nanobind/stl/string.h>

#include <array>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "module_parts.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// nanobind calls its functions by one of a few dispatchers; each function holds the dispatcher's
// address at the place that Python's vectorcall protocol reads. nanobind has no hook for the text
// of a refusal, so Told<n> is put there, which calls dispatcher n. Written only at the import.
constexpr std::size_t kMostDispatchers = 8;
std::array<vectorcallfunc, kMostDispatchers> dispatchers{};

// A call's number of arguments has flags in its upper bits: Python's, and nanobind's own for
// constructors.
constexpr std::size_t kFlagBits = 8;
constexpr std::size_t kCountMask = ~std::size_t{0} >> kFlagBits;

nb::object PlainText(const nb::str& refusal, PyObject* const* arguments, std::size_t count,
                     PyObject* names) {
  nb::list given;
  for (std::size_t i = 0; i < count; ++i) given.append(nb::borrow(arguments[i]));
  nb::dict named;
  const auto of = names == nullptr ? nb::tuple() : nb::borrow<nb::tuple>(names);
  for (std::size_t i = 0; i < of.size(); ++i) {
    named[nb::object(of[i])] = nb::borrow(arguments[count + i]);
  }
  return nb::module_::import_("ringfeed.signatures").attr("refusal")(refusal, given, named);
}

// Call it with an exception set, which stays if it is not nanobind's refusal of this function.
void TellPlainly(PyObject* function, PyObject* const* arguments, std::size_t count,
                 PyObject* names) {
  nb::python_error raised;
  try {
    const nb::str text(raised.value());
    const std::string name = nb::cast<std::string>(nb::handle(function).attr("__name__"));
    const std::string refusal = name + "(): incompatible function arguments.";
    const bool direct = !raised.traceback().is_valid() || raised.traceback().is_none();
    if (direct && std::string_view(text.c_str()).starts_with(refusal)) {
      const nb::object plain = PlainText(text, arguments, count, names);
      return PyErr_SetObject(PyExc_TypeError, plain.ptr());
    }
  } catch (const std::exception&) {  // nanobind's own text is better than none
    PyErr_Clear();
  }
  raised.restore();
}

template <std::size_t kNumber>
PyObject* Told(PyObject* function, PyObject* const* arguments, std::size_t flagged_count,
               PyObject* names) {
  PyObject* const result = dispatchers[kNumber](function, arguments, flagged_count, names);
  if (result == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    TellPlainly(function, arguments, flagged_count & kCountMask, names);
  }
  return result;
}

template <std::size_t... kNumbers>
constexpr std::array<vectorcallfunc, sizeof...(kNumbers)> AllTold(
    std::index_sequence<kNumbers...>) {
  return {&Told<kNumbers>...};
}

bool IsNanobinds(nb::handle object) {
  const std::string_view type = Py_TYPE(object.ptr())->tp_name;
  return type == "nanobind.nb_func" || type == "nanobind.nb_method";
}

void TellRefusedCallsOf(nb::handle function) {
  static constexpr auto kTold = AllTold(std::make_index_sequence<kMostDispatchers>());
  char* const object = reinterpret_cast<char*>(function.ptr());
  auto* const call =
      reinterpret_cast<vectorcallfunc*>(object + Py_TYPE(function.ptr())->tp_vectorcall_offset);
  for (std::size_t i = 0; i < kMostDispatchers; ++i) {
    if (*call == kTold[i]) return;  // under another name
    if (dispatchers[i] != nullptr && dispatchers[i] != *call) continue;
    dispatchers[i] = *call;
    *call = kTold[i];
    return;
  }
}

}  // namespace

void TellRefusedCalls(const nb::module_& module) {
  for (const nb::handle member : module.attr("__dict__").attr("values")()) {
    if (IsNanobinds(member)) TellRefusedCallsOf(member);
    if (!PyType_Check(member.ptr())) continue;
    for (const nb::handle method : member.attr("__dict__").attr("values")()) {
      if (IsNanobinds(method)) TellRefusedCallsOf(method);
    }
  }
}

}  // namespace ringfeed::python
