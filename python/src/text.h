#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace ringfeed::python {

/// A text for people, which may quote bytes of the data: those that are no UTF-8 as "\xe9".
nanobind::str ReadableText(const std::string& text);
/// A file's name, as Python's own functions give it: os.fsencode gives its bytes.
nanobind::str FileNameText(const std::string& name);

}  // namespace ringfeed::python
