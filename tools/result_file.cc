#include "tools/result_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ringfeed/status.h"
#include "tools/command.h"

namespace ringfeed::tools {

ResultFile::ResultFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  is_new_ = !std::filesystem::exists(path_);
  file_.open(path_, std::ios::app);
  if (!file_) throw Error(StatusFromErrno(errno, "write " + path_));
}

ResultFile::~ResultFile() {
  if (is_new_) (void)unlink(path_.c_str());
}

void ResultFile::Write(const std::string& text) {
  if (path_.empty()) return;
  std::error_code failure;
  if (std::filesystem::is_regular_file(path_, failure)) {
    std::filesystem::resize_file(path_, 0, failure);
    if (failure) throw OutputError(StatusFromErrno(failure.value(), "write " + path_));
  }
  errno = 0;
  file_ << text;
  file_.close();
  if (!file_) throw OutputError(StatusFromErrno(errno != 0 ? errno : EIO, "write " + path_));
  is_new_ = false;
}

}  // namespace ringfeed::tools
