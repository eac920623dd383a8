#include "base/user_call.h"

#include <exception>
#include <new>
#include <string>

namespace ringfeed {

namespace {

constexpr char kNoMemory[] =
    "there is no memory; lower the window, the batch size or the threads, or raise the process's "
    "limit";

// A class of the user's may give null.
const char* WordsOf(const std::exception& error) {
  const char* const words = error.what();
  return words != nullptr ? words : "an exception without words";
}

const Status& MadeBefore() {
  // Never destroyed: threads may fail while the process ends.
  static const Status* const made = new Status(StatusCode::kResourceExhausted, kNoMemory);
  return *made;
}
[[maybe_unused]] const Status& made_at_start = MadeBefore();

// What is kept of an Error's Status.
bool Keeps(ThrownError kind, const Status& status) {
  if (kind == ThrownError::kKeepsDamage) return status.code() == StatusCode::kDamaged;
  return kind == ThrownError::kKeepsStatus && !status.ok();
}

Status Told(std::string_view what, StatusCode code, ThrownError kind) {
  const std::string begin(what);
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, begin + ": " + kNoMemory);
  } catch (const Error& error) {
    if (Keeps(kind, error.status())) return error.status();
    return Status(code, begin + ": " + error.what());
  } catch (const std::exception& error) {
    return Status(code, begin + ": " + WordsOf(error));
  } catch (...) {
    return Status(code, begin + ": what is no std::exception");
  }
}

}  // namespace

Status NoMemory() noexcept { return MadeBefore(); }

Status StatusOfThrown(std::string_view what, StatusCode code) noexcept {
  try {
    const bool users = code == StatusCode::kUserError;
    return Told(what, code, users ? ThrownError::kUsersOwn : ThrownError::kKeepsStatus);
  } catch (...) {
    return NoMemory();
  }
}

Status StatusOfUsers(std::string_view who, ThrownError kind) noexcept {
  try {
    return Told(std::string(who) + " threw", StatusCode::kUserError, kind);
  } catch (...) {
    return NoMemory();
  }
}

}  // namespace ringfeed
