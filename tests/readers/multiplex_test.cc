#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/readers/pipeline_fixture.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

void WriteAll(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(descriptor, bytes.data(), bytes.size());
    if (wrote <= 0) return;  // the reader is gone
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
}

/// What a generator writes from its start to its end.
void WriteFifo(const std::string& fifo, std::span<const std::byte> bytes) {
  const int descriptor = open(fifo.c_str(), O_WRONLY);
  WriteAll(descriptor, bytes);
  close(descriptor);
}

/// The descriptors of this process that read a FIFO.
std::vector<std::string> DescriptorsOf(const std::string& fifo) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code is_closed;
    if (std::filesystem::read_symlink(entry.path(), is_closed) == fifo) {
      found.push_back(entry.path());
    }
  }
  return found;
}

/// Waits until the FIFO is read by one descriptor that is not `before`, and gives that: it was
/// opened again, since the end of what came so far was seen. The new one is there before the old
/// one is closed, so that the two differ.
std::string OpenedAgain(const std::string& fifo, const std::string& before) {
  while (true) {
    const std::vector<std::string> found = DescriptorsOf(fifo);
    if (found.size() == 1 && found[0] != before) return found[0];
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Of records: the last one is torn.
std::vector<std::byte> WithoutItsEnd(std::vector<std::byte> bytes) {
  bytes.resize(bytes.size() - 3);
  return bytes;
}

class MultiplexTest : public PipelineTest {
 protected:
  std::string MakeFifo(const std::string& name) const {
    const std::string path = directory_.File(name);
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  OpenOptions Skipping() const {
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    return options;
  }
  /// Records [first, first + count), as a file of them has it.
  static TfRecordImage Records(std::uint64_t first, std::size_t count) {
    return MakeTfRecords(first, RandomSizes(first + 1, count, 8, 2000));
  }
};

/// A file of RecordIO chunks of ten records each, cut inside a chunk where its generator dies.
struct Generation {
  std::vector<std::byte> bytes;
  std::uint64_t records = 0;  ///< in whole chunks
  bool dies = false;
};

Generation MakeGeneration(const std::string& path, std::uint64_t first_id, bool dies) {
  constexpr std::uint64_t kChunks = 20;
  constexpr std::uint64_t kChunkRecords = 10;
  Generation made;
  made.bytes = MakeChunksOfTen(path, first_id, kChunks * kChunkRecords);
  made.dies = dies;
  const std::uint64_t chunks = dies ? kChunks / 2 + first_id / 1000 % 5 : kChunks;
  made.records = chunks * kChunkRecords;
  if (dies) made.bytes.resize(LoadRecordIoIndex(path).chunks[chunks].offset + 57);
  return made;
}

/// Writes it from a process of its own, which is killed where it is to die: while it still holds
/// the FIFO open, in the middle of a chunk.
void RunGenerator(const std::string& fifo, const Generation& generation) {
  std::array<int, 2> wrote{};
  ASSERT_EQ(pipe(wrote.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    WriteAll(open(fifo.c_str(), O_WRONLY), generation.bytes);
    if (!generation.dies) _exit(0);
    WriteAll(wrote[1], std::as_bytes(std::span("!", 1)));
    for (;;) pause();
  }
  if (generation.dies) {
    char byte = 0;
    EXPECT_EQ(read(wrote[0], &byte, 1), 1);
    EXPECT_EQ(kill(child, SIGKILL), 0);
  }
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(wrote[0]);
  close(wrote[1]);
}

TEST_F(MultiplexTest, EveryRecordOfEveryStreamComesOnce) {
  constexpr std::size_t kStreams = 8;
  constexpr std::size_t kRecords = 500;
  std::vector<Reader> streams;
  std::vector<std::jthread> writers;
  for (std::size_t i = 0; i < kStreams; ++i) {
    const std::string fifo = MakeFifo(std::to_string(i) + ".tfrecord");
    streams.push_back(OpenFiles({fifo}, Options()));
    writers.emplace_back([fifo, i] {
      const int descriptor = open(fifo.c_str(), O_WRONLY);
      WriteAll(descriptor, Records(i * kRecords, kRecords).bytes);
      close(descriptor);
    });
  }
  const Drained found = Drain(Batches(Multiplex(streams, Options()), 33));
  EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  EXPECT_EQ(Sorted(found.ids), Numbers(kStreams * kRecords));
  EXPECT_EQ(found.strange, 0U);
}

TEST_F(MultiplexTest, ASlowStreamDoesNotHoldUpTheOthers) {
  const std::string slow = MakeFifo("slow.tfrecord");
  const std::string fast = MakeFifo("fast.tfrecord");
  Reader reader =
      Multiplex({OpenFiles({slow}, Options()), OpenFiles({fast}, Options())}, Options());
  const int slow_end = open(slow.c_str(), O_RDWR);  // a writer that has nothing to say yet
  std::jthread writer([&] {
    const int descriptor = open(fast.c_str(), O_WRONLY);
    WriteAll(descriptor, Records(100, 1000).bytes);
    close(descriptor);
  });
  EXPECT_EQ(Drain(reader, 1000).ids.size(), 1000U);
  const int last = open(slow.c_str(), O_WRONLY);
  WriteAll(last, Records(0, 5).bytes);
  EXPECT_EQ(Drain(reader, 5).ids, Numbers(5));
  close(last);
  close(slow_end);
  EXPECT_FALSE(reader.HasNext());
}

TEST_F(MultiplexTest, AStreamThatDiesInARecordIsReportedAndTheOthersGoOn) {
  const std::string dying = MakeFifo("a.tfrecord");
  const std::string other = MakeFifo("b.tfrecord");
  Reader reader =
      Multiplex({OpenFiles({dying}, Options()), OpenFiles({other}, Options())}, Skipping());
  std::vector<std::jthread> writers;
  writers.emplace_back([&] { WriteFifo(dying, WithoutItsEnd(Records(0, 50).bytes)); });
  writers.emplace_back([&] { WriteFifo(other, Records(49, 500).bytes); });
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  EXPECT_EQ(Sorted(found.ids), Numbers(549));
  ASSERT_EQ(reader.Stats().damage.size(), 1U);
  EXPECT_EQ(reader.Stats().damage[0].file, dying);
}

TEST_F(MultiplexTest, AStreamThatDiesInARecordFailsAllWhereDamageIsNotSkipped) {
  const std::string dying = MakeFifo("a.tfrecord");
  const std::string other = MakeFifo("b.tfrecord");
  Reader reader =
      Multiplex({OpenFiles({dying}, Options()), OpenFiles({other}, Options())}, Options());
  const int other_end = open(other.c_str(), O_RDWR);
  WriteAll(other_end, Records(1000, 5).bytes);
  EXPECT_EQ(Drain(reader, 5).ids, (std::vector<std::uint64_t>{1000, 1001, 1002, 1003, 1004}));
  close(other_end);
  const std::jthread writer([&] { WriteFifo(dying, WithoutItsEnd(Records(0, 50).bytes)); });
  const Drained found = Drain(reader);
  EXPECT_EQ(found.ids, Numbers(49)) << "what is whole comes before the failure";
  EXPECT_EQ(found.end, ReadResult::kFailed);
  EXPECT_EQ(found.status.code(), StatusCode::kTruncated) << found.status.ToString();
  EXPECT_EQ(found.status.place().file, dying);
}

TEST_F(MultiplexTest, AStreamThatSaysNothingNeedsNoFormat) {
  for (const bool skips : {true, false}) {
    const std::string silent = MakeFifo(skips ? "a" : "c");
    const std::string other = MakeFifo(skips ? "b.tfrecord" : "d.tfrecord");
    Reader reader = Multiplex({OpenFiles({silent}, Options()), OpenFiles({other}, Options())},
                              skips ? Skipping() : Options());
    std::vector<std::jthread> writers;
    writers.emplace_back([&] { WriteFifo(silent, {}); });
    writers.emplace_back([&] { WriteFifo(other, Records(0, 50).bytes); });
    const Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(found.ids, Numbers(50));
    EXPECT_TRUE(reader.Stats().damage.empty());
  }
}

TEST_F(MultiplexTest, AGeneratorThatIsKilledAndStartedAgainIsPickedUp) {
  constexpr int kStarts = 6;
  const std::string fifo = MakeFifo("restarted.tfrecord");
  OpenOptions options = Options();
  options.reopen_limit = kStarts - 1;
  std::vector<std::vector<std::byte>> images;
  for (std::uint64_t i = 0; i < kStarts; ++i) images.push_back(Records(i * 1000, 400).bytes);
  // What a stream was opened with holds among others too.
  Reader reader = Multiplex({OpenFiles({fifo}, options)}, Options());
  std::jthread generators([&] {
    std::string reading = OpenedAgain(fifo, "");
    for (int start = 0; start < kStarts; ++start) {
      const std::vector<std::byte>& image = images[static_cast<std::size_t>(start)];
      const pid_t child = fork();
      if (child == 0) {
        const int descriptor = open(fifo.c_str(), O_WRONLY);
        const bool dies = start % 2 == 0;
        WriteAll(descriptor, std::span(image).first(dies ? image.size() - 5 : image.size()));
        if (dies) raise(SIGKILL);
        _exit(0);
      }
      waitpid(child, nullptr, 0);
      // Its end is seen before the next one starts: else its last record, which is cut off, would
      // be followed by the next one's first bytes.
      if (start + 1 < kStarts) reading = OpenedAgain(fifo, reading);
    }
  });
  std::vector<std::uint64_t> want;
  for (std::uint64_t i = 0; i < kStarts; ++i) {
    for (std::uint64_t id = 0; id < (i % 2 == 0 ? 399U : 400U); ++id) want.push_back(i * 1000 + id);
  }
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  EXPECT_EQ(found.ids, want);
  EXPECT_EQ(reader.Stats().reopened_streams, static_cast<std::uint64_t>(kStarts - 1));
  EXPECT_EQ(reader.Stats().damage.size(), 3U);
}

TEST_F(MultiplexTest, AStreamThatDiesBeforeItsFormatIsToldIsReportedAndTheOthersGoOn) {
  const std::string dying = MakeFifo("dying");
  const std::string other = MakeFifo("other.tfrecord");
  Reader reader =
      Multiplex({OpenFiles({dying}, Options()), OpenFiles({other}, Options())}, Skipping());
  const std::vector<std::byte> image = Records(0, 50).bytes;
  std::vector<std::jthread> writers;
  for (const std::string& fifo : {dying, other}) {
    writers.emplace_back(
        [&, fifo] { WriteFifo(fifo, std::span(image).first(fifo == dying ? 2 : image.size())); });
  }
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  EXPECT_EQ(Sorted(found.ids), Numbers(50));
  ASSERT_EQ(reader.Stats().damage.size(), 1U);
  EXPECT_EQ(reader.Stats().damage[0].file, dying);
  EXPECT_EQ(reader.Stats().damage[0].end, 2U);
}

// Nobody waits between a generator's death and the next one's start: where the next one comes
// before the end was seen, its chunks stand behind a piece of one.
TEST_F(MultiplexTest, ManyGeneratorsAreKilledAndStartedAgainAndEveryWholeChunkComesOnce) {
  constexpr std::uint64_t kStreams = 4;
  constexpr std::uint64_t kStarts = 5;
  OpenOptions options = Options();
  options.reopen_limit = 1000;
  std::vector<Reader> streams;
  std::vector<std::vector<Generation>> generations(kStreams);
  std::vector<std::uint64_t> want;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    for (std::uint64_t start = 0; start < kStarts; ++start) {
      const std::uint64_t first = (i * kStarts + start) * 1000;
      generations[i].push_back(
          MakeGeneration(directory_.File("made.recordio"), first, (i + start) % 2 == 0));
      for (std::uint64_t id = 0; id < generations[i].back().records; ++id) {
        want.push_back(first + id);
      }
    }
    streams.push_back(OpenFiles({MakeFifo(std::to_string(i) + ".recordio")}, options));
  }
  // What is not to be skipped of others is of streams that are opened again.
  Reader reader = Multiplex(streams, Options());
  std::vector<std::jthread> supervisors;
  for (std::uint64_t i = 0; i < kStreams; ++i) {
    supervisors.emplace_back([&, fifo = directory_.File(std::to_string(i) + ".recordio"), i] {
      for (const Generation& generation : generations[i]) RunGenerator(fifo, generation);
    });
  }
  const Drained found = Drain(reader, want.size());
  EXPECT_EQ(found.strange, 0U);
  EXPECT_EQ(Sorted(found.ids), want);
  EXPECT_FALSE(reader.Stats().damage.empty());
  reader.Close();
}

TEST_F(MultiplexTest, WhatCannotBeOpenedAgainTakesNoReopenLimit) {
  OpenOptions options = Options();
  options.reopen_limit = 1;
  EXPECT_THROW(OpenFiles(MakeFiles(1, 2, 8, 8), options), Error);
  EXPECT_THROW(OpenFiles({"-"}, options), Error);
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[1]);
  EXPECT_THROW(OpenStreamSource(OpenDescriptor(ends[0], "pipe", false), options), Error);
  const Reader once = OpenStreamSource(OpenDescriptor(ends[0], "pipe", true), Options());
  EXPECT_THROW(Multiplex({once}, options), Error);
  options.reopen_limit = 0;
  EXPECT_NO_THROW(Multiplex({once}, options)) << "the refusal left it as it was";
}

TEST_F(MultiplexTest, ClosingWakesWhoWaitsForAStreamToBeOpenedAgain) {
  const std::string fifo = MakeFifo("ends.tfrecord");
  OpenOptions options = Options();
  options.reopen_limit = 100;
  Reader reader = OpenFiles({fifo}, options);
  std::jthread writer([&] {
    const int descriptor = open(fifo.c_str(), O_WRONLY);
    WriteAll(descriptor, Records(0, 3).bytes);
    close(descriptor);
  });
  EXPECT_EQ(Drain(reader, 3).ids, Numbers(3));
  std::jthread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    reader.Close();
  });
  Instance instance;
  EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kCancelled);
}

/// Sends one record of each of its generations; after them it waits for the next one until it is
/// stopped.
class Generations final : public StreamSource {
 public:
  explicit Generations(std::vector<std::vector<std::byte>> sent) : sent_(std::move(sent)) {}
  std::string name() const override { return "generations.tfrecord"; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read, std::stop_token) override {
    const std::span<const std::byte> left = std::span(sent_[at_]).subspan(read_);
    *bytes_read = std::min(buffer.size(), left.size());
    std::copy_n(left.data(), *bytes_read, buffer.data());
    read_ += *bytes_read;
    return {};
  }
  Status Reopen(std::stop_token stop) override {
    if (at_ + 1 < sent_.size()) {
      ++at_;
      read_ = 0;
      return {};
    }
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait(lock, stop, [] { return false; });
    return Status(StatusCode::kCancelled, "stopped");
  }

 private:
  const std::vector<std::vector<std::byte>> sent_;
  std::size_t at_ = 0;
  std::size_t read_ = 0;
};

TEST_F(MultiplexTest, AStreamIsOpenedAgainUntilNothingComesForAWhile) {
  OpenOptions options = Options();
  options.reopen_until = 2;  // longer than a busy machine holds a thread up
  // One of the writers sends nothing, and two leave their last record torn.
  std::vector<std::vector<std::byte>> sent;
  for (const std::uint64_t first : {0U, 3U, 6U}) sent.push_back(Records(first, 3).bytes);
  sent.insert(sent.begin() + 1, std::vector<std::byte>());
  sent[0] = WithoutItsEnd(sent[0]);
  Reader reader = OpenStreamSource(std::make_unique<Generations>(sent), options);
  EXPECT_EQ(Drain(reader).ids, (std::vector<std::uint64_t>{0, 1, 3, 4, 5, 6, 7, 8}));
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(reader.Stats().reopened_streams, 3U);
  EXPECT_EQ(reader.Stats().damage.size(), 1U);
}

TEST_F(MultiplexTest, AFifoThatNobodyWritesToAgainEnds) {
  const std::string fifo = MakeFifo("once.tfrecord");
  OpenOptions options = Options();
  options.reopen_until = 1;
  Reader reader = OpenFiles({fifo}, options);
  std::jthread writer([&] { WriteFifo(fifo, Records(0, 3).bytes); });
  EXPECT_EQ(Drain(reader).ids, Numbers(3));
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
}

TEST_F(MultiplexTest, UntilCloseWritersMayComeAtAnyTime) {
  const std::string fifo = MakeFifo("online.tfrecord");
  OpenOptions options = Options();
  options.reopen_until = OpenOptions::kUntilClose;
  Reader reader = OpenFiles({fifo}, options);
  for (std::uint64_t start = 0; start < 4; ++start) {
    std::jthread writer([&] { WriteFifo(fifo, Records(start * 5, 5).bytes); });
    EXPECT_EQ(Drain(reader, 5).ids.size(), 5U);
  }
  std::jthread closer([&] { reader.Close(); });
  Instance instance;
  EXPECT_EQ(reader.TryReadNext(&instance), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kCancelled);
}

TEST_F(MultiplexTest, HowLongAStreamIsOpenedAgainIsRefusedWhereItCannotBe) {
  OpenOptions options = Options();
  options.reopen_until = 1;
  EXPECT_THROW(OpenFiles(MakeFiles(1, 2, 8, 8), options), Error);
  EXPECT_THROW(OpenFiles({"-"}, options), Error);
  options.reopen_limit = 1;
  EXPECT_THROW(OpenFiles({MakeFifo("both.tfrecord")}, options), Error);
  options.reopen_limit = 0;
  for (const double seconds : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    options.reopen_until = seconds;
    EXPECT_THROW(OpenFiles({MakeFifo("odd.tfrecord")}, options), Error);
    unlink(directory_.File("odd.tfrecord").c_str());
  }
}

TEST_F(MultiplexTest, WhatIsNoStreamIsRefused) {
  const std::vector<std::string> files = MakeFiles(1, 3, 8, 9);
  EXPECT_THROW(Multiplex({}, Options()), Error);
  EXPECT_THROW(Multiplex({OpenFiles(files, Options())}, Options()), Error);
  const std::string fifo = MakeFifo("one.tfrecord");
  Reader stream = OpenFiles({fifo}, Options());
  Reader all = Multiplex({stream}, Options());
  EXPECT_THROW(Batches(stream, 3), Error);
  EXPECT_THROW((void)stream.HasNext(), Error);
  OpenOptions many = Options();
  EXPECT_THROW(MultiPass(all, 2).ReadNext(), Error);
}

TEST_F(MultiplexTest, BatchesSayFromWhichStreamTheirRecordsAre) {
  OpenOptions options = Options();
  options.note_records = true;
  std::vector<Reader> streams;
  std::vector<std::jthread> writers;
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1000}}) {
    const std::string fifo = MakeFifo(std::to_string(first) + ".tfrecord");
    streams.push_back(OpenFiles({fifo}, options));
    writers.emplace_back([fifo, first] { WriteFifo(fifo, Records(first, 100).bytes); });
  }
  Reader reader = Multiplex(streams, options);
  std::array<std::uint64_t, 2> next{};
  Instance record;
  BatchOrigin origin;
  while (reader.TryReadNext(&record, {.origin = &origin}) == ReadResult::kRecord) {
    ASSERT_EQ(origin.records.size(), 1U);
    const RecordRange at = origin.records[0];
    ASSERT_LT(at.file, next.size());
    EXPECT_EQ(at.first, next[at.file]++);
    EXPECT_EQ(IdOfPayload({record[0].data, record[0].bytes}), at.file * 1000 + at.first);
  }
  EXPECT_EQ(reader.status().ToString(), Status().ToString());
  EXPECT_EQ(next, (std::array<std::uint64_t, 2>{100, 100}));
}

}  // namespace
}  // namespace ringfeed
