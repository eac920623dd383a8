#include "tools/feed/chrome_trace_file.h"

#include <cerrno>
#include <utility>

#include "ringfeed/status.h"

namespace ringfeed::tools {

ChromeTraceFile::ChromeTraceFile(std::string path) : path_(std::move(path)), file_(path_) {
  if (!file_) throw Error(StatusFromErrno(errno, path_));
}

void ChromeTraceFile::Write(const Timeline& timeline) {
  errno = 0;
  file_ << timeline.ToChromeTrace();
  file_.close();
  if (!file_) throw Error(StatusFromErrno(errno != 0 ? errno : EIO, path_));
}

}  // namespace ringfeed::tools
