#pragma once

#include <functional>
#include <string>

#include "io/input_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Who is told what becomes of a run's files. Called by any thread; each may be empty.
struct FileNews {
  std::function<void(const InputFile&)> opened{};
  /// Of a file that takes no opening: an empty one, or one that a reader of the user's own opened.
  std::function<void(const std::string& name)> read{};
  std::function<void(const std::string& name, const Status& why)> failed{};
};

}  // namespace ringfeed
