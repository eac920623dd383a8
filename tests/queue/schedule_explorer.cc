#include "tests/queue/schedule_explorer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
// What stands on the frames of an abandoned fiber is never destroyed, and is no leak.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

namespace ringfeed::checker {
namespace {

constexpr int kMaxSteps = 3000;  // far above any execution that ends
constexpr int kStaleReads = 1;   // of one store in a row, by one thread

std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 12) + (hash >> 4);
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 32);
}

bool Acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

bool Releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

void Join(View& into, const View& other) {
  for (std::size_t i = 0; i < kMaxLocations; ++i) into[i] = std::max(into[i], other[i]);
}

void Lower(View& into, const View& other) {
  for (std::size_t i = 0; i < kMaxLocations; ++i) into[i] = std::min(into[i], other[i]);
}

// The first `count` of a view whose others are the same in each state, eight at a time.
std::uint64_t MixView(std::uint64_t hash, const View& view, std::size_t count) {
  for (std::size_t i = 0; i < count; i += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, &view[i], sizeof word);
    hash = Mix(hash, word);
  }
  return hash;
}

}  // namespace

ExploreResult Explorer::Explore(const Body& program, const ExploreOptions& options) {
  Explorer explorer;
  explorer.options_ = options;
  explorer.random_.seed(options.seed);
  active = &explorer;
  do {
    explorer.Reset();
    program();
    ++explorer.result_.executions;
    if (!explorer.result_.failure.empty()) {
      // Once more along the same trail, this time with a record of what happens.
      explorer.tracing_ = true;
      explorer.Reset();
      program();
      break;
    }
    if (options.max_states != 0 && explorer.seen_.size() > options.max_states) break;
    explorer.result_.exhausted = !explorer.NextTrail();
  } while (!explorer.result_.exhausted);
  explorer.result_.states = explorer.seen_.size();
  active = nullptr;
  return std::move(explorer.result_);
}

void Explorer::Reset() {
  position_ = 0;
  thread_count_ = 0;
  current_ = -1;
  for (int i = 0; i < location_count_; ++i) {
    locations_[static_cast<std::size_t>(i)].stores.clear();
    locations_[static_cast<std::size_t>(i)].seq_cst_floor = 0;
  }
  location_count_ = 0;
  plain_addresses_.clear();
  main_view_.fill(0);
  preemptions_ = 0;
  stale_reads_ = 0;
  steps_ = 0;
  abandoned_ = false;
}

bool Explorer::NextTrail() {
  if (options_.random_executions != 0) {
    trail_.clear();
    return result_.executions < options_.random_executions;
  }
  while (!trail_.empty() && trail_.back().taken + 1 == trail_.back().options) trail_.pop_back();
  if (trail_.empty()) return false;
  ++trail_.back().taken;
  return true;
}

void Explorer::Spawn(std::function<void()> thread) {
  Thread& slot = threads_[static_cast<std::size_t>(thread_count_++)];
  slot.body = std::move(thread);
  if (slot.fiber == nullptr) slot.fiber = std::make_unique<Fiber>();
  slot.fiber->Prepare(
      [](void* self) {
        auto* explorer = static_cast<Explorer*>(self);
        explorer->RunThread(explorer->current_);
      },
      this);
  slot.state = ThreadState::kReady;
  slot.has_deadline = false;
  slot.timed_out = false;
  slot.asleep_on = -1;
  slot.history = 0;
  slot.settled = 0;
  slot.after_load = false;
  slot.stale.fill(0);
}

bool Explorer::Run() {
  for (std::size_t i = 0; i < static_cast<std::size_t>(location_count_); ++i) {
    main_view_[i] = static_cast<std::uint8_t>(locations_[i].stores.size() - 1);
  }
  for (int i = 0; i < thread_count_; ++i) threads_[static_cast<std::size_t>(i)].view = main_view_;
  // Each thread goes as far as its first operation, which nobody else can notice.
  starting_ = true;
  for (current_ = 0; current_ < thread_count_; ++current_) {
    SwitchFiber(main_context_, threads_[static_cast<std::size_t>(current_)].fiber->context());
  }
  starting_ = false;
  current_ = Decide(thread_count_);
  SwitchFiber(main_context_, threads_[static_cast<std::size_t>(current_)].fiber->context());
  current_ = -1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(location_count_); ++i) {
    main_view_[i] = static_cast<std::uint8_t>(locations_[i].stores.size() - 1);
  }
  return !abandoned_;
}

void Explorer::RunThread(int index) {
  threads_[static_cast<std::size_t>(index)].body();
  threads_[static_cast<std::size_t>(index)].state = ThreadState::kDone;
  Reschedule();
  std::abort();  // a thread that is done is never chosen again
}

void Explorer::Abandon() {
  abandoned_ = true;
  FiberContext dead;
  SwitchFiber(dead, main_context_);
  std::abort();
}

void Explorer::Fail(const char* what) {
  if (result_.failure.empty()) result_.failure = what;
  if (tracing_) result_.trace += std::string("  => ") + what + "\n";
  if (current_ >= 0) Abandon();
}

void Explorer::Require(bool condition, const char* what) {
  if (!condition) Fail(what);
}

void Explorer::Settle(std::uint64_t summary) {
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.settled = Mix(0x5e77, summary);
  thread.history = thread.settled;
}

void Explorer::Forget() {
  if (current_ < 0 || !options_.forget) return;
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.history = Mix(thread.settled, 0xf026e7);
}

int Explorer::Choose(int n, const char* what) {
  const int choice = Decide(n);
  Observe(what, -1, static_cast<std::uint64_t>(choice));
  return choice;
}

int Explorer::Decide(int options) {
  if (position_ < trail_.size()) {
    if (trail_[position_].options != options) std::abort();  // the program is not deterministic
    return trail_[position_++].taken;
  }
  trail_.push_back({options_.random_executions == 0 ? 0 : Draw(options), options});
  return trail_[position_++].taken;
}

// The first choice lets the thread go on, or reads the newest store: longer stretches of that reach
// further than a toss at each operation.
int Explorer::Draw(int options) {
  constexpr std::uint64_t kOneOf = 6;
  if (options == 1 || random_() % kOneOf != 0) return 0;
  return static_cast<int>(random_() % static_cast<std::uint64_t>(options));
}

void Explorer::Yield() {
  if (current_ < 0) return;
  if (starting_) {
    SwitchFiber(threads_[static_cast<std::size_t>(current_)].fiber->context(), main_context_);
    return;
  }
  if (++steps_ > kMaxSteps) Fail("runs without end");
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  if (std::exchange(thread.after_load, false)) return;
  Reschedule();
}

void Explorer::Reschedule() {
  std::array<int, kMaxThreads> options{};
  int count = 0;
  const bool current_ready =
      threads_[static_cast<std::size_t>(current_)].state == ThreadState::kReady;
  if (current_ready) options[static_cast<std::size_t>(count++)] = current_;
  bool all_done = true;
  for (int i = 0; i < thread_count_; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    if (thread.state != ThreadState::kDone) all_done = false;
    if (i == current_ && current_ready) continue;
    if (thread.state == ThreadState::kReady ||
        (thread.state == ThreadState::kAsleep && thread.has_deadline)) {
      options[static_cast<std::size_t>(count++)] = i;
    }
  }
  if (all_done) {
    FiberContext dead;
    SwitchFiber(dead, main_context_);
  }
  if (count == 0) Fail("hang: every thread that is left sleeps");
  const bool looks = options_.random_executions == 0 && !tracing_;
  if (looks && position_ == trail_.size() && SeenBefore()) Abandon();
  const bool may_preempt = options_.preemptions < 0 || preemptions_ < options_.preemptions;
  const int taken = Decide(current_ready && !may_preempt ? 1 : count);
  if (taken > 0 && current_ready) ++preemptions_;
  const int next = options[static_cast<std::size_t>(taken)];
  Thread& thread = threads_[static_cast<std::size_t>(next)];
  if (thread.state == ThreadState::kAsleep) {
    thread.timed_out = true;
    thread.state = ThreadState::kReady;
  }
  if (next != current_) SwitchTo(next);
}

void Explorer::SwitchTo(int next) {
  Thread& from = threads_[static_cast<std::size_t>(current_)];
  current_ = next;
  SwitchFiber(from.fiber->context(), threads_[static_cast<std::size_t>(next)].fiber->context());
}

bool Explorer::SeenBefore() {
  // What is left of the bounds is part of the state: seen with as much or more, it is covered.
  std::uint64_t hash = HashState();
  if (options_.preemptions >= 0) hash = Mix(hash, static_cast<std::uint64_t>(current_) + 1);
  if (options_.stale_reads >= 0) hash = Mix(hash, static_cast<std::uint64_t>(stale_reads_));
  const auto used = static_cast<std::uint8_t>(options_.preemptions >= 0 ? preemptions_ : 0);
  return seen_.Covers(hash, used);
}

Explorer::Readable Explorer::FindReadable() const {
  const auto count = static_cast<std::size_t>(location_count_);
  Readable readable;
  std::fill_n(readable.oldest.begin(), count, std::numeric_limits<std::uint8_t>::max());
  for (int i = 0; i < thread_count_; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    if (thread.state != ThreadState::kDone) Lower(readable.oldest, thread.view);
  }
  for (std::size_t l = 0; l < count; ++l) {
    readable.newest[l] = static_cast<std::uint8_t>(locations_[l].stores.size() - 1);
    if (locations_[l].plain) readable.plain[l] = std::numeric_limits<std::uint8_t>::max();
  }
  Lower(readable.oldest, readable.newest);
  for (std::size_t l = 0; l < count; ++l) {
    if (!locations_[l].ended) continue;
    // Each thread has seen all of it.
    readable.oldest[l] = readable.newest[l] = std::numeric_limits<std::uint8_t>::max();
    readable.plain[l] = 0;
  }
  return readable;
}

std::uint64_t Explorer::HashState() const {
  const auto count = static_cast<std::size_t>(location_count_);
  // Stores that no thread can read any more are left out, and so is how many there were.
  const Readable readable = FindReadable();
  const View& oldest = readable.oldest;  // no bindings: clang 14 lets no lambda have them
  const View& newest = readable.newest;
  const View& plain = readable.plain;
  const auto mix_ages = [&](std::uint64_t hash, const View& view) {
    View ages;
    for (std::size_t l = 0; l < kMaxLocations; ++l) {
      const auto age = static_cast<std::uint8_t>(newest[l] - std::max(view[l], oldest[l]));
      // A plain variable is either seen in its last state, or may not be touched.
      const auto differs = static_cast<std::uint8_t>(view[l] == newest[l] ? 0 : 1);
      ages[l] = static_cast<std::uint8_t>((differs & plain[l]) | (age & ~plain[l]));
    }
    return MixView(hash, ages, count);
  };
  std::uint64_t hash = 1;
  for (int i = 0; i < thread_count_; ++i) {
    const Thread& thread = threads_[static_cast<std::size_t>(i)];
    hash = Mix(hash, thread.history);
    hash = Mix(hash, static_cast<std::uint64_t>(thread.state) << 1 | (thread.timed_out ? 1 : 0));
    if (thread.state == ThreadState::kDone) continue;
    hash = MixView(mix_ages(hash, thread.view), thread.stale, count);
  }
  for (std::size_t l = 0; l < count; ++l) {
    if (locations_[l].ended) continue;
    if (locations_[l].plain) {
      hash = Mix(hash, locations_[l].stores.back().value);
      continue;
    }
    const auto floor = std::max(locations_[l].seq_cst_floor, oldest[l]);
    hash = Mix(hash, static_cast<std::uint64_t>(newest[l] - floor));
    for (std::size_t s = oldest[l]; s <= newest[l]; ++s) {
      const StoreRecord& store = locations_[l].stores[s];
      hash = mix_ages(Mix(hash, store.value), store.released);
    }
  }
  return hash;
}

int Explorer::NewLocation(std::uint64_t value) {
  if (location_count_ == static_cast<int>(kMaxLocations)) std::abort();
  const int location = location_count_++;
  auto& stores = locations_[static_cast<std::size_t>(location)].stores;
  stores.clear();
  stores.push_back({value, View{}});
  locations_[static_cast<std::size_t>(location)].plain = false;
  locations_[static_cast<std::size_t>(location)].ended = false;
  main_view_[static_cast<std::size_t>(location)] = 0;
  return location;
}

void Explorer::EndLocation(int location) {
  if (current_ < 0) return;
  const auto l = static_cast<std::size_t>(location);
  locations_[l].ended = true;
  for (Thread& thread : threads_) thread.stale[l] = 0;
}

int Explorer::NewPlainLocation() {
  const int location = NewLocation(0);
  locations_[static_cast<std::size_t>(location)].plain = true;
  return location;
}

int Explorer::PlainAt(const void* address, bool enter) {
  for (const auto& [known, location] : plain_addresses_) {
    if (known == address) return location;
  }
  if (!enter || current_ >= 0) return -1;
  plain_addresses_.emplace_back(address, NewPlainLocation());
  return plain_addresses_.back().second;
}

View& Explorer::CurrentView() {
  return current_ < 0 ? main_view_ : threads_[static_cast<std::size_t>(current_)].view;
}

void Explorer::Observe(const char* what, int location, std::uint64_t value) {
  if (current_ < 0) return;
  if (location >= 0 && locations_[static_cast<std::size_t>(location)].ended) {
    Fail("touched after its end");
  }
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.history = Mix(Mix(thread.history, static_cast<std::uint64_t>(location + 1)), value);
  if (tracing_) {
    result_.trace += "  thread " + std::to_string(current_) + " " + what + " [" +
                     std::to_string(location) + "] " + std::to_string(value >> 32) + ":" +
                     std::to_string(value & 0xffffffffU) + "\n";
  }
}

std::uint8_t Explorer::OldestReadable(const Thread& thread, int location, bool seq_cst) const {
  const auto l = static_cast<std::size_t>(location);
  const auto newest = static_cast<std::uint8_t>(locations_[l].stores.size() - 1);
  std::uint8_t oldest = thread.view[l];
  if (seq_cst) oldest = std::max(oldest, locations_[l].seq_cst_floor);
  if (oldest < newest && thread.stale[l] >= kStaleReads) ++oldest;
  if (options_.stale_reads >= 0 && stale_reads_ >= options_.stale_reads) oldest = newest;
  return oldest;
}

std::uint64_t Explorer::Load(int location, std::memory_order order) {
  const auto l = static_cast<std::size_t>(location);
  if (current_ < 0) return Newest(location).value;
  Yield();
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  const bool seq_cst = order == std::memory_order_seq_cst;
  const auto newest = static_cast<std::uint8_t>(locations_[l].stores.size() - 1);
  const std::uint8_t oldest = OldestReadable(thread, location, seq_cst);
  // The newest first: most executions are ordinary.
  const auto index =
      static_cast<std::uint8_t>(newest - (oldest < newest ? Decide(newest - oldest + 1) : 0));
  const StoreRecord& store = locations_[l].stores[index];
  thread.stale[l] = static_cast<std::uint8_t>(
      index == newest ? 0 : (index == thread.view[l] ? thread.stale[l] + 1 : 1));
  if (index != newest) ++stale_reads_;
  thread.view[l] = std::max(thread.view[l], index);
  if (Acquires(order)) Join(thread.view, store.released);
  if (seq_cst) locations_[l].seq_cst_floor = std::max(locations_[l].seq_cst_floor, index);
  // What this load could have read earlier it may still read now, so nothing is gained by letting
  // others go between it and the next operation.
  thread.after_load = !seq_cst && options_.stale_reads < 0;
  Observe(index == newest ? "load" : "load (outdated)", location, store.value);
  return store.value;
}

void Explorer::Append(int location, std::uint64_t value, std::memory_order order,
                      bool read_modify_write) {
  const auto l = static_cast<std::size_t>(location);
  View& view = CurrentView();
  auto& stores = locations_[l].stores;
  if (read_modify_write && Acquires(order)) Join(view, stores.back().released);
  StoreRecord record{value, View{}};
  if (read_modify_write) record.released = stores.back().released;
  view[l] = static_cast<std::uint8_t>(stores.size());
  if (Releases(order)) Join(record.released, view);
  stores.push_back(record);
  if (stores.size() > std::numeric_limits<std::uint8_t>::max()) std::abort();
  if (order == std::memory_order_seq_cst) {
    locations_[l].seq_cst_floor = static_cast<std::uint8_t>(stores.size() - 1);
  }
  if (current_ >= 0) threads_[static_cast<std::size_t>(current_)].stale[l] = 0;
}

void Explorer::Store(int location, std::uint64_t value, std::memory_order order) {
  Yield();
  Append(location, value, order, false);
  Observe("store", location, value);
}

bool Explorer::CompareExchange(int location, std::uint64_t& expected, std::uint64_t desired,
                               std::memory_order success, std::memory_order failure) {
  Yield();
  const auto l = static_cast<std::size_t>(location);
  const std::uint64_t old = Newest(location).value;
  const bool equal = old == expected;
  if (equal) {
    Append(location, desired, success, true);
  } else {
    View& view = CurrentView();
    view[l] = static_cast<std::uint8_t>(locations_[l].stores.size() - 1);
    if (Acquires(failure)) Join(view, Newest(location).released);
    if (current_ >= 0) threads_[static_cast<std::size_t>(current_)].stale[l] = 0;
  }
  expected = old;
  Observe(equal ? "cas" : "cas failed", location, old);
  return equal;
}

void Explorer::TouchPlain(int location, std::uint64_t value) {
  const auto l = static_cast<std::size_t>(location);
  auto& stores = locations_[l].stores;
  View& view = CurrentView();
  if (locations_[l].ended) Fail("touched after its end");
  if (current_ >= 0 && view[l] + std::size_t{1} != stores.size()) Fail("data race");
  // An access is the only one after all earlier ones, so only the newest is remembered.
  stores.push_back({value, View{}});
  view[l] = static_cast<std::uint8_t>(stores.size() - 1);
}

bool Explorer::FutexWait(int location, std::uint32_t epoch, bool has_deadline) {
  Yield();
  if (static_cast<std::uint32_t>(Newest(location).value >> 32) != epoch) {
    Observe("futex: changed", location, 0);
    return true;
  }
  Thread& thread = threads_[static_cast<std::size_t>(current_)];
  thread.state = ThreadState::kAsleep;
  thread.asleep_on = location;
  thread.has_deadline = has_deadline;
  thread.timed_out = false;
  Observe("futex: sleeps", location, 1);
  Reschedule();
  const bool timed_out = std::exchange(thread.timed_out, false);
  thread.asleep_on = -1;
  Observe(timed_out ? "futex: timed out" : "futex: woken", location, timed_out ? 2 : 3);
  return !timed_out;
}

void Explorer::FutexWake(int location, int count) {
  Yield();
  for (; count > 0; --count) {
    std::array<int, kMaxThreads> sleepers{};
    int found = 0;
    for (int i = 0; i < thread_count_; ++i) {
      const Thread& thread = threads_[static_cast<std::size_t>(i)];
      if (thread.state == ThreadState::kAsleep && thread.asleep_on == location) {
        sleepers[static_cast<std::size_t>(found++)] = i;
      }
    }
    if (found == 0) break;
    const int woken = sleepers[static_cast<std::size_t>(found <= count ? 0 : Decide(found))];
    threads_[static_cast<std::size_t>(woken)].state = ThreadState::kReady;
  }
  Observe("futex wake", location, 0);
}

}  // namespace ringfeed::checker
