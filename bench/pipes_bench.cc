// Streams between processes, by the clock, beside `cat` in their place.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bench_data.h"
#include "bench/child_process.h"
#include "bench/loops.h"
#include "ringfeed/decorators.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStreams = 8;
constexpr std::size_t kRecordBytes = 4096;

std::uint64_t Records() { return Sized(400'000, 2'000); }

// Sums of bytes: the same whatever the order that streams come in.
class ByteSum {
 public:
  void Add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) sum_ += std::to_integer<std::uint64_t>(byte);
    count_ += bytes.size();
  }
  std::uint64_t value() const { return sum_ * 31 + count_; }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t count_ = 0;
};

// Without noise, so that what comes out is what went in, by the same work.
Pair AddNoise() {
  const BenchFiles files = Texts("recordio:fluid,none", kRecordBytes, true, Records(), 1);
  const std::string input = files.paths[0];
  const std::string filter =
      (fs::path(RingfeedCommand()).parent_path().parent_path() / "examples" / "add_noise").string();
  const auto run = [=](const std::string& between, bool digest) {
    const std::string output = digest ? input + ".filtered" : "/dev/null";
    LoopResult result = RunShell("cat " + input + " | " + between + " | cat > " + output);
    result.bytes = files.bytes;
    if (digest) {
      RunShell("cmp " + input + " " + output);  // throws if they differ
      fs::remove(output);
    }
    return result;
  };
  return Digested([=](bool digest) { return run(filter + " 0", digest); },
                  [=](bool digest) { return run("cat", digest); });
}

// Reads all streams at once, to their ends.
LoopResult ReadStreams(const BenchFiles& files, const std::vector<std::string>& fifos,
                       bool digest) {
  std::string writers;
  for (std::size_t i = 0; i < fifos.size(); ++i) {
    writers += "cat " + files.paths[i] + " > " + fifos[i] + " & ";
  }
  OpenOptions options;
  options.format = "recordio";
  std::vector<Reader> streams;
  for (const std::string& fifo : fifos) streams.push_back(OpenFiles({fifo}, options));
  Reader reader = Multiplex(streams, options);
  LoopResult result;
  const Timer timer;
  const std::jthread shell([&] { RunShell(writers + "wait"); });
  ByteSum sum;
  RecordBlock block;
  std::uint64_t records = 0;
  while (reader.TryReadBlock(&block) == ReadResult::kRecord) {
    records += block.size();
    if (!digest) continue;
    for (const RecordSpan& record : block.records()) sum.Add(record.bytes());
  }
  if (!reader.status().ok()) throw Error(reader.status());
  timer.Stop(&result);
  result.bytes = files.bytes;
  result.digest = records == files.records ? sum.value() : 0;
  return result;
}

// What the records of all files add up to, read as files.
std::uint64_t SumOfRecords(const BenchFiles& files) {
  ByteSum sum;
  Reader reader = OpenFiles(files.paths, {.format = "recordio"});
  RecordBlock block;
  while (reader.TryReadBlock(&block) == ReadResult::kRecord) {
    for (const RecordSpan& record : block.records()) sum.Add(record.bytes());
  }
  return sum.value();
}

Pair MultiplexFifos() {
  const BenchFiles files = Texts("recordio:fluid,none", kRecordBytes, true, Records(), kStreams);
  // Named pipes in a folder of their own, which lives as long as the pair.
  const std::shared_ptr<const fs::path> folder(
      new fs::path(files.paths[0] + ".fifos-" + std::to_string(getpid())),
      [](const fs::path* path) {
        fs::remove_all(*path);
        delete path;
      });
  fs::create_directories(*folder);
  std::vector<std::string> fifos;
  std::string all;
  for (const std::string& path : files.paths) {
    fifos.push_back(*folder / (std::to_string(fifos.size()) + ".fifo"));
    if (mkfifo(fifos.back().c_str(), 0600) != 0) throw Error(StatusFromErrno(errno, "mkfifo"));
    all += " " + path;
  }
  const std::string& one = fifos[0];
  const std::string line = "cat" + all + " > " + one + " & cat " + one + " > /dev/null; wait";
  return Digested([=, kept = folder](bool digest) { return ReadStreams(files, fifos, digest); },
                  [=](bool digest) {
                    LoopResult result = RunShell(line);
                    result.bytes = files.bytes;
                    if (digest) result.digest = SumOfRecords(files);
                    return result;
                  });
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  return {{{{"pipes.add_noise", kGbPerS}}, AddNoise},
          {{{"pipes.multiplex_8", kGbPerS}}, MultiplexFifos}};
}

}  // namespace ringfeed::bench
