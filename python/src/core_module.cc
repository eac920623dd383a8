// ringfeed._core: the library as Python's side of the package uses it. What users call is in the
// package's Python files; names here follow the C++ ones, in Python's spelling.

#include <nanobind/nanobind.h>

#include "array.h"
#include "blocking_queue.h"
#include "decorators.h"
#include "device_feed.h"
#include "exceptions.h"
#include "fork_guard.h"
#include "live_readers.h"
#include "parsers.h"
#include "readers.h"
#include "user_sources.h"
#if defined(RINGFEED_WITH_CUDA)
#include "ringfeed/cuda_devices.h"
#endif

NB_MODULE(_core, module) {
  using namespace ringfeed::python;
  module.attr("version") = RINGFEED_VERSION;
  WatchForks();
#if defined(RINGFEED_WITH_CUDA)
  ringfeed::UseCuda();
#endif
  BindExceptions(module);
  BindArray(module);
  BindParsers(module);
  BindReaders(module);
  BindDecorators(module);
  BindDeviceFeed(module);
  BindBlockingQueue(module);
  BindUserSources(module);
  BindLiveReaders(module);
}
