#include "parsers.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "field_specs.h"
#include "gil.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

ParserHandle Csv(const std::vector<std::tuple<FieldTuple, std::int64_t>>& fields, char delimiter,
                 bool quotes, const nb::bytes& header, std::int64_t columns) {
  std::vector<CsvField> specs;
  for (const auto& [field, column] : fields) {
    const auto& [name, dtype, shape, missing] = field;
    specs.push_back({name, DTypeNamed(dtype), shape, DefaultOf(missing), column});
  }
  return {CsvParser(std::move(specs), {.delimiter = delimiter,
                                       .quotes = quotes,
                                       .header = {header.c_str(), header.size()},
                                       .columns = columns})};
}

ParserHandle OFRecord(const std::vector<FieldTuple>& fields, bool truncate) {
  std::vector<OFRecordFeatureSpec> specs;
  for (const auto& [name, dtype, shape, missing] : fields) {
    specs.push_back({name, DTypeNamed(dtype), shape, DefaultOf(missing), truncate});
  }
  return {OFRecordParser(std::move(specs))};
}

ParserHandle LoDTensors(const std::vector<SlotTuple>& slots) {
  std::vector<LoDTensorSpec> specs;
  for (const auto& [name, dtype, shape, lod_levels] : slots) {
    specs.push_back({name, DTypeNamed(dtype), shape, lod_levels});
  }
  return {LoDTensorParser(specs)};
}

ParserHandle Tokens(const std::string& dtype, const Shape& shape,
                    const std::optional<std::string>& as, const std::string& name) {
  TokensSpec spec{.dtype = DTypeNamed(dtype), .shape = shape, .as = std::nullopt, .name = name};
  if (as) spec.as = DTypeNamed(*as);
  return {TokensParser(spec)};
}

}  // namespace

void BindParsers(nb::module_& module) {
  using Fields = std::vector<FieldTuple>;
  const auto fields = nb::arg("fields");
  const auto slots = nb::arg("slots");
  nb::class_<ParserHandle>(module, "RecordParser",
                           "Turns records into fields; immutable, for any number of chains.",
                           nb::dynamic_attr())
      .def_ro("draws", &ParserHandle::draws, "Whether rows differ from epoch to epoch.");
  module.def("raw_parser", [] { return ParserHandle{RawParser()}; });
  module.def(
      "rows_parser", [](const Fields& f) { return ParserHandle{RowsParser(FieldSpecs(f))}; },
      fields);
  module.def(
      "example_parser",
      [](const Fields& f) { return ParserHandle{ExampleParser(FeatureSpecs(f))}; }, fields);
  module.def(
      "sequence_example_parser",
      [](const Fields& context, const Fields& sequences) {
        return ParserHandle{SequenceExampleParser(FeatureSpecs(context), FeatureSpecs(sequences))};
      },
      nb::arg("context"), nb::arg("sequences"));
  module.def(
      "tar_parser", [](const Fields& f) { return ParserHandle{TarParser(FeatureSpecs(f))}; },
      fields);
  module.def(
      "json_lines_parser",
      [](const Fields& f) { return ParserHandle{JsonLinesParser(FeatureSpecs(f))}; }, fields);
  module.def(
      "instance_parser",
      [](const std::vector<SlotTuple>& s) {
        return ParserHandle{InstanceProtoParser(SlotSpecs(s))};
      },
      slots);
  module.def("csv_parser", &Csv, fields, nb::arg("delimiter"), nb::arg("quotes"), nb::arg("header"),
             nb::arg("columns"), "(field, column) each.");
  module.def("ofrecord_parser", &OFRecord, fields, nb::arg("truncate"));
  module.def("lod_tensor_parser", &LoDTensors, slots);
  module.def(
      "find_folders",
      [](const std::vector<std::string>& names) {
        return Unlocked([&] { return FindFolders(names); });
      },
      nb::arg("names"));
  module.def(
      "folder_label_parser",
      [](ParserHandle parser, std::vector<std::string> folders) {
        parser.parser = FolderLabelParser(std::move(parser.parser), std::move(folders));
        return parser;
      },
      nb::arg("parser"), nb::arg("folders"));
  module.def("tokens_parser", &Tokens, nb::arg("dtype"), nb::arg("shape"),
             nb::arg("as_dtype") = nb::none(), nb::arg("name") = "tokens");
}

}  // namespace ringfeed::python
