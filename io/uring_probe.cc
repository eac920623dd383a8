#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "io/read_engine.h"
#include "io/uring_ring.h"

namespace ringfeed {

namespace {

constexpr std::size_t kTestBytes = 4096;

/// Reads the head of a real file through the ring: a ring that can be made need not work.
Status ReadThrough(UringRing* ring, int descriptor) {
  alignas(64) std::array<std::byte, kTestBytes> by_ring{};
  alignas(64) std::array<std::byte, kTestBytes> by_pread{};
  io_uring_sqe* const sqe = io_uring_get_sqe(ring->get());
  if (sqe == nullptr) return Status(StatusCode::kInternal, "a new ring has no free entry");
  io_uring_prep_read(sqe, descriptor, by_ring.data(), kTestBytes, 0);
  int result = 0;
  do {
    result = io_uring_submit(ring->get());
  } while (result == -EINTR);
  if (result < 0) return StatusFromErrno(-result, "io_uring_enter");
  io_uring_cqe* cqe = nullptr;
  do {
    result = io_uring_wait_cqe(ring->get(), &cqe);
  } while (result == -EINTR);
  if (result < 0) return StatusFromErrno(-result, "io_uring_enter");
  const int bytes = cqe->res;
  io_uring_cqe_seen(ring->get(), cqe);
  if (bytes < 0) return StatusFromErrno(-bytes, "a first read through io_uring");
  if (pread(descriptor, by_pread.data(), kTestBytes, 0) < bytes || by_ring != by_pread) {
    return Status(StatusCode::kUnsupported, "a first read through io_uring gave wrong bytes");
  }
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
      status = ReadThrough(&ring, descriptor);
      close(descriptor);
    }
  }
  probe.available = status.ok();
  if (!status.ok()) {
    probe.reason = status.message();
    return probe;
  }
  probe.flags = ring.FlagNames();
  probe.reason = "Linux " + KernelRelease() + " has it";
  return probe;
}

}  // namespace

const UringProbe& ProbeUring() {
  static const UringProbe probe = Probe();
  return probe;
}

}  // namespace ringfeed
