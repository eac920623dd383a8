#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/pattern_file.h"

namespace ringfeed {

/// Of the variables that stores read it leaves those that are given, and a home without files.
class StoreEnvironment {
 public:
  using Variables = std::initializer_list<std::pair<const char*, const char*>>;

  StoreEnvironment() : StoreEnvironment(Variables{}) {}
  StoreEnvironment(Variables variables) {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
      for (const char* const prefix :
           {"AWS_", "AZURE_", "GS_", "GOOGLE_", "HF_", "STORAGE_EMU", "RINGFEED_S3", "HOME"}) {
        if (name.starts_with(prefix)) before_.emplace_back(name, std::getenv(name.c_str()));
      }
    }
    for (const auto& [name, value] : before_) unsetenv(name.c_str());
    Set("HOME", home_.File(""));
    for (const auto& [name, value] : variables) Set(name, value);
  }
  StoreEnvironment(const StoreEnvironment&) = delete;
  StoreEnvironment& operator=(const StoreEnvironment&) = delete;
  ~StoreEnvironment() {
    for (const std::string& name : set_) unsetenv(name.c_str());
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }
  /// Writes a file below the home, and gives its path.
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = home_.File(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

 private:
  const TempDir home_;
  std::vector<std::pair<std::string, std::string>> before_;
  std::vector<std::string> set_;
};

}  // namespace ringfeed
