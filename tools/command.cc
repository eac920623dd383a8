#include "tools/command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>

namespace ringfeed::tools {
namespace {

// Of the process, as stdout is; used by its main thread.
Status& OutputFailure() {
  static Status failure;
  return failure;
}

bool output_failure_is_told = false;

}  // namespace

ExitStatus ExitStatusOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitFine;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnsupported:
      return kExitUsage;
    default:
      return kExitData;
  }
}

Error Refuse(const std::string& why) { return Error(Status(StatusCode::kInvalidArgument, why)); }

void TellFailure(const Status& status) {
  if (!status.ok()) std::fprintf(stderr, "ringfeed: %s\n", status.ToString().c_str());
}

void PrepareStandardStreams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // open returns the lowest free number, which is this one. The access mode is the wrong one, so
    // that any use fails.
    const int held = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (held > STDERR_FILENO) close(held);
  }
  // Buffers whole reports: stdio forgets why a write of its own failed.
  constexpr std::size_t kBytes = std::size_t{1} << 18;
  if (isatty(STDOUT_FILENO) != 1) (void)std::setvbuf(stdout, nullptr, _IOFBF, kBytes);
}

Status FlushOutput() {
  Status& failure = OutputFailure();
  if (!failure.ok()) return failure;
  const bool failed_before = std::ferror(stdout) != 0;
  const int error = errno;  // of a large piece that was just written
  if (std::fflush(stdout) == 0 && !failed_before) return {};
  const int reason = failed_before ? error : errno;
  failure = StatusFromErrno(reason != 0 ? reason : EIO, "write to stdout");
  return failure;
}

void OutputFailureIsTold() { output_failure_is_told = true; }

int ExitStatusWithOutput(int exit_status) {
  const Status status = FlushOutput();
  if (status.ok()) return exit_status;
  if (!output_failure_is_told) TellFailure(status);
  return std::max<int>(exit_status, kExitData);
}

}  // namespace ringfeed::tools
