#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

// How `ringfeed top` finds the jobs of its user: each leaves a note of a few bytes, named by its
// process, in $XDG_RUNTIME_DIR/ringfeed, else in /tmp/ringfeed-UID. Why a file, and not a search
// through /proc: the environment there is that of the start, which a program may have changed, and
// port 0 and names with %p stand in no environment. The folder is its user's alone (0700, looked
// at before it is used), so nobody can send `top` to a socket of theirs. What a job that was killed
// left behind is known by its process's number and start, and passed over. A note's name has the
// number of the PID namespace, too, since containers may share the folder: what runs in another one
// is not seen, and its notes are left alone.

/// A process that shows its metrics.
struct JobNote {
  int pid = 0;
  std::uint64_t start_ticks = 0;  ///< of the process, since the machine's start
  std::string address{};          ///< MetricsAddress::ToString
  std::string command{};          ///< its words; found, not written
};

/// When process `pid` started; 0 where there is none.
std::uint64_t StartTicksOf(int pid);

/// Leaves this process's note. Fails where no folder can be had that is the user's alone.
Status LeaveJobNote(const std::string& address);
/// Takes it away, where there is one.
void TakeJobNote();

/// The notes of the user's processes that still run, by number. What processes of this namespace
/// left at their end is taken away.
std::vector<JobNote> FindJobs();

}  // namespace ringfeed
