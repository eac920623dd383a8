#pragma once

#include "ringfeed/status.h"

namespace ringfeed::tools {

/// At the start of the program. Sees to it that the descriptors 0, 1 and 2 are taken: a file that
/// is opened must not get the number of a standard stream that the caller closed, and a report then
/// be written into it. What is closed stays unreadable and unwritable. Buffers what no terminal
/// sees.
void PrepareStandardStreams();

/// Hands what was printed so far to the system. The first failure of all, again at each call: what
/// was printed then or later is lost.
Status FlushOutput();

/// Whoever tells FlushOutput's failure on stderr says so: it is told once.
void OutputFailureIsTold();

/// The exit status of the whole command, which was `exit_status` so far: kExitData where its
/// standard output could not be written. Tells why, on stderr.
int ExitStatusWithOutput(int exit_status);

}  // namespace ringfeed::tools
