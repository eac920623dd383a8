#include "base/machine/cgroup.h"

#include <cstddef>
#include <fstream>

namespace ringfeed {

std::optional<std::string> FirstLineOf(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

namespace {

/// `mount` + each prefix of `group`, the longest first, down to the mount itself. In a container
/// the path of the group often does not exist below the mount: then the mount is the group.
std::vector<std::string> UpwardsFrom(const std::string& mount, std::string group) {
  std::vector<std::string> directories;
  while (group.size() > 1) {
    directories.push_back(mount + group);
    group.erase(group.rfind('/'));
  }
  directories.push_back(mount);
  return directories;
}

bool ListHas(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

std::vector<CgroupPath> CgroupPathsOf(std::string_view controller, const std::string& root) {
  std::vector<CgroupPath> paths;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  // Each line is "number:controllers:path"; version 2 has no controllers.
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        paths.insert(paths.begin(), {UpwardsFrom(root + mount, group), true});
      }
    } else if (ListHas(controllers, controller)) {
      for (const std::string& mount : {std::string(controller), controllers}) {
        paths.push_back({UpwardsFrom(root + "/sys/fs/cgroup/" + mount, group), false});
      }
    }
  }
  return paths;
}

}  // namespace ringfeed
