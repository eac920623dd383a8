#pragma once

#include <nanobind/nanobind.h>

#include "ringfeed/stats.h"

namespace ringfeed::python {

/// The report as a dict whose keys are the names of PipelineStats.
nanobind::dict StatsDict(const PipelineStats& stats);
nanobind::dict StepWaitsDict(const StepWaits& waits);

}  // namespace ringfeed::python
