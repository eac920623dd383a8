#include "tools/result_file.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "ringfeed/status.h"
#include "tools/command.h"

namespace ringfeed::tools {

ResultFile::ResultFile(std::string path) : path_(std::move(path)) {
  if (path_.empty()) return;
  is_new_ = !std::filesystem::exists(path_);
  file_.open(path_, std::ios::app);
  if (!file_) throw Error(StatusFromErrno(errno, "write " + path_));
  file_.close();
}

ResultFile::~ResultFile() {
  if (is_new_) (void)unlink(path_.c_str());
}

void ResultFile::Write(const std::string& text) {
  if (path_.empty()) return;
  errno = 0;
  file_.open(path_, std::ios::trunc);
  file_ << text;
  file_.close();
  if (!file_) throw OutputError(StatusFromErrno(errno != 0 ? errno : EIO, "write " + path_));
  is_new_ = false;
}

}  // namespace ringfeed::tools
