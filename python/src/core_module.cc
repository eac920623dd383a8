// ringfeed._core: the library for the Python side of the package. Users call the package's Python
// files; names here follow the C++ ones, in Python's spelling.

#include <nanobind/nanobind.h>

#include "array.h"
#include "blocking_queue.h"
#include "exceptions.h"
#include "fork_guard.h"
#include "live_readers.h"
#include "module_parts.h"
#include "parsers.h"
#include "program_scope.h"
#include "record_writer.h"
#if defined(RINGFEED_WITH_CUDA)
#include "ringfeed/devices/cuda_devices.h"
#endif
#if defined(RINGFEED_WITH_METRICS)
#include "ringfeed/metrics.h"
#endif

namespace {

// Objects that daemon threads hold at the interpreter's end are never freed, so nanobind's report
// of leaks, which is on by default, would blame correct programs. `python -X dev` turns it on.
bool ReportsLeaks() {
  return nanobind::cast<bool>(nanobind::module_::import_("sys").attr("flags").attr("dev_mode"));
}

}  // namespace

NB_MODULE(_core, module) {
  using namespace ringfeed::python;
  nanobind::set_leak_warnings(ReportsLeaks());
  module.attr("version") = RINGFEED_VERSION;
  WatchForks();
#if defined(RINGFEED_WITH_CUDA)
  ringfeed::UseCuda();
#endif
#if defined(RINGFEED_WITH_METRICS)
  ringfeed::UseMetrics();
#endif
  BindExceptions(module);
  BindArray(module);
  BindParsers(module);
  BindReaders(module);
  BindDecorators(module);
  BindDeviceFeed(module);
  BindBlockingQueue(module);
  BindUserSources(module);
  BindRegisteredReaders(module);
  BindProgramScope(module);
  BindPrograms(module);
  BindRecordBuilders(module);
  BindRecordWriter(module);
  BindJournal(module);
  BindLoops(module);
  BindLiveReaders(module);
  TellRefusedCalls(module);
}
