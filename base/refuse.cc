#include "base/refuse.h"

#include <string>

namespace ringfeed {

void Refuse(std::string_view message) { Refuse(StatusCode::kInvalidArgument, message); }

void Refuse(StatusCode code, std::string_view message) {
  throw Error(Status(code, std::string(message)));
}

}  // namespace ringfeed
