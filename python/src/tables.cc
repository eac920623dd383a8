// Tables of Python's: what has __arrow_c_stream__, and groups of rows that Python opens.

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gil.h"
#include "held_object.h"
#include "module_parts.h"
#include "open_options.h"
#include "reader_handle.h"
#include "ringfeed/tables/arrow_structures.h"
#include "ringfeed/tables/table_source.h"
#include "user_call.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

/// "fail", "default" or "mask", and the value.
using NullTuple = std::tuple<std::string, double>;

// Moves the structure out of the capsule of that name that object.method() gives.
template <typename Structure>
Structure TakeFrom(nb::handle object, const char* method, const char* name) {
  const nb::object capsule = CallMethod(object, method);
  void* const held = PyCapsule_GetPointer(capsule.ptr(), name);
  if (held == nullptr) throw nb::python_error();
  return std::exchange(*static_cast<Structure*>(held), {});
}
ArrowArrayStream StreamOf(nb::handle source) {
  return TakeFrom<ArrowArrayStream>(source, "__arrow_c_stream__", "arrow_array_stream");
}

/// A group as Python names it, its rows, and TableSource::identity.
using Group = std::tuple<std::string, std::uint64_t, std::string>;

class PythonTable final : public TableSource {
 public:
  PythonTable(std::string name, std::vector<Group> groups, nb::handle schema, nb::handle open,
              std::shared_ptr<ThrownKeeper> keeper)
      : name_(std::move(name)),
        groups_(std::move(groups)),
        schema_(Hold(schema)),
        open_(Hold(open)),
        keeper_(std::move(keeper)) {}

  std::string name() const override { return name_; }
  std::uint64_t groups() const override { return groups_.size(); }
  std::uint64_t rows(std::uint64_t group) const override { return std::get<1>(groups_[group]); }
  std::string group_name(std::uint64_t group) const override { return std::get<0>(groups_[group]); }
  std::string identity(std::uint64_t group) const override { return std::get<2>(groups_[group]); }
  void Describe(const std::vector<std::string>&, ArrowSchema* schema) override {
    *schema = CallUser(*keeper_, [&] {
      return TakeFrom<ArrowSchema>(schema_->Get(), "__arrow_c_schema__", "arrow_schema");
    });
  }
  void Open(std::uint64_t group, const std::vector<std::string>&,
            ArrowArrayStream* stream) override {
    *stream = CallUser(*keeper_, [&] {
      try {
        return StreamOf(open_->Get()(group));
      } catch (nb::python_error& thrown) {
        RethrowDamage(thrown);
        throw;
      }
    });
  }

 private:
  const std::string name_;
  const std::vector<Group> groups_;
  std::shared_ptr<HeldObject> schema_;
  std::shared_ptr<HeldObject> open_;
  std::shared_ptr<ThrownKeeper> keeper_;
};

NullOptions NullsOf(const NullTuple& given) {
  const auto& [mode, value] = given;
  if (mode == "fail") return {OnNull::kFail, value};
  if (mode == "default") return {OnNull::kDefault, value};
  if (mode == "mask") return {OnNull::kMask, value};
  throw nb::value_error("nulls are \"fail\", \"default\" or \"mask\"");
}

ReaderHandle OpenPythonTable(const std::string& name, const std::string& identity,
                             const std::optional<std::vector<Group>>& groups, nb::handle schema,
                             nb::handle open, const std::vector<std::string>& columns,
                             const NullTuple& nulls,
                             const std::map<std::string, NullTuple>& nulls_of,
                             std::size_t kept_groups, const nb::dict& opening) {
  TableOptions options;
  options.columns = columns;
  options.nulls = NullsOf(nulls);
  for (const auto& [column, given] : nulls_of) options.nulls_of[column] = NullsOf(given);
  options.kept_groups = kept_groups;
  options.open = OpenOptionsOf(opening);
  auto keeper = std::make_shared<ThrownKeeper>();
  std::shared_ptr<TableSource> table;
  if (groups) {
    table = std::make_shared<PythonTable>(name, *groups, schema, open, keeper);
  } else {
    ArrowArrayStream stream = StreamOf(open);
    table = Unlocked([&] { return TableOfStream(&stream, name, identity); });
  }
  try {
    return ReaderHandle(Unlocked([&] { return OpenTable(std::move(table), options); }), {keeper});
  } catch (const Error& error) {
    if (error.status().code() == StatusCode::kUserError) keeper->RaiseAgain(error.status());
    throw;
  }
}

}  // namespace

void BindTables(nb::module_& module) {
  module.def("open_table", &OpenPythonTable, nb::arg("name"), nb::arg("identity"),
             nb::arg("groups").none(), nb::arg("schema").none(), nb::arg("open"),
             nb::arg("columns"), nb::arg("nulls"), nb::arg("nulls_of"), nb::arg("kept_groups"),
             nb::arg("options"),
             nb::sig("def open_table(name: str, identity: str, groups: Sequence[tuple[str, int, "
                     "str]] | None, schema: object, open: object, columns: Sequence[str], nulls: "
                     "tuple[str, float], "
                     "nulls_of: Mapping[str, tuple[str, float]], kept_groups: int, options: "
                     "dict[str, typing.Any]) -> Reader"),
             "open(group) gives what has __arrow_c_stream__, for the rows of that group, and "
             "`schema` has __arrow_c_schema__; without `groups`, each its name, rows and identity, "
             "it has the stream itself, and `identity` is that of its groups.");
}

}  // namespace ringfeed::python
