#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ringfeed/status.h"

namespace ringfeed {

/// No memory: kResourceExhausted, with what to do. It was made before memory was short, so it takes
/// none.
Status NoMemory() noexcept;

/// What is made of an Error that user code throws.
enum class ThrownError : std::uint8_t {
  kUsersOwn,     ///< kUserError, as of all that users throw
  kKeepsDamage,  ///< its Status if that is kDamaged: the user's function refuses its data
  kKeepsStatus,  ///< its Status: a source may know that its data are damaged, or read another chain
};

/// Call it in a handler: turns what was thrown into the failure of a run. A lack of memory is
/// kResourceExhausted. An exception that carries a Status gives that Status (except a user's, which
/// is kUserError like everything that users throw); all others are of `code`. `what` says what
/// happened, as "the plan failed". If there is no memory for the text either, it is NoMemory().
Status StatusOfThrown(std::string_view what, StatusCode code = StatusCode::kInternal) noexcept;
/// The same for what the user's `who` threw, as "the Filter function".
Status StatusOfUsers(std::string_view who, ThrownError kind = ThrownError::kUsersOwn) noexcept;

/// Calls the user's function. If it throws anything, that comes back as a failure; else OK.
template <typename Call>
Status CallUser(std::string_view who, Call&& call,
                ThrownError kind = ThrownError::kUsersOwn) noexcept {
  try {
    std::forward<Call>(call)();
    return {};
  } catch (...) {
    return StatusOfUsers(who, kind);
  }
}

/// The same of a function that returns a Status: what it threw, or what it returned, named `who`.
template <typename Call>
Status AskUser(std::string_view who, Call&& call) {
  Status said;
  const Status thrown = CallUser(
      who, [&] { said = std::forward<Call>(call)(); }, ThrownError::kKeepsStatus);
  if (!thrown.ok()) return thrown;
  if (said.ok()) return {};
  return Status(said.code(), std::string(who) + ": " + said.message());
}

/// CallUser on a thread of the user's: what was thrown is thrown again, as Error.
template <typename Call>
void CallUserOrThrow(std::string_view who, Call&& call) {
  Status status = CallUser(who, std::forward<Call>(call), ThrownError::kKeepsStatus);
  if (!status.ok()) throw Error(std::move(status));
}

}  // namespace ringfeed
