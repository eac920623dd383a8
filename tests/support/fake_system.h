#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/pattern_file.h"

namespace ringfeed {

/// A made-up /proc and /sys below a directory of its own.
class FakeSystem {
 public:
  std::string root() const { return directory_.path(); }

  void Put(const std::string& path, const std::string& text) const {
    std::ofstream(Whole(path)) << text;
  }
  /// A link to another path of this system, relative, as those of /sys are.
  void Link(const std::string& path, const std::string& to) const {
    const std::filesystem::path whole = Whole(path);
    const std::filesystem::path target = root() + to;
    std::filesystem::create_symlink(target.lexically_relative(whole.parent_path()), whole);
  }

  /// A PCI function below /sys/devices; `path` ends in its address.
  void PutPci(const std::string& path, int numa_node, const std::string& cpus,
              const std::string& link_speed, const std::string& link_width) const {
    const std::string device = "/sys/devices/" + path;
    Put(device + "/numa_node", std::to_string(numa_node) + "\n");
    Put(device + "/local_cpulist", cpus + "\n");
    for (const char* which : {"current", "max"}) {
      Put(device + "/" + which + "_link_speed", link_speed + "\n");
      Put(device + "/" + which + "_link_width", link_width + "\n");
    }
    Link("/sys/bus/pci/devices/" + path.substr(path.rfind('/') + 1), device);
  }

 private:
  std::filesystem::path Whole(const std::string& path) const {
    const std::filesystem::path whole = root() + path;
    std::filesystem::create_directories(whole.parent_path());
    return whole;
  }

  const TempDir directory_;
};

}  // namespace ringfeed
