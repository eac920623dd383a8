#include "tests/io/remote/failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

namespace ringfeed {
namespace {

std::atomic<long> failing{-1};  // -1: none
std::atomic<int> failing_error{0};
std::atomic<long> calls_so_far{0};
std::atomic<bool> is_full{false};

bool Fails() {
  const long at = failing;
  if (at < 0 || ++calls_so_far != at) return false;
  errno = failing_error;
  return true;
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

FailingCall::FailingCall(long at, int error) {
  calls_so_far = 0;
  failing_error = error;
  failing = at;
}
FailingCall::~FailingCall() { failing = -1; }
long FailingCall::calls() const { return calls_so_far; }

FullDisk::FullDisk() { is_full = true; }
FullDisk::~FullDisk() { is_full = false; }

}  // namespace ringfeed

// They go before the C library's.
extern "C" {

int openat(int folder, const char* path, int flags, ...) {
  static auto* const real = ringfeed::Real<int(int, const char*, int, ...)>("openat");
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return ringfeed::Fails() ? -1 : real(folder, path, flags, mode);
}

int fstat(int descriptor, struct stat* facts) noexcept {
  static auto* const real = ringfeed::Real<int(int, struct stat*)>("fstat");
  return ringfeed::Fails() ? -1 : real(descriptor, facts);
}

int fstatat(int folder, const char* path, struct stat* facts, int flags) noexcept {
  static auto* const real = ringfeed::Real<int(int, const char*, struct stat*, int)>("fstatat");
  return ringfeed::Fails() ? -1 : real(folder, path, facts, flags);
}

ssize_t pread(int descriptor, void* data, size_t bytes, off_t offset) {
  static auto* const real = ringfeed::Real<ssize_t(int, void*, size_t, off_t)>("pread");
  return ringfeed::Fails() ? -1 : real(descriptor, data, bytes, offset);
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  static auto* const real = ringfeed::Real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  if (ringfeed::is_full) errno = ENOSPC;
  return ringfeed::is_full || ringfeed::Fails() ? -1 : real(descriptor, data, bytes, offset);
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  static auto* const real = ringfeed::Real<int(int, off_t)>("ftruncate");
  return ringfeed::Fails() ? -1 : real(descriptor, bytes);
}

int flock(int descriptor, int operation) noexcept {
  static auto* const real = ringfeed::Real<int(int, int)>("flock");
  return ringfeed::Fails() ? -1 : real(descriptor, operation);
}

int renameat(int from, const char* old_path, int to, const char* new_path) noexcept {
  static auto* const real = ringfeed::Real<int(int, const char*, int, const char*)>("renameat");
  return ringfeed::Fails() ? -1 : real(from, old_path, to, new_path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const real = ringfeed::Real<int(int, const char*, int)>("unlinkat");
  return ringfeed::Fails() ? -1 : real(folder, path, flags);
}

int futimens(int descriptor, const timespec times[2]) noexcept {
  static auto* const real = ringfeed::Real<int(int, const timespec*)>("futimens");
  return ringfeed::Fails() ? -1 : real(descriptor, times);
}

}  // extern "C"
