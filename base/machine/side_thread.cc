#include "base/machine/side_thread.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "base/machine/thread_start.h"

namespace ringfeed {

struct SideThread::Shared {
  enum class State : std::uint8_t { kIdle, kAsked, kDone, kLetGo };
  explicit Shared(std::function<void()> its_work) : work(std::move(its_work)) {}

  const std::function<void()> work;
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::kIdle;  ///< guarded by mutex
};

SideThread::SideThread(const std::string& who, std::function<void()> work)
    : shared_(std::make_shared<Shared>(std::move(work))),
      thread_(StartThread(who, [shared = shared_] { Serve(shared); })) {}

SideThread::~SideThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->state = Shared::State::kLetGo;
  shared_->changed.notify_all();
}

void SideThread::Serve(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] {
      return shared->state == Shared::State::kAsked || shared->state == Shared::State::kLetGo;
    });
    if (shared->state == Shared::State::kLetGo) return;
    lock.unlock();
    shared->work();
    lock.lock();
    if (shared->state == Shared::State::kLetGo) return;
    shared->state = Shared::State::kDone;
    shared->changed.notify_all();
  }
}

bool SideThread::Run(std::chrono::milliseconds timeout) {
  std::unique_lock lock(shared_->mutex);
  shared_->state = Shared::State::kAsked;
  shared_->changed.notify_all();
  const auto is_done = [&] { return shared_->state == Shared::State::kDone; };
  if (shared_->changed.wait_until(lock, std::chrono::steady_clock::now() + timeout, is_done)) {
    return true;
  }
  shared_->state = Shared::State::kLetGo;
  lock.unlock();
  thread_.detach();
  return false;
}

}  // namespace ringfeed
