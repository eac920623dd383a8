#include "metrics/watcher.h"

#include <poll.h>
#include <prometheus/collectable.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/live/watching.h"
#include "base/log.h"
#include "base/machine/signals_blocked.h"
#include "base/machine/thread_name.h"
#include "base/per_process.h"
#include "metrics/exposition.h"
#include "metrics/families.h"
#include "metrics/job_notes.h"
#include "ringfeed/metrics.h"

namespace ringfeed {
namespace {

constexpr std::chrono::milliseconds kCountsStand{200};
constexpr int kFileEveryMs = 5000;

void TellNotShown(const Status& status) {
  Tell(LogLevel::kWarn, "metrics", "no metrics are shown: " + status.message());
}

std::uint64_t InodeOf(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 ? found.st_ino : 0;
}

// The path as the process finds it from any folder.
std::string Absolute(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed);
  return failed ? path : absolute.string();
}

}  // namespace

void MetricsText::CountAnew() {
  const auto now = std::chrono::steady_clock::now();
  if (looks_ > 0 && now - counted_ < kCountsStand) return;
  counted_ = now;
  ++looks_;
  timespec time{};
  if (charged_ && clock_gettime(*charged_, &time) == 0) {
    cpu_s_ = static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  const auto families = CollectMetrics({looks_, cpu_s_});
  open_metrics_ = OpenMetricsText(families);
  prometheus_ = PrometheusText(families);
}

void MetricsText::ChargeThisThread() {
  clockid_t clock{};
  const std::lock_guard lock(mutex_);
  if (pthread_getcpuclockid(pthread_self(), &clock) == 0) charged_ = clock;
}

void MetricsText::Expire() {
  const std::lock_guard lock(mutex_);
  counted_ = {};
  charged_.reset();
}

std::string MetricsText::OpenMetrics() {
  const std::lock_guard lock(mutex_);
  CountAnew();
  return open_metrics_;
}

std::string MetricsText::Prometheus() {
  const std::lock_guard lock(mutex_);
  CountAnew();
  return prometheus_;
}

Status Watcher::Start(MetricsAddress address, std::unique_ptr<Watcher>* watcher) {
  if (address.kind != MetricsAddress::Kind::kTcp) address.path = Absolute(address.path);
  std::unique_ptr<Watcher> made(new Watcher(std::move(address)));
  Status status = made->Open();
  if (!status.ok()) return status;
  try {
    const SignalsBlocked blocked;
    made->thread_ = std::jthread([shown = made.get()](const std::stop_token& stop) {
      NameThisThread("ringfeed-show");
      shown->Run(stop);
    });
  } catch (const std::system_error& error) {
    return Status(StatusCode::kResourceExhausted, error.what());
  }
  status = LeaveJobNote(made->address_.ToString());
  made->noted_ = status.ok();
  if (!status.ok()) {
    Tell(LogLevel::kWarn, "job note",
         "`ringfeed top` will not find this job by itself: " + status.message());
  }
  *watcher = std::move(made);
  return {};
}

Status Watcher::Open() {
  waker_ = OwnDescriptor::Open([] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); });
  if (!waker_) return Status(StatusCode::kResourceExhausted, std::strerror(errno));
  if (address_.kind == MetricsAddress::Kind::kFile) {
    file_.emplace(address_.path);
    return file_->Write(text_.Prometheus());
  }
  OwnDescriptor listener;
  Status status = ListenAt(&address_, &listener);
  if (!status.ok()) return status;
  if (address_.kind == MetricsAddress::Kind::kUnix) socket_inode_ = InodeOf(address_.path);
  const bool local_only = address_.kind == MetricsAddress::Kind::kTcp && address_.loopback;
  server_.emplace(std::move(listener), local_only, HttpLimits(),
                  [this](const PageRequest& request) { return AnswerTo(request); });
  return {};
}

HttpAnswer Watcher::AnswerTo(const PageRequest& request) {
  if (request.path == "/") {
    return {.type = "text/html; charset=utf-8", .body = std::string(MetricsPage())};
  }
  if (request.path != "/metrics") {
    return {.status = 404, .body = "there are / (a page that draws it) and /metrics\n"};
  }
  if (AcceptsOpenMetrics(request.accept)) {
    return {.type = kOpenMetricsType, .body = text_.OpenMetrics()};
  }
  return {.type = kPrometheusType, .body = text_.Prometheus()};
}

void Watcher::Run(const std::stop_token& stop) {
  text_.ChargeThisThread();
  try {
    if (server_) {
      server_->Run(stop, waker_.get());
    } else {
      WriteUntil(stop);
    }
  } catch (const std::exception& error) {
    // Without memory for a text the job may still go on.
    TellNotShown(Status(StatusCode::kResourceExhausted, error.what()));
  }
}

void Watcher::WriteUntil(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd waker{waker_.get(), POLLIN, 0};
    (void)poll(&waker, 1, kFileEveryMs);
    if (!stop.stop_requested()) WriteFile();
  }
}

void Watcher::WriteFile() {
  const Status status = file_->Write(text_.Prometheus());
  if (!status.ok() && !std::exchange(told_, true)) TellNotShown(status);
}

void Watcher::Stop() {
  if (thread_.joinable()) {
    thread_.request_stop();
    const std::uint64_t one = 1;
    (void)!write(waker_.get(), &one, sizeof(one));
    thread_.join();
    text_.Expire();
    if (file_) WriteFile();
  }
  if (std::exchange(noted_, false)) TakeJobNote();
  // Removes the name first: no other process can then find the socket dead, replace it, and lose
  // its own here.
  const std::uint64_t inode = std::exchange(socket_inode_, 0);
  if (inode != 0 && InodeOf(address_.path) == inode) (void)unlink(address_.path.c_str());
  server_.reset();
}

namespace {

/// The watcher of this process, if there is one.
struct OfThisProcess {
  std::mutex mutex;  ///< guards what follows
  std::unique_ptr<Watcher> watcher;
};

OfThisProcess& Shown() {
  static constinit PerProcess<OfThisProcess> shown;
  return shown.Get();
}

// A child of fork that ends by exit comes here, too; it has no watcher but its own.
void StopAtExit() {
  const std::lock_guard lock(Shown().mutex);
  if (Shown().watcher != nullptr) Shown().watcher->Stop();
}

void StartForThisProcess(const std::string& where) {
  MetricsAddress address = ParseMetricsAddress(where, OwnAddressContext());
  OfThisProcess& shown = Shown();
  const std::lock_guard lock(shown.mutex);
  const Status status = Watcher::Start(std::move(address), &shown.watcher);
  if (!status.ok()) {
    // This must not end a run of days.
    TellNotShown(status);
    return;
  }
  static const bool at_exit = std::atexit(StopAtExit) == 0;
  (void)at_exit;
}

class Collector final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    return CollectMetrics({++looks_, 0});
  }

 private:
  mutable std::atomic<std::uint64_t> looks_{0};
};

}  // namespace

void UseMetrics() { OfferWatching(StartForThisProcess); }

std::string MetricsNow() {
  WatchThisProcess();
  static std::atomic<std::uint64_t> looks{0};
  return OpenMetricsText(CollectMetrics({looks.fetch_add(1, std::memory_order_relaxed) + 1, 0}));
}

std::shared_ptr<prometheus::Collectable> MetricsCollector() {
  WatchThisProcess();
  return std::make_shared<Collector>();
}

}  // namespace ringfeed
