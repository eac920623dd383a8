// The engine that reads while it is asked. Its thread calls all of it but Wake, which does nothing,
// since Reap never waits. At most one read is finished and not reaped; until it is, Submit takes
// none. Chains do not use it; the I/O benchmark and tests do.

#include <optional>

#include "io/read_engine.h"
#include "io/request_reader.h"

namespace ringfeed {

namespace {

/// Reads one request at a time, so that its bytes are still in the caller's cache when they are
/// reaped.
class InlineEngine final : public ReadEngine {
 public:
  explicit InlineEngine(const IoOptions& options) : retries_(options.retries) {}

  std::string name() const override { return "inline"; }

  std::size_t Submit(std::span<const ReadRequest> requests) override {
    if (finished_ || requests.empty()) return 0;
    finished_ = ReadRequestBlocking(requests.front(), retries_, &stats_);
    return 1;
  }

  std::size_t Reap(std::span<ReadCompletion> completions,
                   std::chrono::steady_clock::time_point /*deadline*/) override {
    if (!finished_ || completions.empty()) return 0;
    completions.front() = *std::move(finished_);
    finished_.reset();
    return 1;
  }

  void Wake() override {}  // Reap never waits
  std::size_t in_flight() const override { return finished_ ? 1 : 0; }
  ReadEngineStats stats() const override { return stats_; }

 private:
  const int retries_;
  std::optional<ReadCompletion> finished_;
  ReadEngineStats stats_;
};

}  // namespace

std::unique_ptr<ReadEngine> MakeInlineEngine(const IoOptions& options) {
  return std::make_unique<InlineEngine>(options);
}

}  // namespace ringfeed
