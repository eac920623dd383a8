#include "readers/formats/writing/output_target.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as many as Linux follows

}  // namespace

Status FindOutputTarget(const std::string& path, std::string* target) {
  fs::path place(path);
  std::error_code failure;
  for (int links = 0; fs::is_symlink(fs::symlink_status(place, failure)); ++links) {
    if (links == kMostLinks) return StatusFromErrno(ELOOP, "follow the link " + path);
    const fs::path to = fs::read_symlink(place, failure);
    if (failure) return StatusFromErrno(failure.value(), "follow the link " + path);
    place = to.is_absolute() ? to : place.parent_path() / to;
  }
  struct stat facts {};
  if (stat(place.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode)) {
    const bool folder = S_ISDIR(facts.st_mode);
    return Status(StatusCode::kInvalidArgument,
                  path + (folder ? " is a folder" : " is a device, a FIFO or a socket") +
                      ": a file under this name would take its place; name a regular file");
  }
  *target = place.string();
  return {};
}

}  // namespace ringfeed
