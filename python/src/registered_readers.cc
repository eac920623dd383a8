#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gil.h"
#include "module_parts.h"
#include "reader_handle.h"
#include "ringfeed/compat/registry.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

AttributeValue ValueOf(const std::string& name, nb::handle given) {
  if (PyBool_Check(given.ptr())) return nb::cast<bool>(given);
  if (std::int64_t integer = 0; nb::try_cast(given, integer, false)) return integer;
  if (std::string text; nb::try_cast(given, text, false)) return text;
  const std::string what =
      name + " is an integer of 64 bits, True or False, or a str of UTF-8, not ";
  throw nb::type_error((what + nb::repr(given).c_str()).c_str());
}

ReaderHandle Create(const std::string& kind, const nb::dict& given,
                    const std::vector<const ReaderHandle*>& inputs) {
  Attributes attributes;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    attributes.Set(name, ValueOf(name, value));
  }
  std::vector<Reader> readers;
  ReaderHandle::Keepers keepers;
  for (const ReaderHandle* input : inputs) {
    readers.push_back(input->reader());
    keepers.insert(keepers.end(), input->keepers().begin(), input->keepers().end());
  }
  return ReaderHandle(Unlocked([&] { return CreateReader(kind, attributes, readers); }),
                      std::move(keepers));
}

}  // namespace

void BindRegisteredReaders(nb::module_& module) {
  module.def("create_reader", &Create, nb::arg("kind"), nb::arg("attributes"), nb::arg("inputs"),
             nb::sig("def create_reader(kind: str, attributes: dict[str, typing.Any], "
                     "inputs: Sequence[Reader]) -> Reader"),
             "The reader that an operation of a program's startup creates.");
}

}  // namespace ringfeed::python
