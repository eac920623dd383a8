#include "tools/inspect/file_jobs.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/machine/cpu_count.h"
#include "base/machine/signals_blocked.h"
#include "base/memory/arena.h"

namespace ringfeed::tools {
namespace {

constexpr std::chrono::milliseconds kTick{100};
// Less memory than this would make readers of large records fail that work by themselves.
constexpr std::size_t kLeastShare = std::size_t{64} << 20;

}  // namespace

std::uint64_t BytesOfFiles(const std::vector<std::string>& files) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code failure;
    const std::uintmax_t size = std::filesystem::file_size(file, failure);
    bytes += failure ? 0 : size;
  }
  return bytes;
}

FileShare ShareOut(std::size_t files) {
  const std::size_t memory = Arena::Default()->unreserved_bytes() / 2;
  const auto cpus = static_cast<std::size_t>(std::max(1, CountCpus().usable));
  FileShare share;
  share.threads = std::max<std::size_t>(1, std::min({files, cpus, memory / kLeastShare}));
  if (share.threads > 1) share.arena_bytes = memory / share.threads;
  return share;
}

std::size_t ArenaBesideShares() { return Arena::Default()->unreserved_bytes(); }

void RunInOrder(std::size_t count, std::size_t threads, const FileJobs& jobs) {
  std::mutex mutex;  // guards the next two
  std::size_t next = 0;
  std::vector<bool> finished(count);
  std::condition_variable finished_one;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (next < count) {
      const std::size_t mine = next++;
      lock.unlock();
      jobs.job(mine);
      lock.lock();
      finished[mine] = true;
      finished_one.notify_one();
    }
  };
  std::vector<std::jthread> workers(std::min(count, threads));
  {
    const SignalsBlocked blocked;
    for (std::jthread& worker : workers) worker = std::jthread(work);
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::unique_lock lock(mutex);
    while (!finished_one.wait_for(lock, kTick, [&] { return finished[i]; })) {
      lock.unlock();
      jobs.tick();
      lock.lock();
    }
    lock.unlock();
    jobs.done(i);
  }
}

}  // namespace ringfeed::tools
