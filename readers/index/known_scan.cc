#include "readers/index/known_scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <string>
#include <thread>

#include "readers/index/index_builder.h"
#include "readers/index/pointed_content.h"

namespace ringfeed {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
/// The steps of FAT's times; others are finer. A server's clock is no further off.
constexpr std::int64_t kCoarseStepNs = 2 * kSecondNs;

// The clock that gives a local file its times.
std::int64_t NowOfFiles() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

// Waits until a write would give the file a time other than its own. False if that takes too long:
// a clock was set back.
bool AwaitNextTick(const KnownFile& known, const std::stop_token& stop) {
  const FileIdentity& identity = known.identity;
  const bool by_change = identity.changed_ns != 0;
  const std::int64_t last = by_change ? identity.changed_ns : identity.modified_ns;
  const bool rounded = last % kSecondNs == 0 && identity.modified_ns % kSecondNs == 0;
  const std::int64_t settled = last + (by_change && !rounded ? 0 : kCoarseStepNs);
  // Some program set a time of modification in the future; a write takes it away.
  if (last > NowOfFiles() + kCoarseStepNs) return !by_change;
  while (NowOfFiles() <= settled && !stop.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Whether a process has it open for writing, or mapped: the system does not lease such a file to a
// reader. False also if the system does not tell, as for another user's file.
bool HasWriter(const std::string& name) {
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return false;
  // A writer that comes meanwhile waits for the lease to end, and this process gets a signal, which
  // is ignored unless the program asked for it. (SIGIO would end the process.)
  bool found = false;
  if (fcntl(descriptor, F_SETSIG, SIGURG) == 0) {
    found = fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
    if (!found) (void)fcntl(descriptor, F_SETLEASE, F_UNLCK);
  }
  close(descriptor);
  return found;
}

Status NotKept(const std::string& why) { return Status(StatusCode::kUnsupported, why); }

}  // namespace

Status ScanKnown(const IndexedFile& file, const KnownFile& known, IndexImage* image, Status* lasts,
                 const std::stop_token& stop, const MakeImage& make) {
  *lasts = Status();
  const bool told = !IsOfFile(file.source.get()) || AwaitNextTick(known, stop);
  Status status = make ? make(image) : ScanForIndex(file, image, stop);
  if (!status.ok() || !IsOfFile(file.source.get())) return status;
  KnownFile after;
  status = IdentifyFile(file, &after);
  if (!status.ok()) return status;
  if (after.state != known.state) {
    KnownFile then = known;  // of a compressed file the content has another size
    then.identity.bytes = known.state.bytes;
    status = CheckKnown(file.name, then, after.state);
    if (!status.ok()) {
      return Status(status.code(),
                    "the file changed while it was indexed (" + status.message() + ")",
                    {file.name, -1, -1});
    }
    *lasts = NotKept("the file was changed while it was indexed");
  } else if (!told) {
    *lasts = NotKept("the file was changed in the future, by its time of change");
  } else if (HasWriter(file.name)) {
    *lasts = NotKept("a process has the file open for writing");
  }
  return {};
}

}  // namespace ringfeed
