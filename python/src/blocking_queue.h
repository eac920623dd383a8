#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "exceptions.h"
#include "ringfeed/queue/blocking_queue.h"

namespace ringfeed::python {

/// The parts of Python's LoDTensorBlockingQueue.
struct QueueParts {
  std::shared_ptr<LoDTensorBlockingQueueHolder> holder;
  std::shared_ptr<ThrownKeeper> keeper;
};
/// None if `object` is not such a queue. Throws in a forked child.
std::optional<QueueParts> QueuePartsOf(nanobind::handle object);

/// LoDTensorBlockingQueue: Python pushes and chains of C++ readers take, or the other way.
void BindBlockingQueue(nanobind::module_& module);

}  // namespace ringfeed::python
