#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

// How `ringfeed top` finds the jobs of its user: each leaves a note of a few bytes, named by its
// process, in $XDG_RUNTIME_DIR/ringfeed, else in /tmp/ringfeed-UID. It uses a file and does not
// search /proc, because the environment there is that of the start, which a program may have
// changed, and the real port for port 0 and the expanded %p are in no environment. Only its user
// can use the folder (0700, checked before use), so no other user can send `top` to a socket of
// theirs. The note of a killed job is recognised by its process's number and start, and skipped. A
// note's name also has the number of the PID namespace, since containers may share the folder: jobs
// of other namespaces are not seen, and their notes are left alone.

/// A process that shows its metrics.
struct JobNote {
  int pid = 0;
  std::uint64_t start_ticks = 0;  ///< of the process, since the machine's start
  std::string address{};          ///< MetricsAddress::ToString
  std::string command{};          ///< its words; read from /proc, not from the note
};

/// When process `pid` started; 0 if there is none.
std::uint64_t StartTicksOf(int pid);

/// Leaves this process's note. Fails if there is no folder that only the user can use.
Status LeaveJobNote(const std::string& address);
/// Removes it, if there is one.
void TakeJobNote();

/// The notes of the user's processes that still run, by number. Removes the notes that ended
/// processes of this namespace left.
std::vector<JobNote> FindJobs();

}  // namespace ringfeed
