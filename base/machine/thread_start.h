#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/machine/signals_blocked.h"
#include "base/refuse.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A thread that runs function(stop token), or function(), and takes none of the process's signals.
/// Throws Error(kResourceExhausted), which begins with `who`, if the system has no thread to give.
template <typename Function>
std::jthread StartThread(const std::string& who, Function&& function) {
  const SignalsBlocked blocked;
  try {
    return std::jthread(std::forward<Function>(function));
  } catch (const std::system_error& error) {
    Refuse(StatusCode::kResourceExhausted,
           who + " cannot start: " + error.what() + "; raise the limit (ulimit -u)");
  }
}

}  // namespace ringfeed
