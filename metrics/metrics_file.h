#pragma once

#include <string>
#include <utility>

#include "metrics/own_descriptor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A file that always holds a whole text: each one is written beside it and put into its place. One
/// process at a time writes it, which is the one that has the file itself locked. One thread.
class MetricsFile {
 public:
  explicit MetricsFile(std::string path) : path_(std::move(path)) {}

  /// Fails where another process writes that file, where the name is no file's, and where the file
  /// has something else in it.
  Status Write(const std::string& text);

 private:
  /// Whether the file there, if there is one, may be replaced; locks it.
  Status TakeOver();
  Status MakeBeside(const std::string& name, const std::string& text, OwnDescriptor* file) const;
  Status Failed(const std::string& why) const;

  const std::string path_;
  OwnDescriptor locked_;  ///< the file that stands there, once one is this process's
};

}  // namespace ringfeed
