#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace ringfeed {

/// The system's facts about an open file. Another file under its name, and a write to it, change at
/// least one of these; so do changes that leave its contents alone, such as chmod.
struct FileState {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;

  static FileState Of(const struct stat& facts) {
    const auto ns = [](const timespec& time) {
      return time.tv_sec * std::int64_t{1000000000} + time.tv_nsec;
    };
    return {static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino),
            static_cast<std::uint64_t>(facts.st_size), ns(facts.st_mtim), ns(facts.st_ctim)};
  }
  friend bool operator==(const FileState&, const FileState&) = default;
};

}  // namespace ringfeed
