#include "tools/file_format.h"

#include <sys/stat.h>

#include <cerrno>

#include "readers/formats/format.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "tools/record_walk.h"

namespace ringfeed::tools {

bool IsRegularFile(const std::string& file) {
  if (IsStreamName(file)) return false;
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) throw Error(StatusFromErrno(errno, "open " + file));
  if (S_ISDIR(facts.st_mode)) throw Error(StatusFromErrno(EISDIR, "open " + file));
  return S_ISREG(facts.st_mode);
}

std::string FormatNameOf(const std::string& file, const std::string& asked) {
  if (!IsRegularFile(file)) return asked;
  return std::string(RecordWalk(file, asked, OnDamage::kFail).format().name());
}

void CheckFormat(const std::string& format) {
  if (format.empty()) return;
  if (Status status = FindFormat(format).status; !status.ok()) throw Error(status);
}

}  // namespace ringfeed::tools
