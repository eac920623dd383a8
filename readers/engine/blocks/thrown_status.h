#pragma once

#include <exception>
#include <new>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// In a handler: what was thrown, as the failure of a run. Memory that is short is
/// kResourceExhausted, what carries a Status is that (but for a user's, which is kUserError like
/// all that users throw), all else is of `code`. `what` says what happened, as "the plan failed".
inline Status StatusOfThrown(const char* what, StatusCode code = StatusCode::kInternal) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted,
                  std::string(what) +
                      ": there is no memory; lower the window, the batch size or the threads, or "
                      "raise the process's limit");
  } catch (const Error& error) {
    if (code != StatusCode::kUserError && !error.status().ok()) return error.status();
    return Status(code, std::string(what) + ": " + error.what());
  } catch (const std::exception& error) {
    return Status(code, std::string(what) + ": " + error.what());
  } catch (...) {
    return Status(code, std::string(what) + ": what is no std::exception");
  }
}

}  // namespace ringfeed
