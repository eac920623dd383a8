#include "tests/gpu/cuda/host_grid.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#include "tests/queue/fiber.h"

namespace ringfeed::host_grid {
namespace {

using checker::Fiber;
using checker::FiberContext;
using checker::SwitchFiber;

constexpr std::size_t kLanes = 32;
constexpr unsigned kSlownesses = 4;  ///< a warp rests in up to 7 of 8 rounds

// Shared memory; the linker knows where it is.
extern "C" std::byte __start_ringfeed_shared[];  // NOLINT
extern "C" std::byte __stop_ringfeed_shared[];   // NOLINT

void SpoilSharedMemory() {
  std::fill(__start_ringfeed_shared, __stop_ringfeed_shared, std::byte{0xC5});
}

[[noreturn]] void Offence(const char* what) {
  std::fprintf(stderr, "a kernel on the host: %s\n", what);
  std::abort();
}

enum class State : std::uint8_t { kRuns, kInBlock, kInWarp, kEnded };

struct Thread {
  Fiber fiber;
  Place place;
  State state = State::kRuns;
  std::uint64_t value = 0;  ///< what it brings to where it meets others, then what it takes along
  unsigned down = 0;
};

/// The block that runs.
class Block {
 public:
  void Run(const Place& place, const std::function<void()>& body, std::mt19937_64* random) {
    body_ = &body;
    SpoilSharedMemory();
    count_ = std::size_t{place.threads.x} * place.threads.y * place.threads.z;
    while (threads_.size() < count_) threads_.push_back(std::make_unique<Thread>());
    for (std::size_t i = 0; i < count_; ++i) Begin(threads_[i].get(), place, i);
    std::vector<std::size_t> order(count_);
    std::iota(order.begin(), order.end(), 0);
    std::vector<unsigned> slowness((count_ + kLanes - 1) / kLanes);
    for (unsigned& each : slowness) each = 1U << (*random)() % kSlownesses;
    do {
      std::vector<bool> rests;
      for (const unsigned each : slowness) rests.push_back((*random)() % each != 0);
      std::shuffle(order.begin(), order.end(), *random);
      for (const std::size_t i : order) {
        if (!rests[i / kLanes]) GoOn(threads_[i].get());
      }
    } while (Meet());
  }
  Thread& current() { return *current_; }
  /// The thread that runs waits in that state for others.
  void Wait(State state) {
    current_->state = state;
    SwitchFiber(current_->fiber.context(), main_);
  }

 private:
  void Begin(Thread* thread, Place place, std::size_t number) {
    const auto n = static_cast<unsigned>(number);
    place.thread = {n % place.threads.x, n / place.threads.x % place.threads.y,
                    n / (place.threads.x * place.threads.y)};
    thread->place = place;
    thread->state = State::kRuns;
    thread->fiber.Prepare(&Block::Enter, this);
  }
  static void Enter(void* block) {
    auto* const self = static_cast<Block*>(block);
    (*self->body_)();
    self->Wait(State::kEnded);
  }
  void GoOn(Thread* thread) {
    if (thread->state != State::kRuns) return;
    current_ = thread;
    SwitchFiber(main_, thread->fiber.context());
  }

  /// Lets those go on who have met; false if all have ended.
  bool Meet() {
    MeetBlock();
    for (std::size_t first = 0; first < count_; first += kLanes) MeetWarp(first);
    bool one_runs = false;
    bool all_ended = true;
    for (std::size_t i = 0; i < count_; ++i) {
      one_runs = one_runs || threads_[i]->state == State::kRuns;
      all_ended = all_ended && threads_[i]->state == State::kEnded;
    }
    if (!one_runs && !all_ended) Offence("threads wait for others that do not come");
    return !all_ended;
  }
  void MeetBlock() {
    for (std::size_t i = 0; i < count_; ++i) {
      const State state = threads_[i]->state;
      if (state != State::kEnded && state != State::kInBlock) return;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      if (threads_[i]->state == State::kInBlock) threads_[i]->state = State::kRuns;
    }
  }
  void MeetWarp(std::size_t first) {
    const std::size_t lanes = std::min(kLanes, count_ - first);
    std::array<std::uint64_t, kLanes> values{};
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const Thread& thread = *threads_[first + lane];
      if (thread.state != State::kInWarp) {
        if (thread.state == State::kEnded) RequireNoneInWarp(first, lanes);
        return;
      }
      values[lane] = thread.value;
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      Thread& thread = *threads_[first + lane];
      const std::size_t from = lane + thread.down;
      thread.value = values[from < lanes ? from : lane];
      thread.state = State::kRuns;
    }
  }
  void RequireNoneInWarp(std::size_t first, std::size_t lanes) const {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (threads_[first + lane]->state == State::kInWarp) {
        Offence("a lane waits for one that has ended");
      }
    }
  }

  std::vector<std::unique_ptr<Thread>> threads_;
  std::size_t count_ = 0;
  const std::function<void()>* body_ = nullptr;
  Thread* current_ = nullptr;
  FiberContext main_;
};

/// What all launches share: fibers have stacks, and a kernel's shared memory is static.
struct Processor {
  std::mutex mutex;
  Block block;
  std::mt19937_64 random{1};
};

Processor& TheProcessor() {
  static auto* const processor = new Processor;  // streams may end after it would
  return *processor;
}

}  // namespace

const Place& Here() { return TheProcessor().block.current().place; }

void MeetInBlock() { TheProcessor().block.Wait(State::kInBlock); }

std::uint64_t MeetInWarp(std::uint64_t value, unsigned down) {
  Block& block = TheProcessor().block;
  block.current().value = value;
  block.current().down = down;
  block.Wait(State::kInWarp);
  return block.current().value;
}

void Run(dim3 blocks, dim3 threads, const std::function<void()>& thread) {
  Processor& processor = TheProcessor();
  const std::lock_guard lock(processor.mutex);
  Place place{{}, {}, threads, blocks};
  for (place.block.z = 0; place.block.z < blocks.z; ++place.block.z) {
    for (place.block.y = 0; place.block.y < blocks.y; ++place.block.y) {
      for (place.block.x = 0; place.block.x < blocks.x; ++place.block.x) {
        processor.block.Run(place, thread, &processor.random);
      }
    }
  }
}

}  // namespace ringfeed::host_grid
