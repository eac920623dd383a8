#pragma once

#include <fstream>
#include <string>

namespace ringfeed::tools {

/// A file that is written at the end; its name is tried at the start, so that a run is not in vain.
class ResultFile {
 public:
  /// Throws Error where it cannot be written. An empty path: none.
  explicit ResultFile(std::string path);
  /// Leaves no empty file if nothing came of it.
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  /// Throws Error where it could not be written whole.
  void Write(const std::string& text);

 private:
  const std::string path_;
  bool is_new_ = false;  ///< and nothing is in it yet
  std::ofstream file_;
};

}  // namespace ringfeed::tools
