#include "instance_arrays.h"

#include <utility>
#include <vector>

#include "array.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// (file, first, count) each.
nb::list RangesOf(const std::vector<RecordRange>& ranges) {
  nb::list list;
  for (const RecordRange& range : ranges) {
    list.append(nb::make_tuple(range.file, range.first, range.count));
  }
  return list;
}

}  // namespace

nb::tuple ArraysOf(Instance instance, const std::shared_ptr<SharedLease>& lease) {
  nb::object arrays = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(instance.size())));
  for (std::size_t i = 0; i < instance.size(); ++i) {
    nb::object array = nb::cast(Array(std::move(instance[i]), lease, i));
    PyTuple_SET_ITEM(arrays.ptr(), static_cast<Py_ssize_t>(i), array.release().ptr());
  }
  return nb::borrow<nb::tuple>(arrays);
}

nb::dict DictOf(Instance instance) {
  const std::shared_ptr<const FieldNames> names = instance.names();
  const nb::tuple arrays = ArraysOf(std::move(instance));
  nb::dict dict;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string name = names == nullptr ? "bytes" : names->names()[i];
    dict[nb::str(name.data(), name.size())] = arrays[i];
  }
  return dict;
}

nb::object OriginDict(const std::optional<BatchOrigin>& origin) {
  if (!origin) return nb::none();
  nb::dict dict;
  dict["batch"] = origin->batch;
  dict["pass"] = origin->pass;
  dict["records"] = RangesOf(origin->records);
  dict["damaged"] = RangesOf(origin->damaged);
  if (origin->step_records != 0) {
    dict["step_units"] = origin->step_units;
    dict["step_records"] = origin->step_records;
  }
  return dict;
}

}  // namespace ringfeed::python
