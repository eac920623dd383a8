#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"

namespace ringfeed::python {

/// A parser as Python holds it.
struct ParserHandle {
  std::shared_ptr<const Parser> parser;
  /// What follows Parse, if it is set.
  std::function<Reader(Reader rows, std::uint64_t seed)> then{};
  bool draws = false;  ///< whether that draws numbers, other ones in each epoch
};

/// The makers of parsers. Their arguments are those of ringfeed/parse.py, already normalised.
void BindParsers(nanobind::module_& module);

}  // namespace ringfeed::python
