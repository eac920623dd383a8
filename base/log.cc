#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <set>

#include "base/per_process.h"

namespace ringfeed {
namespace {

std::atomic<LogFunction> taker{nullptr};

struct Told {
  std::mutex mutex;  // guards what follows
  std::set<std::string, std::less<>> kinds;

  bool IsNew(std::string_view kind) {
    const std::lock_guard lock(mutex);
    return kinds.emplace(kind).second;
  }
};

// What is no level is told by the first text, as the default lets it through.
LogLevel LevelAllowed() {
  const char* const said = std::getenv("RINGFEED_LOG");
  const std::string_view word = said == nullptr ? "" : said;
  return word == "off" ? LogLevel::kOff : word == "info" ? LogLevel::kInfo : LogLevel::kWarn;
}

}  // namespace

void SetLog(LogFunction take) { taker.store(take, std::memory_order_release); }

void Tell(LogLevel level, std::string_view kind, const std::string& text) noexcept {
  static constinit PerProcess<Told> of_process;
  if (level > LevelAllowed()) return;
  try {
    if (!of_process.Get().IsNew(kind)) return;
  } catch (const std::exception&) {
    return;  // no memory
  }
  // Acquire: what the function uses was made before it was set.
  const LogFunction take = taker.load(std::memory_order_acquire);
  if (take != nullptr) return take(level, text);
  std::fprintf(stderr, "ringfeed: %s\n", text.c_str());
}

}  // namespace ringfeed
