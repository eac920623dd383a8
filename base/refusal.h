#pragma once

#include "ringfeed/status.h"

namespace ringfeed {

/// Whether an open or a read failed because the system refused, not because of the data: no
/// descriptor, no memory, no room in a queue. A refusal is never skipped as damage is, since the
/// data may be good: it is overcome, or it fails the chain.
inline bool IsRefusal(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted;
}

/// Whether an open failed because the system refused, for now or for good, or because it cannot be
/// done here whatever the file holds. That is never skipped as damage is.
inline bool IsNoDamage(const Status& status) {
  return IsRefusal(status) || status.code() == StatusCode::kUnsupported;
}

/// The same of an object of a store, if `of_store`: only that it is not there, or that it is
/// another one, says something about its bytes.
inline bool IsNoDamage(const Status& status, bool of_store) {
  if (IsNoDamage(status) || !of_store) return IsNoDamage(status);
  return status.code() != StatusCode::kNotFound && status.code() != StatusCode::kDamaged &&
         status.code() != StatusCode::kTruncated;
}

}  // namespace ringfeed
