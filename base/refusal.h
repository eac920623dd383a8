#pragma once

#include "ringfeed/status.h"

namespace ringfeed {

/// Whether what an open or a read failed with is not the data's fault but the system's refusal: no
/// descriptor, no memory, no room in a queue. That is never skipped as damage is, since nobody can
/// say that the data are not good: it is overcome, or it fails the chain.
inline bool IsRefusal(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted;
}

/// Whether an open failed for what the system refuses, now or for good, or for what cannot be done
/// here whatever the file holds: that is never skipped as damage is.
inline bool IsNoDamage(const Status& status) {
  return IsRefusal(status) || status.code() == StatusCode::kUnsupported;
}

}  // namespace ringfeed
