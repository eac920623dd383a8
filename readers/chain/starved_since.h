#pragma once

#include <chrono>
#include <optional>

#include "readers/engine/run.h"
#include "ringfeed/queue/deadline.h"

namespace ringfeed {

/// Knows since when a chain's run has waited for what its consumers hold, from the looks of the
/// threads that wait. The chain's mutex guards it.
class StarvedSince {
 public:
  /// After so long without a delivery a wait looks whether its own thread is the reason.
  static constexpr std::chrono::milliseconds kAWhile{20};

  /// A look of a waiting thread, which holds something or not, saw this. Whether the thread is to
  /// be told: after a while, if all that hold ask for more, or else after `held_silence`.
  bool Note(const std::optional<Starvation>& how, bool holds, Deadline now,
            std::chrono::milliseconds held_silence) {
    if (!how) {
      // While holders are at work, a look that finds nothing (LateWakes asks for it) is no news.
      if (seen_ && seen_->how.all_ask) seen_.reset();
      return false;
    }
    // After a long time without a look it is not known what happened between.
    const bool goes_on = seen_ && seen_->how == *how && now - seen_->last < kSeldom;
    if (!goes_on) seen_ = {now, now, *how};
    seen_->last = now;
    // If all ask, only threads that hold something are told, and so let it go.
    if (how->all_ask && !holds) return false;
    return now - seen_->first >= (how->all_ask ? kAWhile : held_silence);
  }
  /// Whether all have asked for a while, and a thread still looks.
  bool AllAsk(Deadline now) const {
    return seen_ && seen_->how.all_ask && now - seen_->first >= kAWhile &&
           now - seen_->last < kSeldom;
  }
  /// Something was delivered.
  void Forget() { seen_.reset(); }

 private:
  /// A thread that has not looked for so long does not wait any more, however slowly it runs.
  static constexpr std::chrono::seconds kSeldom{5};
  struct Seen {
    Deadline first;
    Deadline last;
    Starvation how;
  };
  std::optional<Seen> seen_;
};

}  // namespace ringfeed
