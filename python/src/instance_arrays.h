#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "ringfeed/batch_origin.h"
#include "ringfeed/export/shared_lease.h"
#include "ringfeed/instance.h"

namespace ringfeed::python {

/// An instance as Python gets it: an Array per field. `lease`: the owner of the tensors, for a
/// device.
nanobind::tuple ArraysOf(Instance instance, const std::shared_ptr<SharedLease>& lease = nullptr);
/// The same by the fields' names; "bytes" of an instance without names.
nanobind::dict DictOf(Instance instance);
/// Returns None for none.
nanobind::object OriginDict(const std::optional<BatchOrigin>& origin);

}  // namespace ringfeed::python
