#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/queue/fiber.h"
#include "tests/queue/seen_states.h"

namespace ringfeed::checker {

// Runs a small concurrent program under every schedule and every value that a load may return
// under the C++ memory model, and stops at the first execution that fails.
//
// Threads are fibers; every operation on a ModelAtomic is a point where another thread may go
// first. Memory is a list of stores per location. Each thread has a view, the oldest store of
// each location that it may still read; a load takes any store from there on. Release stores
// carry the view of their thread, acquire loads join it; read-modify-writes take the newest store
// and carry on what it released; sequentially consistent operations of one location see each
// other in the order of execution. Two accesses to a TrackedItem that no such order separates are
// reported as a data race.
//
// The search is depth first by replay, with a table of the states that were met: a state is what
// the threads have observed since they last settled, their views, and the memory that anyone can
// still read. Two schedules that lead to the same state are followed once.
//
// Not modelled: stores that take effect before an earlier one of another thread to the same
// location (modification order is the order of execution), spurious failures of a weak CAS (all
// are in loops), spurious futex wake-ups, and reading one outdated store more than kStaleReads
// times in a row by one thread (memory becomes visible in the end).

inline constexpr std::size_t kMaxLocations = 64;  // whole vectors, which compilers make loops over
inline constexpr int kMaxThreads = 6;

using View = std::array<std::uint8_t, kMaxLocations>;  // beyond the program's locations: zeros

struct ExploreOptions {
  int preemptions = -1;        // at most so many per execution; negative: no bound
  int stale_reads = -1;        // at most so many outdated loads per execution; negative: no bound
  bool forget = true;          // whether Forget() does
  std::size_t max_states = 0;  // give up after so many; 0: no bound
  // Where not 0: not every schedule, but so many that are drawn by the seed. Bounds hold all the
  // same; without them a schedule may go anywhere.
  std::size_t random_executions = 0;
  std::uint64_t seed = 1;
};

struct ExploreResult {
  std::size_t executions = 0;
  std::size_t states = 0;
  bool exhausted = false;  // everything within the bounds was seen
  std::string failure;     // empty: none
  std::string trace;       // the failing execution, an operation per line
};

class Explorer {
 public:
  using Body = std::function<void()>;

  // Calls `program` once per execution. It sets its objects up, calls Spawn for each thread and
  // Run, and if that returns true checks the outcome. A thread does at least one operation.
  static ExploreResult Explore(const Body& program, const ExploreOptions& options = {});

  static Explorer& Get() { return *active; }

  void Spawn(std::function<void()> thread);
  // Runs the threads to their end. False: this execution was cut short.
  bool Run();
  // Ends the execution as a failure if `condition` does not hold.
  void Require(bool condition, const char* what);
  // The calling thread is between two operations; all that it remembers is `summary`.
  void Settle(std::uint64_t summary);
  // The calling thread remembers nothing of what it observed since it settled.
  void Forget();
  // A decision of the environment, 0 .. n-1.
  int Choose(int n, const char* what);

  // For ModelAtomic, TrackedItem and ModelPolicy. A thread may make what others are told of later.
  int NewLocation(std::uint64_t value);
  // By a thread: nobody touches the location any more, so it is no part of the state.
  void EndLocation(int location);
  std::uint64_t Load(int location, std::memory_order order);
  void Store(int location, std::uint64_t value, std::memory_order order);
  bool CompareExchange(int location, std::uint64_t& expected, std::uint64_t desired,
                       std::memory_order success, std::memory_order failure);
  template <typename Function>
  std::uint64_t ReadModifyWrite(int location, std::memory_order order, Function&& function) {
    Yield();
    const std::uint64_t old = Newest(location).value;
    Append(location, function(old), order, true);
    Observe("rmw", location, old);
    return old;
  }
  int NewPlainLocation();
  void TouchPlain(int location, std::uint64_t value);
  // The plain location that stands for an address, or -1; addresses are entered while no thread
  // runs yet.
  int PlainAt(const void* address, bool enter);
  bool FutexWait(int location, std::uint32_t epoch, bool has_deadline);  // false: timed out
  void FutexWake(int location, int count);
  bool Tracing() const { return tracing_; }

 private:
  struct StoreRecord {
    std::uint64_t value = 0;
    View released{};
  };
  struct Location {
    std::vector<StoreRecord> stores;
    std::uint8_t seq_cst_floor = 0;
    bool plain = false;
    bool ended = false;
  };
  enum class ThreadState : std::uint8_t { kReady, kAsleep, kDone };
  struct Thread {
    std::function<void()> body;
    std::unique_ptr<Fiber> fiber;
    ThreadState state = ThreadState::kDone;
    bool has_deadline = false;
    bool timed_out = false;
    int asleep_on = -1;
    bool after_load = false;
    std::uint64_t history = 0;  // of all that it observed since it settled
    std::uint64_t settled = 0;
    View view{};
    View stale{};  // outdated reads in a row, per location
  };
  struct Decision {
    int taken;
    int options;
  };
  // What the stores that somebody can still read are counted from.
  struct Readable {
    View oldest{};
    View newest{};
    View plain{};  // all ones: a plain variable
  };

  void Reset();
  bool NextTrail();
  int Draw(int options);
  void Yield();
  void Reschedule();
  void SwitchTo(int next);
  void RunThread(int index);
  [[noreturn]] void Abandon();
  // Not a string: the frames of an abandoned fiber are never destroyed.
  void Fail(const char* what);
  int Decide(int options);
  bool SeenBefore();
  Readable FindReadable() const;
  std::uint64_t HashState() const;
  std::uint8_t OldestReadable(const Thread& thread, int location, bool seq_cst) const;
  StoreRecord& Newest(int location) {
    return locations_[static_cast<std::size_t>(location)].stores.back();
  }
  void Append(int location, std::uint64_t value, std::memory_order order, bool read_modify_write);
  void Observe(const char* what, int location, std::uint64_t value);
  View& CurrentView();

  static inline thread_local Explorer* active = nullptr;

  ExploreOptions options_;
  std::mt19937_64 random_;
  std::vector<Decision> trail_;
  std::size_t position_ = 0;
  SeenStates seen_;
  std::array<Thread, kMaxThreads> threads_;
  int thread_count_ = 0;
  int current_ = -1;
  std::array<Location, kMaxLocations> locations_;
  int location_count_ = 0;
  std::vector<std::pair<const void*, int>> plain_addresses_;
  View main_view_{};
  int preemptions_ = 0;
  int stale_reads_ = 0;
  int steps_ = 0;
  bool starting_ = false;
  bool abandoned_ = false;
  bool tracing_ = false;
  FiberContext main_context_;
  ExploreResult result_;
};

// An std::atomic of the explored program. Where a thread makes one, others hear of it in an order
// that the program has; where a thread destroys one, it is no part of the state any more.
template <typename U>
class ModelAtomic {
  static_assert(sizeof(U) <= sizeof(std::uint64_t));

 public:
  explicit ModelAtomic(U value) : location_(Explorer::Get().NewLocation(Bits(value))) {}
  ~ModelAtomic() { Explorer::Get().EndLocation(location_); }
  ModelAtomic(const ModelAtomic&) = delete;
  ModelAtomic& operator=(const ModelAtomic&) = delete;

  U load(std::memory_order order) const { return Value(Explorer::Get().Load(location_, order)); }
  void store(U value, std::memory_order order) {
    Explorer::Get().Store(location_, Bits(value), order);
  }
  bool compare_exchange_weak(U& expected, U desired, std::memory_order success,
                             std::memory_order failure) {
    std::uint64_t bits = Bits(expected);
    const bool done =
        Explorer::Get().CompareExchange(location_, bits, Bits(desired), success, failure);
    expected = Value(bits);
    return done;
  }
  bool compare_exchange_strong(U& expected, U desired, std::memory_order success,
                               std::memory_order failure) {
    return compare_exchange_weak(expected, desired, success, failure);
  }
  U fetch_add(U operand, std::memory_order order) {
    // Adding one is how a waiter registers: its failed attempts are behind it.
    if (operand == 1) Explorer::Get().Forget();
    return Value(Explorer::Get().ReadModifyWrite(
        location_, order, [&](std::uint64_t old) { return old + Bits(operand); }));
  }
  U exchange(U value, std::memory_order order) {
    return Value(Explorer::Get().ReadModifyWrite(location_, order,
                                                 [&](std::uint64_t) { return Bits(value); }));
  }
  U fetch_and(U operand, std::memory_order order) {
    return Value(Explorer::Get().ReadModifyWrite(
        location_, order, [&](std::uint64_t old) { return old & Bits(operand); }));
  }
  U fetch_or(U operand, std::memory_order order) {
    return Value(Explorer::Get().ReadModifyWrite(
        location_, order, [&](std::uint64_t old) { return old | Bits(operand); }));
  }
  int location() const { return location_; }

 private:
  static std::uint64_t Bits(U value) {
    if constexpr (std::is_pointer_v<U>) {
      return reinterpret_cast<std::uintptr_t>(value);
    } else {
      return static_cast<std::uint64_t>(value);
    }
  }
  static U Value(std::uint64_t bits) {
    if constexpr (std::is_pointer_v<U>) {
      return reinterpret_cast<U>(static_cast<std::uintptr_t>(bits));
    } else {
      return static_cast<U>(bits);
    }
  }

  int location_;
};

// A variable without atomicity: two unordered accesses are a failure.
class TrackedVariable {
 public:
  TrackedVariable() : location_(Explorer::Get().NewPlainLocation()) {}
  ~TrackedVariable() { Explorer::Get().EndLocation(location_); }
  TrackedVariable(const TrackedVariable&) = delete;
  TrackedVariable& operator=(const TrackedVariable&) = delete;
  void Touch(std::uint64_t value = 0) { Explorer::Get().TouchPlain(location_, value); }

 private:
  int location_;
};

}  // namespace ringfeed::checker
