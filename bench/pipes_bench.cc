// Streams between processes, by the clock, beside `cat` in their place: see paired_rows.h for how
// to run it.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
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
#include "bench/paired_rows.h"
#include "ringfeed/decorators.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStreams = 8;

// Rates of these rows are by the clock, of bytes.
LoopResult ByTheClock(double wall_s, std::uint64_t bytes) {
  LoopResult result;
  result.cpu_s = result.wall_s = wall_s;
  result.records = result.bytes = bytes;
  return result;
}

double RunShell(const std::string& line) {
  const ChildFigures figures = RunChild({"bash", "-o", "pipefail", "-c", line}, "/dev/null");
  if (figures.exit_status != 0) throw Error(Status(StatusCode::kInternal, line + " failed"));
  return figures.wall_s;
}

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

std::uint64_t SumOfFile(const std::string& path) {
  ByteSum sum;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0) {
    sum.Add(std::as_bytes(std::span(buffer.data(), static_cast<std::size_t>(file.gcount()))));
  }
  return sum.value();
}

// Without noise, so that what comes out is what went in, by the same work.
PairedRow AddNoiseRow(const BenchFiles& files) {
  const std::string input = files.paths[0];
  const std::string filter =
      (fs::path(RingfeedCommand()).parent_path().parent_path() / "examples" / "add_noise").string();
  const auto run = [=](const std::string& between, bool digest) {
    const std::string output = digest ? input + ".filtered" : "/dev/null";
    LoopResult result =
        ByTheClock(RunShell("cat " + input + " | " + between + " | cat > " + output), files.bytes);
    if (digest) {
      result.digest = SumOfFile(output);
      fs::remove(output);
    }
    return result;
  };
  return {"pipes.add_noise", "bytes/s", [=](bool digest) { return run(filter + " 0", digest); },
          [=](bool digest) { return run("cat", digest); }};
}

/// Named pipes in a folder of their own, removed at the end.
class Fifos {
 public:
  Fifos(std::string folder, std::size_t count) : folder_(std::move(folder)) {
    fs::create_directories(folder_);
    for (std::size_t i = 0; i < count; ++i) {
      paths_.push_back(folder_ + "/" + std::to_string(i) + ".fifo");
      if (mkfifo(paths_.back().c_str(), 0600) != 0) throw Error(StatusFromErrno(errno, "mkfifo"));
    }
  }
  ~Fifos() { fs::remove_all(folder_); }
  Fifos(const Fifos&) = delete;
  Fifos& operator=(const Fifos&) = delete;

  const std::vector<std::string>& paths() const { return paths_; }

 private:
  const std::string folder_;
  std::vector<std::string> paths_;
};

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
  const auto started = std::chrono::steady_clock::now();
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
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - started;
  LoopResult result = ByTheClock(wall.count(), files.bytes);
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

PairedRow MultiplexRow(const BenchFiles& files) {
  const std::string folder = files.paths[0] + ".fifos-" + std::to_string(getpid());
  const auto fifos = std::make_shared<const Fifos>(folder, files.paths.size());
  std::string all;
  for (const std::string& path : files.paths) all += " " + path;
  return {"pipes.multiplex_8", "bytes/s",
          [=](bool digest) { return ReadStreams(files, fifos->paths(), digest); },
          [=](bool digest) {
            const std::string& one = fifos->paths()[0];
            LoopResult result = ByTheClock(
                RunShell("cat" + all + " > " + one + " & cat " + one + " > /dev/null; wait"),
                files.bytes);
            if (digest) result.digest = SumOfRecords(files);
            return result;
          }};
}

std::vector<PairedRow> Rows() {
  const std::uint64_t records = SmokeRun() ? 2000 : 400'000;
  constexpr std::size_t kRecordBytes = 4096;
  return {AddNoiseRow(Texts("recordio:fluid,none", kRecordBytes, true, records, 1)),
          MultiplexRow(Texts("recordio:fluid,none", kRecordBytes, true, records, kStreams))};
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  return ringfeed::bench::PairedMain(argc, argv, ringfeed::bench::Rows);
}
