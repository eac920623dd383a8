#include "io/uring_ring.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <utility>

namespace ringfeed {

namespace {

/// Tried in this order, each step after the kernel has refused the one before with EINVAL.
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

std::string SeccompLine() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("Seccomp:", 0) == 0) return "Seccomp: " + line.substr(line.find('\t') + 1);
  }
  return "Seccomp: unknown";
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
  return "kernel.io_uring_disabled = " + disabled + ", " + SeccompLine() + ", memlock limit " +
         limit;
}

UringRing::~UringRing() {
  if (entries_ > 0) io_uring_queue_exit(&ring_);
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

}  // namespace ringfeed
