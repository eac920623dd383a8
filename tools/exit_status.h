#pragma once

#include "ringfeed/status.h"

namespace ringfeed::tools {

/// What the command's exit status says. An interface: scripts depend on the numbers.
enum ExitStatus : int {
  kExitFine = 0,
  kExitData = 1,   ///< damage was met, the data failed, or stdout could not be written
  kExitUsage = 2,  ///< an option, a name or the system's set-up does not allow the run
};

/// Of a run that ended with `status`: names, rights and options are usage, all else is data.
ExitStatus ExitStatusOf(const Status& status);

}  // namespace ringfeed::tools
