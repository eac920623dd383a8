#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "io/input_file.h"

namespace ringfeed {

/// The mappings of a chain's files, kept from pass to pass and from run to run: a file that is read
/// again comes with its page tables filled in. They end with the chain, and so does what they hold
/// of files that were deleted meanwhile. Thread safe.
class KeptMappings {
 public:
  /// Of all chains of the process: the system limits mappings, too. What is opened beyond is mapped
  /// as long as it is read.
  static constexpr std::size_t kMost = 4096;

  /// A file was opened: its mapping takes the place of the one that was kept under its name.
  void Note(const InputFile& file);
  /// The chain ends.
  void Clear();

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const FileMapping>> by_name_;
};

}  // namespace ringfeed
