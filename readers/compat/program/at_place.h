#pragma once

#include <string>

#include "ringfeed/reader.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Does one thing of the step at `place`: failures name it.
template <typename Function>
auto At(const std::string& place, Function function) {
  try {
    return function();
  } catch (const EndOfData& end) {
    throw EndOfData(place + ": " + end.what());
  } catch (const Error& error) {
    const Status& status = error.status();
    throw Error(Status(status.code(), place + ": " + status.message(), status.place()));
  }
}

}  // namespace ringfeed
