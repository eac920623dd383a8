#pragma once

#include <fstream>
#include <string>

namespace ringfeed::tools {

/// A file that is written at the end. It is opened at the start, so that a name that cannot be
/// written ends a long run before it begins. The old contents stay until there are new ones.
class ResultFile {
 public:
  /// Throws Error if it cannot be written. An empty path: none.
  explicit ResultFile(std::string path);
  /// Removes a new file that stayed empty.
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Throws Error if it could not be written whole.
  void Write(const std::string& text);

 private:
  const std::string path_;
  bool is_new_ = false;  ///< and nothing is in it yet
  std::ofstream file_;
};

}  // namespace ringfeed::tools
