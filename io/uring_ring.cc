#include "io/uring_ring.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/per_process.h"
#include "base/refusal.h"
#include "io/data_file.h"
#include "io/read_engine.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

/// Tried in this order; each step comes after the kernel has refused the previous one with EINVAL.
constexpr std::array<unsigned, 5> kLadder = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
        IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL |
        IORING_SETUP_CLAMP,
    IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP,
    IORING_SETUP_CLAMP,
    0,
};

constexpr std::array<std::pair<unsigned, std::string_view>, 6> kFlagNames = {{
    {IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER"},
    {IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN"},
    {IORING_SETUP_COOP_TASKRUN, "COOP_TASKRUN"},
    {IORING_SETUP_TASKRUN_FLAG, "TASKRUN_FLAG"},
    {IORING_SETUP_SUBMIT_ALL, "SUBMIT_ALL"},
    {IORING_SETUP_CLAMP, "CLAMP"},
}};

/// Completions are never dropped (NODROP), and a wait may have a timeout (EXT_ARG).
constexpr unsigned kNeededFeatures = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;

constexpr unsigned kLeastEntries = 8;

bool KnowsReads(io_uring* ring) {
  io_uring_probe* const probe = io_uring_get_probe_ring(ring);
  if (probe == nullptr) return false;
  const bool knows = io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                     io_uring_opcode_supported(probe, IORING_OP_READ_FIXED) != 0;
  io_uring_free_probe(probe);
  return knows;
}

/// What /proc/self/status says of `name`; empty if nothing.
std::string ProcessStatus(std::string_view name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with(name)) return line.substr(line.find('\t') + 1);
  }
  return {};
}

constexpr std::size_t kTestBytes = 4096;
constexpr std::chrono::seconds kTestPatience{10};

/// Memory that the kernel writes to.
struct TestBuffer {
  alignas(64) std::array<std::byte, kTestBytes> bytes{};
  TestBuffer* before = nullptr;  ///< that was given up
};

// A read that did not end may still write to the buffer, whatever happens to its ring.
void GiveUp(std::unique_ptr<TestBuffer> buffer) {
  static constinit std::atomic<TestBuffer*> last{nullptr};
  TestBuffer* const given_up = buffer.release();
  // Relaxed: nothing reads the list; it keeps the buffers reachable for leak checkers.
  given_up->before = last.exchange(given_up, std::memory_order_relaxed);
}

Status WaitForRead(io_uring* ring, std::chrono::nanoseconds patience, int* bytes) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  io_uring_cqe* cqe = nullptr;
  int result = 0;
  do {
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    const std::int64_t nanoseconds = std::max<std::int64_t>(left.count(), 0);
    __kernel_timespec timeout{};
    timeout.tv_sec = nanoseconds / 1'000'000'000;
    timeout.tv_nsec = nanoseconds % 1'000'000'000;
    result = io_uring_wait_cqe_timeout(ring, &cqe, &timeout);
  } while (result == -EINTR);
  if (result == -ETIME) {
    return Status(StatusCode::kUnsupported, "a first read through io_uring did not end");
  }
  if (result < 0) return StatusFromErrno(-result, "io_uring_enter");
  *bytes = cqe->res;
  io_uring_cqe_seen(ring, cqe);
  return {};
}

std::string KernelRelease() {
  utsname name{};
  uname(&name);
  return name.release;
}

UringProbe Probe() {
  UringProbe probe;
  UringRing ring;
  Status status = ring.Open(8);
  if (status.ok()) {
    const int descriptor = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
      status = TryRead(&ring, descriptor, kTestPatience);
      close(descriptor);
    }
  }
  probe.available = status.ok();
  probe.passes = IsRefusal(status);
  if (!status.ok()) {
    probe.reason = status.message();
    return probe;
  }
  probe.flags = ring.FlagNames();
  probe.reason = "Linux " + KernelRelease() + " has it";
  return probe;
}

/// A huge page: what an arena populates at a time.
constexpr std::size_t kLeastPieceBytes = std::size_t{2} << 20;
/// The kernel's limit on one registered buffer.
constexpr std::size_t kMostPieceBytes = std::size_t{1} << 30;
constexpr std::size_t kMostPieces = 16384;  // likewise, of one table

bool MayLockAnything() {
  constexpr int kCapIpcLock = 14;
  const std::string effective = ProcessStatus("CapEff:");
  return !effective.empty() && ((std::stoull(effective, nullptr, 16) >> kCapIpcLock) & 1) != 0;
}

/// Locked memory is counted per user, and the rings themselves use some of it: a registration that
/// nearly used up the limit would leave the next thread without a ring. Returns why not, or
/// nothing.
std::string WhyNotToRegister(std::size_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY || MayLockAnything()) return {};
  if (limit.rlim_cur / 2 >= bytes) return {};
  return "the memlock limit of " + std::to_string(limit.rlim_cur / 1024) + " KiB has no room for " +
         std::to_string(bytes >> 10) + " KiB";
}

}  // namespace

std::string UringRestrictions() {
  std::ifstream sysctl("/proc/sys/kernel/io_uring_disabled");
  std::string disabled;
  if (!std::getline(sysctl, disabled)) disabled = "not there";
  rlimit memlock{};
  getrlimit(RLIMIT_MEMLOCK, &memlock);
  const std::string limit = memlock.rlim_cur == RLIM_INFINITY
                                ? "unlimited"
                                : std::to_string(memlock.rlim_cur / 1024) + " KiB";
  const std::string seccomp = ProcessStatus("Seccomp:");
  return "kernel.io_uring_disabled = " + disabled +
         ", Seccomp: " + (seccomp.empty() ? "unknown" : seccomp) + ", memlock limit " + limit;
}

namespace {

#if defined(__SANITIZE_THREAD__)
// A ring may get the memory that another thread's ring had before. ThreadSanitizer does not see
// that, because liburing makes the system calls itself.
std::atomic<int> rings_closed{0};
void NoteMemoryBack() { rings_closed.fetch_add(1, std::memory_order_release); }
void NoteMemoryTaken() { (void)rings_closed.load(std::memory_order_acquire); }
#else
void NoteMemoryBack() {}
void NoteMemoryTaken() {}
#endif

}  // namespace

UringRing::~UringRing() {
  if (entries_ == 0) return;
  NoteMemoryBack();
  io_uring_queue_exit(&ring_);
}

int UringRing::OpenWithLadder(unsigned entries) {
  int result = -EINVAL;
  for (const unsigned flags : kLadder) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CQSIZE;
    params.cq_entries = 4 * entries;
    result = io_uring_queue_init_params(entries, &ring_, &params);
    if (result != -EINVAL) break;
  }
  NoteMemoryTaken();
  return result;
}

Status UringRing::Open(unsigned entries) {
  int result = OpenWithLadder(entries);
  // The ring's own memory counts as locked.
  while (result == -ENOMEM && entries > kLeastEntries) {
    entries = std::max(kLeastEntries, entries / 4);
    result = OpenWithLadder(entries);
  }
  if (result < 0) {
    const Status status = StatusFromErrno(-result, "io_uring_setup");
    return Status(status.code(), status.message() + " (" + UringRestrictions() + ")");
  }
  entries_ = entries;
  if ((ring_.features & kNeededFeatures) != kNeededFeatures || !KnowsReads(&ring_)) {
    return Status(StatusCode::kUnsupported, "the kernel's io_uring is too old (5.15 is needed)");
  }
  // A child of fork must not share the queues. Neither call is needed for reads to work.
  io_uring_ring_dontfork(&ring_);
  io_uring_register_ring_fd(&ring_);
  return {};
}

std::string UringRing::FlagNames() const {
  std::string names;
  for (const auto& [flag, name] : kFlagNames) {
    if ((ring_.flags & flag) == 0) continue;
    if (!names.empty()) names += '|';
    names += name;
  }
  return names.empty() ? "none" : names;
}

Status TryRead(UringRing* ring, int descriptor, std::chrono::nanoseconds patience) {
  auto by_ring = std::make_unique<TestBuffer>();
  io_uring_sqe* const sqe = io_uring_get_sqe(ring->get());
  if (sqe == nullptr) return Status(StatusCode::kInternal, "a new ring has no free entry");
  io_uring_prep_read(sqe, descriptor, by_ring->bytes.data(), kTestBytes, 0);
  int result = 0;
  do {
    result = io_uring_submit(ring->get());
  } while (result == -EINTR);
  if (result < 0) return StatusFromErrno(-result, "io_uring_enter");
  if (result == 0) return Status(StatusCode::kUnsupported, "io_uring took no read");
  int bytes = 0;
  Status status = WaitForRead(ring->get(), patience, &bytes);
  if (!status.ok()) {
    GiveUp(std::move(by_ring));
    return status;
  }
  if (bytes < 0) return StatusFromErrno(-bytes, "a first read through io_uring");
  std::array<std::byte, kTestBytes> by_pread{};
  std::size_t got = 0;
  status =
      ReadWhole(descriptor, 0, std::span(by_pread).first(static_cast<std::size_t>(bytes)), &got);
  if (!status.ok()) return status;
  if (got != static_cast<std::size_t>(bytes) || by_ring->bytes != by_pread) {
    return Status(StatusCode::kUnsupported, "a first read through io_uring gave wrong bytes");
  }
  return {};
}

UringProbe ProbeUring() {
  struct Probed {
    std::mutex mutex;
    std::optional<UringProbe> lasting;
  };
  static constinit PerProcess<Probed> of_process;
  Probed& probed = of_process.Get();
  const std::lock_guard lock(probed.mutex);
  if (probed.lasting) return *probed.lasting;
  UringProbe probe = Probe();
  if (!probe.passes) probed.lasting = probe;
  return probe;
}

UringBuffers::UringBuffers(io_uring* ring, std::byte* data, std::size_t bytes)
    : ring_(ring), data_(data), bytes_(bytes) {
  piece_bytes_ = kLeastPieceBytes;
  while (bytes_ > piece_bytes_ * kMostPieces) piece_bytes_ *= 2;
  const std::string why_not = WhyNotToRegister(bytes_);
  if (bytes_ == 0) {
    Refuse("no arena");
  } else if (!why_not.empty()) {
    Refuse(why_not);
  } else if (piece_bytes_ > kMostPieceBytes) {
    Refuse("the arena is too large");
  } else {
    usable_ = MakeTable();
  }
}

UringBuffers::~UringBuffers() {
  if (has_table_) io_uring_unregister_buffers(ring_);
}

bool UringBuffers::MakeTable() {
  const std::size_t pieces = (bytes_ + piece_bytes_ - 1) / piece_bytes_;
  const int result = io_uring_register_buffers_sparse(ring_, static_cast<unsigned>(pieces));
  if (result < 0) {
    Refuse(StatusFromErrno(-result, "registering").message());
    return false;
  }
  has_table_ = true;
  registered_.assign(pieces, false);
  description_ = "fixed buffers";
  return true;
}

void UringBuffers::Refuse(const std::string& why) {
  usable_ = false;
  description_ = "plain buffers: " + why;
}

int UringBuffers::IndexFor(const std::byte* buffer, std::size_t bytes) {
  if (!has_table_ || buffer < data_ || buffer + bytes > data_ + bytes_) return -1;
  const auto offset = static_cast<std::size_t>(buffer - data_);
  const std::size_t piece = offset / piece_bytes_;
  if ((offset + bytes - 1) / piece_bytes_ != piece) return -1;
  if (registered_[piece]) return static_cast<int>(piece);
  if (!usable_) return -1;
  const std::size_t begin = piece * piece_bytes_;
  iovec range{data_ + begin, std::min(piece_bytes_, bytes_ - begin)};
  // The kernel wants an array of tags, though 0 stands for none.
  const __u64 no_tag = 0;
  const int result =
      io_uring_register_buffers_update_tag(ring_, static_cast<unsigned>(piece), &range, &no_tag, 1);
  if (result < 0) {
    Refuse(StatusFromErrno(-result, "registering").message());
    return -1;
  }
  registered_[piece] = true;
  return static_cast<int>(piece);
}

}  // namespace ringfeed
