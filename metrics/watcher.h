#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "metrics/address.h"
#include "metrics/http_server.h"
#include "metrics/metrics_file.h"
#include "metrics/own_descriptor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The served text, counted anew at most every 200 ms: whatever the number of clients, the process
/// counts five times a second at most. Thread safe.
class MetricsText {
 public:
  std::string OpenMetrics();
  std::string Prometheus();
  /// From now on until Expire, the calling thread's CPU time is the cost shown.
  void ChargeThisThread();
  /// The next text is counted anew. The thread that was charged may end.
  void Expire();

 private:
  void CountAnew();

  std::mutex mutex_;  ///< guards what follows
  std::chrono::steady_clock::time_point counted_{};
  std::uint64_t looks_ = 0;
  std::optional<clockid_t> charged_;
  double cpu_s_ = 0;
  std::string open_metrics_;
  std::string prometheus_;
};

/// Shows this process at one address, from its start until Stop. It has one thread.
class Watcher {
 public:
  /// Starts. Fails if the address cannot be used.
  static Status Start(MetricsAddress address, std::unique_ptr<Watcher>* watcher);
  ~Watcher() { Stop(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Ends the thread, writes a file a last time, and removes what is in the file system. Only in
  /// the process that started it; a second call changes nothing.
  void Stop();
  const MetricsAddress& address() const { return address_; }

 private:
  explicit Watcher(MetricsAddress address) : address_(std::move(address)) {}
  Status Open();
  void Run(const std::stop_token& stop);
  void WriteUntil(const std::stop_token& stop);
  void WriteFile();
  HttpAnswer AnswerTo(const PageRequest& request);

  MetricsAddress address_;
  MetricsText text_;
  OwnDescriptor waker_;
  std::optional<HttpServer> server_;
  std::optional<MetricsFile> file_;
  bool told_ = false;  ///< it was told that the file cannot be written
  std::uint64_t socket_inode_ = 0;
  bool noted_ = false;  ///< has a note for `ringfeed top`
  std::jthread thread_;
};

/// The page that draws /metrics: one file that needs nothing from outside.
std::string_view MetricsPage();

}  // namespace ringfeed
