#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "ringfeed/parsers.h"

namespace ringfeed::python {

/// A parser as Python holds it.
struct ParserHandle {
  std::shared_ptr<const Parser> parser;
};

/// The makers of parsers. Their arguments are those of ringfeed/parse.py, already normalised.
void BindParsers(nanobind::module_& module);

}  // namespace ringfeed::python
