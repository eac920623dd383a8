// ringfeed._core: the library for the Python side of the package. Users call the package's Python
// files; names here follow the C++ ones, in Python's spelling.

#include <nanobind/nanobind.h>

#include <cstdio>
#include <memory>
#include <new>
#include <string>

#include "array.h"
#include "blocking_queue.h"
#include "exceptions.h"
#include "fork_guard.h"
#include "live_readers.h"
#include "module_parts.h"
#include "parsers.h"
#include "program_scope.h"
#include "record_writer.h"
#include "ringfeed/log.h"
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

// Called on the main thread, with the interpreter's lock.
int WarnOf(void* text) {
  const std::unique_ptr<const std::string> owned(static_cast<const std::string*>(text));
  PyObject* const readable = PyUnicode_DecodeUTF8(
      owned->data(), static_cast<Py_ssize_t>(owned->size()), "backslashreplace");
  const int failed =
      readable == nullptr ? -1 : PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%U", readable);
  Py_XDECREF(readable);
  return failed;
}

// The thread that tells it may have no lock, and may not wait for it.
void WarnInPython(ringfeed::LogLevel level, const std::string& text) noexcept {
  auto* const copied = new (std::nothrow) std::string(text);
  const bool wants =
      level == ringfeed::LogLevel::kWarn && copied != nullptr && Py_IsInitialized() != 0;
  if (wants && Py_AddPendingCall(WarnOf, copied) == 0) return;
  delete copied;
  std::fprintf(stderr, "ringfeed: %s\n", text.c_str());
}

}  // namespace

NB_MODULE(_core, module) {
  using namespace ringfeed::python;
  nanobind::set_leak_warnings(ReportsLeaks());
  module.attr("version") = RINGFEED_VERSION;
  WatchForks();
  ringfeed::SetLog(WarnInPython);
#if defined(RINGFEED_WITH_CUDA)
  ringfeed::UseCuda();
#endif
#if defined(RINGFEED_WITH_METRICS)
  ringfeed::UseMetrics();
#endif
  BindExceptions(module);
  BindArray(module);
  BindArrow(module);
  BindParsers(module);
  BindReaders(module);
  BindDecorators(module);
#if defined(RINGFEED_WITH_JPEG)
  BindJpeg(module);
#endif
  BindDeviceFeed(module);
  BindBlockingQueue(module);
  BindUserSources(module);
  BindTables(module);
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
