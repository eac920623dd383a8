#include "tools/exit_status.h"

namespace ringfeed::tools {

ExitStatus ExitStatusOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitFine;
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kPermissionDenied:
    case StatusCode::kUnsupported:
      return kExitUsage;
    default:
      return kExitData;
  }
}

}  // namespace ringfeed::tools
