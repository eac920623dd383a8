#include "io/file_mapping.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <compare>
#include <csignal>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/per_process.h"

namespace ringfeed {

/// One guarded range, found by the handler without a lock. If `begin` is 0, nothing is guarded.
struct SigbusGuard::Slot {
  static constexpr std::size_t kMostMissing = 64;
  std::atomic<bool> taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> damaged{false};
  std::array<std::atomic<std::uintptr_t>, kMostMissing> missing{};
  std::atomic<std::size_t> missing_count{0};

  /// Call it before a page of zeros is put there: a thread that reads these zeros looks here
  /// afterwards.
  void NoteMissing(std::uintptr_t page) {
    const std::size_t index = missing_count.fetch_add(1, std::memory_order_relaxed);
    if (index < kMostMissing) missing[index].store(page, std::memory_order_relaxed);
    // Release: pairs with the acquire in damaged().
    damaged.store(true, std::memory_order_release);
  }
};

namespace {

/// Slots come in blocks that are chained and never freed, so that the handler may walk them at any
/// time.
struct SlotBlock {
  std::array<SigbusGuard::Slot, 256> slots;
  std::atomic<SlotBlock*> next{nullptr};
};

constinit SlotBlock first_block;
constinit std::atomic<std::size_t> guards{0};
std::uintptr_t page_bytes = 4096;  // written once, before the handler is installed

/// The handlers that ours replaced, the first one first. There is one more each time another
/// handler had replaced ours. That one found ours installed, so it may pass a fault on to ours.
constexpr std::size_t kMostReplaced = 16;
std::array<struct sigaction, kMostReplaced> replaced;
constinit std::atomic<std::size_t> replaced_count{0};

/// The last fault outside guarded ranges, on its way through these handlers: its thread, and how
/// many of the handlers it has passed, the last one first.
struct PassingFault {
  std::atomic<pid_t> thread{0};
  std::atomic<const siginfo_t*> info{nullptr};
  std::atomic<std::uintptr_t> frame{0};  ///< of our handler on the stack
  std::atomic<std::size_t> passed{0};
};
constinit PassingFault passing;

SigbusGuard::Slot* SlotOf(std::uintptr_t address) {
  // Acquire: pairs with the release in NewSlot, for the slots of a block just chained.
  for (SlotBlock* block = &first_block; block != nullptr;
       block = block->next.load(std::memory_order_acquire)) {
    for (SigbusGuard::Slot& slot : block->slots) {
      // Acquire: pairs with the release of `begin` in the constructor, which follows `end`.
      const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
      if (begin == 0 || address < begin) continue;
      // Acquire: the second look at `begin` comes after it. If the slot changed hands between the
      // two looks, `end` may not belong to `begin`.
      if (address >= slot.end.load(std::memory_order_acquire)) continue;
      if (slot.begin.load(std::memory_order_relaxed) == begin) return &slot;
    }
  }
  return nullptr;
}

/// Which of the replaced handlers gets the fault: the last one. If that one passes it on, by
/// calling ours or by raising the signal anew, the one that it had replaced.
struct sigaction NextReplaced(const siginfo_t* info, std::uintptr_t frame) {
  // Relaxed: only the thread that wrote these passes the fault on.
  constexpr auto kOwn = std::memory_order_relaxed;
  const pid_t thread = gettid();
  const bool called = info == passing.info.load(kOwn) && frame < passing.frame.load(kOwn);
  const bool raised = info->si_code <= 0 && info->si_pid == getpid();
  const bool again = passing.thread.load(kOwn) == thread && (called || raised);
  const std::size_t before = again ? passing.passed.load(kOwn) + 1 : 0;
  // Acquire: pairs with the release in TakeHandlerBack, for the action.
  const std::size_t count = replaced_count.load(std::memory_order_acquire);
  passing.thread.store(thread, kOwn);
  passing.info.store(info, kOwn);
  passing.frame.store(frame, kOwn);
  passing.passed.store(before, kOwn);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  return before < count ? replaced[count - 1 - before] : standard;
}

void CallPrevious(int signal, siginfo_t* info, void* context) {
  const struct sigaction previous =
      NextReplaced(info, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // Die of it, as without this handler: the signal is blocked until the handler returns.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    raise(signal);
  }
}

/// Puts a page of zeros in the place of a page that the file no longer has. It uses the bare system
/// call, which is safe in a signal handler. ThreadSanitizer takes mmap for a write to the whole
/// page, and would call it a race with every thread that reads the file there. Such a thread reads
/// the file's bytes, the zeros, or faults itself, and looks at damaged() afterwards in each case.
bool MapZeroes(void* page) {
  const std::int64_t mapped = syscall(SYS_mmap, page, page_bytes, PROT_READ,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  return mapped == reinterpret_cast<std::intptr_t>(page);
}

void OnSigbus(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  // A signal that somebody sent (si_code <= 0) carries no address.
  SigbusGuard::Slot* const slot = info->si_code > 0 ? SlotOf(address) : nullptr;
  if (slot != nullptr) {
    const std::uintptr_t page = address & ~(page_bytes - 1);
    slot->NoteMissing(page);
    if (MapZeroes(reinterpret_cast<void*>(page))) {
      errno = saved_errno;
      return;
    }
  }
  CallPrevious(signal, info, context);
  errno = saved_errno;
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnSigbus;
}

bool IsSame(const struct sigaction& a, const struct sigaction& b) {
  if (((a.sa_flags ^ b.sa_flags) & SA_SIGINFO) != 0) return false;
  return (a.sa_flags & SA_SIGINFO) != 0 ? a.sa_sigaction == b.sa_sigaction
                                        : a.sa_handler == b.sa_handler;
}

/// Installs our handler again in the place of another one, which it notes.
void TakeHandlerBack() {
  // In a child of fork, a thread that does not exist there may hold it: then this does nothing.
  static constinit std::atomic<bool> taking{false};
  // Acquire: pairs with the release below, for what the previous holder wrote.
  if (taking.exchange(true, std::memory_order_acquire)) return;
  struct sigaction current {};
  sigaction(SIGBUS, nullptr, &current);
  const std::size_t count = replaced_count.load(std::memory_order_relaxed);
  const bool is_known = count > 0 && IsSame(replaced[count - 1], current);
  if (!IsOurs(current) && (is_known || count < kMostReplaced)) {
    // Noted first: a fault may come as soon as the handler is ours.
    if (!is_known) {
      replaced[count] = current;
      // Release: pairs with the acquire in NextReplaced.
      replaced_count.store(count + 1, std::memory_order_release);
    }
    struct sigaction ours {};
    ours.sa_sigaction = OnSigbus;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, nullptr);
  }
  // Release: pairs with the acquire above.
  taking.store(false, std::memory_order_release);
}

void LetSigbusThrough() {
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

// Takes no lock: a child of fork would wait forever for a lock that a thread of its parent held.
SigbusGuard::Slot* NewSlot() {
  SlotBlock* block = &first_block;
  while (true) {
    for (SigbusGuard::Slot& slot : block->slots) {
      // Acquire: pairs with the release in the destructor, for what the slot's last user wrote.
      const bool is_free = !slot.taken.load(std::memory_order_relaxed);
      if (is_free && !slot.taken.exchange(true, std::memory_order_acquire)) return &slot;
    }
    // Acquire: pairs with the release below, for the slots of a block just chained.
    SlotBlock* next = block->next.load(std::memory_order_acquire);
    if (next == nullptr) {
      auto* const made = new SlotBlock;
      // Release: pairs with the acquire here and in SlotOf.
      if (block->next.compare_exchange_strong(next, made, std::memory_order_acq_rel)) {
        next = made;
      } else {
        delete made;
      }
    }
    block = next;
  }
}

}  // namespace

void AwaitSigbus() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kLooked{20};
  static thread_local Clock::time_point looked;
  // Relaxed: a thread that touches a range got it from the thread that guarded it.
  if (guards.load(std::memory_order_relaxed) == 0) return;
  const Clock::time_point now = Clock::now();
  if (now - looked < kLooked) return;
  looked = now;
  struct sigaction current {};
  sigaction(SIGBUS, nullptr, &current);
  if (!IsOurs(current)) TakeHandlerBack();
  LetSigbusThrough();
}

SigbusGuard::SigbusGuard(const void* data, std::size_t bytes) {
  static std::once_flag measured;
  std::call_once(measured, [] { page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE)); });
  guards.fetch_add(1, std::memory_order_relaxed);
  TakeHandlerBack();
  LetSigbusThrough();
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  slot_ = NewSlot();
  slot_->damaged.store(false, std::memory_order_relaxed);
  for (auto& page : slot_->missing) page.store(0, std::memory_order_relaxed);
  slot_->missing_count.store(0, std::memory_order_relaxed);
  // Release: pairs with the acquire of `end` in SlotOf, for the zero in `begin` before it.
  slot_->end.store(begin + bytes, std::memory_order_release);
  // Release: pairs with the acquire in SlotOf.
  slot_->begin.store(begin, std::memory_order_release);
}

SigbusGuard::~SigbusGuard() {
  guards.fetch_sub(1, std::memory_order_relaxed);
  slot_->begin.store(0, std::memory_order_relaxed);
  // Release: pairs with the acquire in NewSlot.
  slot_->taken.store(false, std::memory_order_release);
}

bool SigbusGuard::damaged() const {
  // Acquire: pairs with the release in the handler, in whichever thread it ran.
  return slot_->damaged.load(std::memory_order_acquire);
}

std::vector<const std::byte*> SigbusGuard::missing() const {
  std::vector<const std::byte*> pages;
  const std::size_t count = slot_->missing_count.load(std::memory_order_relaxed);
  if (count > Slot::kMostMissing) return pages;
  for (const std::atomic<std::uintptr_t>& page : std::span(slot_->missing).first(count)) {
    const std::uintptr_t address = page.load(std::memory_order_relaxed);
    if (address != 0) pages.push_back(reinterpret_cast<const std::byte*>(address));
  }
  return pages;
}

/// The mappings in use. It owns none of them.
class OpenMappings {
 public:
  using MappingPtr = std::shared_ptr<const FileMapping>;

  /// The identity of a file: for another file, or other contents, at least one of these differs.
  struct Key {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t size = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    auto operator<=>(const Key&) const = default;

    static Key Of(const struct stat& stat) {
      return {static_cast<std::uint64_t>(stat.st_dev), static_cast<std::uint64_t>(stat.st_ino),
              static_cast<std::int64_t>(stat.st_size),
              static_cast<std::int64_t>(stat.st_mtim.tv_sec),
              static_cast<std::int64_t>(stat.st_mtim.tv_nsec)};
    }
  };

  static OpenMappings& All() {
    // Never destroyed: files in static objects may outlive it.
    static constinit PerProcess<OpenMappings> all;
    return all.Get();
  }

  /// Null if there is no such mapping, or the file was found shorter than it.
  MappingPtr Find(const Key& key) {
    MappingPtr found;  // may be the last owner, and is destroyed after the unlock
    {
      const std::lock_guard lock(mutex_);
      const auto place = by_key_.find(key);
      if (place == by_key_.end()) return nullptr;
      found = place->second.lock();
    }
    return found != nullptr && !found->damaged() ? found : nullptr;
  }

  /// Notes a new mapping, unless another thread noted one first. Returns the one that is noted.
  MappingPtr Note(const struct stat& facts, std::span<const std::byte> bytes) {
    const Key key = Key::Of(facts);
    // Either may be destroyed here, which takes the lock, so both outlive it.
    MappingPtr first;
    MappingPtr mapping(new FileMapping(bytes, facts), [key](const FileMapping* last) {
      All().Forget(key);
      delete last;
    });
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const FileMapping>& noted = by_key_[key];
    first = noted.lock();
    if (first != nullptr && !first->damaged()) return first;
    noted = mapping;
    return mapping;
  }

  std::size_t Count() {
    const std::lock_guard lock(mutex_);
    return by_key_.size();
  }

 private:
  /// A mapping of that file has no owners any more. A newer mapping may have taken its place.
  void Forget(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto place = by_key_.find(key);
    if (place != by_key_.end() && place->second.expired()) by_key_.erase(place);
  }

  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const FileMapping>> by_key_;
};

FileMapping::FileMapping(std::span<const std::byte> bytes, const struct stat& facts)
    : bytes_(bytes), facts_(facts) {
  guard_.emplace(bytes.data(), bytes.size());
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::byte* const last = bytes.data() + bytes.size() - 1;
  const std::byte* const first = bytes.data() + (bytes.size() - 1) / page * page;
  probe_ = last;
  while (probe_ != first && *probe_ == std::byte{0}) --probe_;
  if (*probe_ == std::byte{0}) probe_ = last;
  probe_value_ = *probe_;
}

bool FileMapping::EndIsAsItWas() const {
  // After everything that the caller has read.
  asm volatile("" ::: "memory");
  return *const_cast<const volatile std::byte*>(probe_) == probe_value_;
}

bool FileMapping::damaged() const {
  AwaitSigbus();
  return !EndIsAsItWas() || guard_->damaged();
}

bool FileMapping::Shrank(const struct stat& facts) const {
  // A file that was cut and has grown again has another time of change.
  if (OpenMappings::Key::Of(facts) != OpenMappings::Key::Of(facts_)) return true;
  const std::vector<const std::byte*> missing = guard_->missing();
  const bool lacks_end = std::any_of(missing.begin(), missing.end(), [this](const std::byte* page) {
    return page <= probe_ && probe_ < page + page_bytes;
  });
  return missing.empty() || !(lacks_end || EndIsAsItWas());
}

std::vector<std::span<const std::byte>> FileMapping::unreadable() const {
  std::vector<std::span<const std::byte>> pages;
  for (const std::byte* const page : guard_->missing()) {
    const auto left = static_cast<std::size_t>(bytes_.data() + bytes_.size() - page);
    pages.emplace_back(page, std::min<std::size_t>(page_bytes, left));
  }
  return pages;
}

FileMapping::~FileMapping() {
  guard_.reset();
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::shared_ptr<const FileMapping> FileMapping::Open(int descriptor, const struct stat& stat,
                                                     Status* status) {
  const OpenMappings::Key key = OpenMappings::Key::Of(stat);
  if (OpenMappings::MappingPtr open = OpenMappings::All().Find(key)) return open;
  const auto bytes = static_cast<std::size_t>(stat.st_size);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    *status = StatusFromErrno(errno, "mapping it");
    return nullptr;
  }
  return OpenMappings::All().Note(stat, {static_cast<const std::byte*>(data), bytes});
}

bool FileMapping::IsMapped(const struct stat& stat) {
  return OpenMappings::All().Find(OpenMappings::Key::Of(stat)) != nullptr;
}

std::size_t FileMapping::Count() { return OpenMappings::All().Count(); }

}  // namespace ringfeed
