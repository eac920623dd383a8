#pragma once

#include <atomic>
#include <functional>

namespace ringfeed {

// The switches of programs that are built with what make_switched_run.py writes.

/// If set, asked before the plan is woken for a delivery that came back: whether to leave that wake
/// out, as a mistake in the protocol would. Set it while no run is at work.
inline std::function<bool()> leaves_out_wake;
inline bool LeavesOutWake() { return leaves_out_wake && leaves_out_wake(); }

/// Payloads are framed as if their checksums were left, but these are checked at once.
inline std::atomic<bool> takes_sums_at_once = false;
inline std::atomic<bool> was_asked_for_sums = false;
inline bool TakesSumsAtOnce() {
  was_asked_for_sums = true;
  return takes_sums_at_once;
}

}  // namespace ringfeed
