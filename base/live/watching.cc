#include "base/live/watching.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/per_process.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

/// What this process has decided.
struct Decision {
  std::mutex mutex;  ///< guards what follows
  bool asked = false;
  bool watched = false;
  Status refused;
};

Decision& OfThisProcess() {
  static constinit PerProcess<Decision> decision;
  return decision.Get();
}

std::atomic<StartWatching> offered{nullptr};

// Call with the mutex held. False if the program has nothing that shows metrics.
bool Start(const std::string& where) {
  const StartWatching start = offered.load(std::memory_order_relaxed);
  if (start != nullptr) {
    start(where);
    return true;
  }
  Tell(LogLevel::kWarn, kMetricsVariable,
       std::string(kMetricsVariable) +
           " is set, but this program has nothing that shows metrics: it needs "
           "ringfeed::metrics, and to call ringfeed::UseMetrics() (a ringfeed that was built "
           "without prometheus-cpp has neither). It goes on without.");
  return false;
}

}  // namespace

void OfferWatching(StartWatching start) { offered.store(start, std::memory_order_relaxed); }

bool IsWatched() {
  Decision& own = OfThisProcess();
  const std::lock_guard lock(own.mutex);
  if (!own.asked) {
    own.asked = true;
    const char* const where = std::getenv(kMetricsVariable);
    try {
      if (where != nullptr && *where != '\0' && Start(where)) own.watched = true;
    } catch (const Error& error) {
      own.refused = error.status();
    }
  }
  if (!own.refused.ok()) throw Error(own.refused);
  return own.watched;
}

void WatchThisProcess() {
  Decision& own = OfThisProcess();
  const std::lock_guard lock(own.mutex);
  own.watched = true;
}

}  // namespace ringfeed
