// Makes system calls of the process that loads it fail (LD_PRELOAD), as the variable
// RINGFEED_INJECT says: CALL,ERRNO,FIRST,TIMES,ENDING.
//
// CALL is one of open, read, pread, fstat, stat, mmap, thread, uring, sector and slow. Of the calls
// of that kind on files whose names end with ENDING, those from number FIRST (from 1) on fail,
// TIMES of them, 0 without end. "sector" fails what reads the 4 KiB at offset FIRST, each time.
// With "slow" a read that meets the end of a FIFO comes back a while later, as on a busy machine.

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

constexpr off_t kSectorBytes = 4096;
constexpr useconds_t kSlowEndMicroseconds = 200'000;

struct Orders {
  std::string call, ending;
  int error = 0;
  long first = 0;
  long times = 0;
  std::atomic<long> count{0};

  Orders() {
    const char* text = std::getenv("RINGFEED_INJECT");
    if (text == nullptr) return;
    std::string_view left(text);
    const auto word = [&left] {
      const std::size_t end = std::min(left.find(','), left.size());
      std::string found(left.substr(0, end));
      left.remove_prefix(std::min(end + 1, left.size()));
      return found;
    };
    call = word();
    error = std::atoi(word().c_str());
    first = std::atol(word().c_str());
    times = std::atol(word().c_str());
    ending = left;
  }
};

Orders& orders() {
  static Orders* const kept = new Orders;  // used until the process has ended
  return *kept;
}

bool EndsAsOrdered(std::string_view path) { return path.ends_with(orders().ending); }

bool EndsAsOrdered(int descriptor) {
  if (orders().ending.empty()) return true;
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size > 0 && EndsAsOrdered(std::string_view(path, static_cast<std::size_t>(size)));
}

/// Whether this call is one of those that are to fail; then errno is set.
template <typename Name>
bool Fails(std::string_view call, Name name) {
  Orders& given = orders();
  if (given.call != call || !EndsAsOrdered(name)) return false;
  const long number = given.count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number < given.first || (given.times != 0 && number >= given.first + given.times))
    return false;
  errno = given.error;
  return true;
}

/// How many of `bytes` at `offset` can be read; 0 where the first one cannot.
std::size_t BeforeSector(int descriptor, off_t offset, std::size_t bytes) {
  const Orders& given = orders();
  const off_t end = offset + static_cast<off_t>(bytes);
  if (given.call != "sector" || end <= given.first || offset >= given.first + kSectorBytes)
    return bytes;
  if (!EndsAsOrdered(descriptor)) return bytes;
  errno = EIO;
  return offset >= given.first ? 0 : static_cast<std::size_t>(given.first - offset);
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = Real<int(const char*, int, ...)>("open");
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return Fails("open", std::string_view(path)) ? -1 : real(path, flags, mode);
}

ssize_t read(int descriptor, void* data, std::size_t bytes) {
  static auto* const real = Real<ssize_t(int, void*, std::size_t)>("read");
  if (Fails("read", descriptor)) return -1;
  const ssize_t got = real(descriptor, data, bytes);
  struct stat facts {};
  if (got == 0 && orders().call == "slow" && fstat(descriptor, &facts) == 0 &&
      S_ISFIFO(facts.st_mode)) {
    usleep(kSlowEndMicroseconds);
  }
  return got;
}

ssize_t pread(int descriptor, void* data, std::size_t bytes, off_t offset) {
  static auto* const real = Real<ssize_t(int, void*, std::size_t, off_t)>("pread");
  if (Fails("pread", descriptor)) return -1;
  const std::size_t left = BeforeSector(descriptor, offset, bytes);
  return left == 0 && bytes != 0 ? -1 : real(descriptor, data, left, offset);
}

ssize_t preadv2(int descriptor, const iovec* pieces, int count, off_t offset, int flags) {
  static auto* const real = Real<ssize_t(int, const iovec*, int, off_t, int)>("preadv2");
  if (Fails("pread", descriptor)) return -1;
  iovec first = pieces[0];
  first.iov_len = BeforeSector(descriptor, offset, first.iov_len);
  if (first.iov_len == pieces[0].iov_len) return real(descriptor, pieces, count, offset, flags);
  return first.iov_len == 0 ? -1 : real(descriptor, &first, 1, offset, flags);
}

int fstat(int descriptor, struct stat* facts) noexcept {
  static auto* const real = Real<int(int, struct stat*)>("fstat");
  return Fails("fstat", descriptor) ? -1 : real(descriptor, facts);
}

int stat(const char* path, struct stat* facts) noexcept {
  static auto* const real = Real<int(const char*, struct stat*)>("stat");
  return Fails("stat", std::string_view(path)) ? -1 : real(path, facts);
}

void* mmap(void* at, std::size_t bytes, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  static auto* const real = Real<void*(void*, std::size_t, int, int, int, off_t)>("mmap");
  if (descriptor >= 0 && Fails("mmap", descriptor)) return MAP_FAILED;
  return real(at, bytes, protection, flags, descriptor, offset);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  using Create = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* const real = Real<Create>("pthread_create");
  return Fails("thread", std::string_view(orders().ending))
             ? orders().error
             : real(thread, attributes, run, argument);
}

int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* parameters) {
  static auto* const real =
      Real<int(unsigned, io_uring*, io_uring_params*)>("io_uring_queue_init_params");
  return Fails("uring", std::string_view(orders().ending)) ? -orders().error
                                                           : real(entries, ring, parameters);
}

}  // extern "C"
