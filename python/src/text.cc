#include "text.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

nb::str Decoded(const std::string& text, const char* errors) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), errors);
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

}  // namespace

nb::str ReadableText(const std::string& text) { return Decoded(text, "backslashreplace"); }

nb::str FileNameText(const std::string& name) { return Decoded(name, "surrogateescape"); }

}  // namespace ringfeed::python
