#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "io/read_engine.h"
#include "io/read_progress.h"
#include "readers/chain/reader_access.h"
#include "readers/engine/run.h"
#include "ringfeed/formats.h"
#include "ringfeed/tensor.h"
#include "tests/readers/formats/tar_file.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"

namespace ringfeed {
namespace {

/// Records that come from elsewhere than files: stores, streams and readers of the user's own.
class SourceTest : public PipelineTest {
 protected:
  OpenOptions InFileOrder(OnDamage on_damage = OnDamage::kFail) const {
    OpenOptions options = Options();
    options.cycle = 1;
    options.on_damage = on_damage;
    return options;
  }
};

/// A store that fails from some place on, by a status or by throwing.
class FailingSource final : public MemorySource {
 public:
  enum class How : std::uint8_t { kStatus, kException, kOddException, kShort };
  FailingSource(std::vector<std::byte> bytes, std::uint64_t from, How how)
      : MemorySource("store.tfrecord", std::move(bytes)), from_(from), how_(how) {}

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    if (offset + buffer.size() <= from_) return MemorySource::ReadAt(offset, buffer, bytes_read);
    if (how_ == How::kException) throw std::runtime_error("the store is closed on Sundays");
    if (how_ == How::kOddException) throw 42;
    if (how_ == How::kStatus) return Status(StatusCode::kIoError, "the store burns");
    if (offset >= from_) {
      *bytes_read = 0;
      return {};
    }
    return MemorySource::ReadAt(offset, buffer.first(static_cast<std::size_t>(from_ - offset)),
                                bytes_read);
  }

 private:
  const std::uint64_t from_;
  const How how_;
};

TEST_F(SourceTest, StoresOfTheUsersOwnAreReadLikeFiles) {
  std::vector<std::shared_ptr<Source>> sources;
  std::vector<std::string> files;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto sizes = RandomSizes(i, 300, 8, 3000);
    files.push_back(directory_.File(std::to_string(i) + ".tfrecord"));
    WriteTfRecords(files.back(), 1000 * i, sizes);
    sources.push_back(
        std::make_shared<MemorySource>(files.back(), MakeTfRecords(1000 * i, sizes).bytes));
  }
  for (const std::size_t passes : {1u, 2u}) {
    const auto chain = [&](Reader reader) {
      return Batches(MultiPass(Shuffle(std::move(reader), {.window = 99}), passes), 33);
    };
    const Drained found = Drain(chain(OpenSources(sources, Options())));
    EXPECT_TRUE(found == Drain(chain(OpenFiles(files, Options()))));
    EXPECT_EQ(found.ids.size(), 1500 * passes);
  }
}

TEST_F(SourceTest, AStoreThatFailsOrThrowsFailsTheStreamBehindWhatCameBefore) {
  const TfRecordImage image = MakeTfRecords(0, RandomSizes(1, 2000, 100, 100));
  using How = FailingSource::How;
  for (const How how : {How::kStatus, How::kException, How::kOddException, How::kShort}) {
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      const std::vector<std::shared_ptr<Source>> sources{
          std::make_shared<FailingSource>(image.bytes, 150'000, how),
          std::make_shared<MemorySource>("b.tfrecord",
                                         MakeTfRecords(5000, RandomSizes(1, 10, 8, 9)).bytes)};
      Reader reader = Batches(OpenSources(sources, InFileOrder(policy)), 10);
      Drained found = Drain(reader);
      if (policy == OnDamage::kFail) {
        EXPECT_EQ(found.end, ReadResult::kFailed);
        EXPECT_EQ(found.status.place().file, "store.tfrecord");
      } else {
        EXPECT_EQ(found.end, ReadResult::kEnd);
        ASSERT_GE(found.ids.size(), 10u);
        EXPECT_EQ(found.ids.back(), 5009u);
        found.ids.resize(found.ids.size() - 10);
        EXPECT_GE(reader.Stats().damaged_records, 1u);
      }
      EXPECT_EQ(found.ids, Numbers(found.ids.size()));
      EXPECT_GE(found.ids.size(), 131'072u / 116) << "the blocks before were good";
    }
  }
}

/// A store of which so many reads behind some place do not return before they are released.
class HangingSource final : public MemorySource {
 public:
  struct Gate {
    std::atomic<int> hangs{0};
    std::atomic<int> held{0};
    std::atomic<bool> released{false};
  };
  HangingSource(std::vector<std::byte> bytes, std::uint64_t from, std::shared_ptr<Gate> gate)
      : MemorySource("store.tfrecord", std::move(bytes)), from_(from), gate_(std::move(gate)) {}
  ~HangingSource() override { --gate_->held; }

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    if (offset + buffer.size() > from_ && gate_->hangs.fetch_sub(1) > 0) {
      while (!gate_->released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // Too late: nobody may see these.
      std::ranges::fill(buffer, std::byte{0xEE});
      *bytes_read = buffer.size();
      return {};
    }
    return MemorySource::ReadAt(offset, buffer, bytes_read);
  }

 private:
  const std::uint64_t from_;
  const std::shared_ptr<Gate> gate_;
};

TEST_F(SourceTest, AReadOfAStoreThatHangsIsGivenUpAndTriedAgain) {
  const TfRecordImage image = MakeTfRecords(0, RandomSizes(1, 2000, 100, 100));
  constexpr int kAll = 1 << 30;
  for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
    for (const int hangs : {1, kAll}) {
      const auto gate = std::make_shared<HangingSource::Gate>();
      gate->hangs = hangs;
      gate->held = 1;
      OpenOptions options = InFileOrder(policy);
      options.io.retries = 2;
      options.io.read_timeout_ms = hangs == kAll ? 50 : 1000;
      Reader reader = Batches(
          OpenSources({std::make_shared<HangingSource>(image.bytes, 150'000, gate),
                       std::make_shared<MemorySource>(
                           "b.tfrecord", MakeTfRecords(2000, RandomSizes(1, 10, 8, 9)).bytes)},
                      options),
          10);
      Drained found = Drain(reader);
      const PipelineStats stats = reader.Stats();
      if (hangs != kAll) {
        EXPECT_EQ(found.ids, Numbers(2010));
        EXPECT_EQ(stats.given_up_reads, 1u);
      } else if (policy == OnDamage::kFail) {
        EXPECT_EQ(found.status.code(), StatusCode::kIoError);
        EXPECT_EQ(found.status.place().file, "store.tfrecord");
        EXPECT_NE(found.status.message().find("did not return within 50 ms"), std::string::npos);
        EXPECT_EQ(found.ids, Numbers(found.ids.size()));
        EXPECT_GE(stats.given_up_reads, 3u);
      } else {
        EXPECT_EQ(found.end, ReadResult::kEnd);
        EXPECT_EQ(found.ids.back(), 2009u);
        EXPECT_GE(stats.damaged_records, 1u);
      }
      reader.Close();
      reader = {};
      // Threads that were given up hold the store until it answers.
      EXPECT_EQ(gate->held, 1);
      gate->released = true;
      while (gate->held > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

TEST_F(SourceTest, ATimeoutOfReadsIsForStoresAlone) {
  const auto files = MakeFiles(1, 10, 8, 9);
  OpenOptions options = Options();
  options.io.read_timeout_ms = 100;
  EXPECT_THROW(OpenFiles(files, options), Error);
  options.io.read_timeout_ms = -1;
  EXPECT_THROW(OpenSources({std::make_shared<MemorySource>("a.tfrecord", std::vector<std::byte>())},
                           options),
               Error);
}

TEST_F(SourceTest, ASampleOfManyLongMembersIsNotReadAgainForEach) {
  constexpr std::size_t kMembers = 12;
  constexpr std::size_t kMemberBytes = 300'000;
  std::string tar;
  for (std::size_t sample = 0; sample < 6; ++sample) {
    for (std::size_t member = 0; member < kMembers; ++member) {
      const auto fill = static_cast<char>('a' + (sample * kMembers + member) % 26);
      tar += TarFile("s" + std::to_string(sample) + ".m" + std::to_string(member),
                     std::string(kMemberBytes, fill));
    }
  }
  tar += TarEnd();
  const std::string path = directory_.File("many.tar");
  WriteBytes(path, std::as_bytes(std::span(tar)));
  if (!ProbeUring().available) GTEST_SKIP() << ProbeUring().reason;
  for (const std::size_t stripe_bytes : {std::size_t{1} << 18, std::size_t{1} << 20}) {
    OpenOptions options = InFileOrder();
    options.stripe_bytes = stripe_bytes;
    options.io = IoOptions{};
    options.io.path = IoPath::kUring;
    Reader reader =
        Batch(Parse(OpenFiles({path}, options),
                    TarParser({{"m0", DType::kUInt8, {-1}}, {"m11", DType::kUInt8, {-1}}})),
              {.size = 1});
    std::atomic<std::uint64_t> read{0};
    RunOptions run_options;
    run_options.engines.uring = [&](const IoOptions& io, std::byte*, std::size_t,
                                    std::unique_ptr<ReadEngine>* engine) {
      const auto serve = [&](ReadRequest* request, int retries, ReadEngineStats* stats) {
        ReadRequestBlocking(request, retries, stats);
        read.fetch_add(request->got, std::memory_order_relaxed);
      };
      *engine = MakePoolEngine(io, serve);
      return Status();
    };
    ReaderAccess::NodeOf(reader)->Session()->set_run_options(run_options);
    Instance row;
    for (std::size_t sample = 0; sample < 6; ++sample) {
      ASSERT_EQ(reader.TryReadNext(&row), ReadResult::kRecord) << reader.status().ToString();
      const std::span<const std::uint8_t> last = row[1].Values<std::uint8_t>();
      ASSERT_EQ(last.size(), kMemberBytes);
      const auto fill = static_cast<std::uint8_t>('a' + (sample * kMembers + 11) % 26);
      EXPECT_TRUE(std::all_of(last.begin(), last.end(), [=](auto byte) { return byte == fill; }));
    }
    EXPECT_EQ(reader.TryReadNext(&row), ReadResult::kEnd);
    // What stands behind a sample in the stripe that it ends in is read again.
    EXPECT_LE(read, tar.size() + tar.size() / 3) << tar.size();
    EXPECT_NEAR(static_cast<double>(reader.Stats().read_bytes) / static_cast<double>(read), 1,
                0.02);
  }
}

/// A stream that gives its bytes in pieces of a size and remembers how far it was read.
class PieceStream final : public StreamSource {
 public:
  PieceStream(std::vector<std::byte> bytes, std::size_t piece, std::string name = "pieces.tfrecord")
      : bytes_(std::move(bytes)), piece_(piece), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  Status Read(std::span<std::byte> buffer, std::size_t* bytes_read,
              std::stop_token /*stop*/) override {
    const std::size_t count = std::min({buffer.size(), piece_, bytes_.size() - at_});
    if (count > 0) std::memcpy(buffer.data(), bytes_.data() + at_, count);
    at_ += count;
    *bytes_read = count;
    return {};
  }

 private:
  const std::vector<std::byte> bytes_;
  const std::size_t piece_;
  const std::string name_;
  std::size_t at_ = 0;
};

class ThrowingStream final : public StreamSource {
 public:
  std::string name() const override { return "throws.tfrecord"; }
  Status Read(std::span<std::byte>, std::size_t*, std::stop_token) override {
    throw std::runtime_error("no stream today");
  }
};

TEST_F(SourceTest, StreamsInPiecesOfAnySizeDeliverEverythingInOrder) {
  const TfRecordImage image = MakeTfRecords(0, RandomSizes(4, 400, 8, 900));
  for (const std::size_t piece : {1u, 7u, 1000u, 1000000u}) {
    Reader reader =
        Batches(OpenStreamSource(std::make_unique<PieceStream>(image.bytes, piece), Options()), 32);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.ids, Numbers(400)) << found.status.ToString();
    EXPECT_EQ(found.end, ReadResult::kEnd);
  }
}

TEST_F(SourceTest, ADamagedStreamFailsOrSkipsLikeAFile) {
  TfRecordImage image = MakeTfRecords(0, RandomSizes(4, 400, 8, 900));
  image.bytes[image.offsets[100] + 20] ^= std::byte{1};
  image.bytes[image.offsets[200] + 1] ^= std::byte{1};
  for (const std::size_t piece : {50u, 100000u}) {
    const auto open = [&](OnDamage policy) {
      return Batches(
          OpenStreamSource(std::make_unique<PieceStream>(image.bytes, piece), InFileOrder(policy)),
          16);
    };
    EXPECT_EQ(Drain(open(OnDamage::kFail)).ids, Numbers(100));
    Reader reader = open(OnDamage::kSkip);
    std::vector<std::uint64_t> wanted = Numbers(400);
    std::erase(wanted, 100u);
    std::erase(wanted, 200u);
    EXPECT_EQ(Drain(reader).ids, wanted);
    EXPECT_EQ(reader.Stats().damaged_records, 2u);
  }
}

TEST_F(SourceTest, AStreamThatEndsInARecordIsTruncated) {
  TfRecordImage image = MakeTfRecords(0, RandomSizes(4, 50, 8, 900));
  image.bytes.resize(image.bytes.size() - 3);
  const Drained found =
      Drain(OpenStreamSource(std::make_unique<PieceStream>(image.bytes, 500), Options()));
  EXPECT_EQ(found.ids, Numbers(49));
  EXPECT_EQ(found.status.code(), StatusCode::kTruncated);
}

/// What reading gives: the records one after another, how it ended, and what was passed over.
struct Outcome {
  std::string records;
  StatusCode code = StatusCode::kOk;
  std::uint64_t damaged = 0;
  std::vector<std::string> ranges{};
};

Outcome OutcomeOf(Reader reader) {
  Outcome outcome;
  RecordBlock block;
  ReadResult result = ReadResult::kRecord;
  while ((result = reader.TryReadBlock(&block)) == ReadResult::kRecord) {
    for (const RecordSpan& record : block.records()) {
      if (record.damaged()) continue;
      outcome.records.append(reinterpret_cast<const char*>(record.data), record.size);
      outcome.records += '|';
    }
  }
  outcome.code = reader.status().code();
  outcome.damaged = reader.Stats().damaged_records;
  for (const DamagedRange& range : reader.Stats().damage) {
    outcome.ranges.push_back(std::to_string(range.begin) + "-" + std::to_string(range.end));
  }
  return outcome;
}

// A framer that took every byte may be in the middle of a record, too.
TEST_F(SourceTest, AStreamEndsAsAFileDoesWhereEveryByteWasTaken) {
  const std::string cut_member = [] {
    std::string bytes = TarFile("README", std::string(300'000, 'r'));
    return bytes.substr(0, 200'000);
  }();
  const std::pair<std::string, std::string> cases[] = {
      {"lines", "short\n" + std::string(3000, 'a')},
      {"lines", "short\n" + std::string(3000, 'a') + "\n"},
      {"csv", "a,b\n\"" + std::string(3000, 'a')},
      {"tar", cut_member},
      {"tar", TarFile("a.txt", "a") + cut_member},
      {"tfrecord", std::string(3000, 'a')},
      {"recordio", std::string(3000, 'a')},
      {"rows:7,header=100", "less than a header"},
      {"rows:7,header=100,stride=50", std::string(107, 'a')},
      {"npy", "less"},
      {"raw", ""},
      {"lines", ""},
      {"rows:7,header=100", ""}};
  const std::string path = directory_.File("file");
  for (const auto& [format, text] : cases) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    WriteBytes(path, bytes);
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      OpenOptions options = InFileOrder(policy);
      options.format = format;
      options.max_record_bytes = 1000;
      const Outcome wanted = OutcomeOf(OpenFiles({path}, options));
      for (const std::size_t piece : {512U, 1000U, 6U, 1'000'000U}) {
        SCOPED_TRACE(format + " of " + std::to_string(text.size()) + " bytes in pieces of " +
                     std::to_string(piece));
        const Outcome found = OutcomeOf(OpenStreamSource(
            std::make_unique<PieceStream>(std::vector(bytes.begin(), bytes.end()), piece),
            options));
        EXPECT_EQ(found.records, wanted.records);
        EXPECT_EQ(found.code, wanted.code);
        EXPECT_EQ(found.damaged, wanted.damaged);
        EXPECT_EQ(found.ranges, wanted.ranges);
      }
    }
  }
}

// However little comes at first.
TEST_F(SourceTest, AStreamsBytesTellItsFormatBeforeItsNameDoes) {
  const std::string text = "{\"a\": 1}\n{\"b\": 2}\n";
  const std::span<const std::byte> lines = std::as_bytes(std::span(text));
  const std::vector<std::byte> records = MakeTfRecords(0, RandomSizes(4, 5, 8, 90)).bytes;
  const std::string table = "X\tcount\n1\t2\n";
  const auto table_bytes = std::as_bytes(std::span(table));
  using Kind = CompressedForm::Kind;
  struct Case {
    std::string name;
    std::string format;
    std::vector<std::byte> bytes;
    std::size_t records = 0;
  };
  const Case cases[] = {{"f.jsonl.gz", "", Compress(lines, {.kind = Kind::kGzip}), 2},
                        {"f.jsonl", "", Compress(lines, {.kind = Kind::kZlib}), 2},
                        {"f.jsonl", "", Compress(lines, {.kind = Kind::kZstd}), 2},
                        {"f.jsonl", "lines", Compress(lines, {.kind = Kind::kZlib}), 2},
                        {"f.jsonl.zlib", "lines+zlib", Compress(lines, {.kind = Kind::kZlib}), 2},
                        {"f.txt", "", records, 5},
                        {"f.txt.gz", "", Compress(records, {.kind = Kind::kGzip}), 5},
                        {"f.tsv", "", {table_bytes.begin(), table_bytes.end()}, 2},
                        {"f.jsonl", "", {lines.begin(), lines.end()}, 2},
                        {"f.tsv", "tsv:header", {table_bytes.begin(), table_bytes.end()}, 1}};
  for (const Case& one : cases) {
    for (const std::size_t piece : {1U, 3U, 4U, 9U, 5000U}) {
      SCOPED_TRACE(one.name + " " + one.format + " in pieces of " + std::to_string(piece));
      OpenOptions options = InFileOrder();
      options.format = one.format;
      const Outcome found = OutcomeOf(
          OpenStreamSource(std::make_unique<PieceStream>(one.bytes, piece, one.name), options));
      EXPECT_EQ(found.code, StatusCode::kOk);
      EXPECT_EQ(std::count(found.records.begin(), found.records.end(), '|'),
                static_cast<std::ptrdiff_t>(one.records))
          << found.records;
    }
  }
}

// Whoever writes may wait for an answer: a head that is full would come too late.
TEST_F(SourceTest, LinesOfALiveStreamComeAtOnceThoughItsNameAloneTellsThem) {
  const std::string path = directory_.File("live.csv");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int kept = open(path.c_str(), O_RDWR);
  ASSERT_GE(kept, 0);
  Reader reader = Batches(OpenFiles({path}, Options()), 1);
  for (int i = 0; i < 3; ++i) {
    const std::string line = "1,2,3,word\n";
    ASSERT_EQ(write(kept, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    EXPECT_EQ(reader.ReadNext().Rows(), 1U);
  }
  close(kept);
}

// A writer that flushes wants what it wrote to be read: 4 KiB of it may take hours to come.
TEST_F(SourceTest, EachLineOfALiveStreamOfZlibComesAsItsWriterFlushesIt) {
  const std::string line = "{\"a\": 123456}\n";
  const std::string two = line + line;
  const std::vector<std::byte> compressed =
      Compress(std::as_bytes(std::span(two)),
               {.kind = CompressedForm::Kind::kZlib, .flush_every = line.size()});
  constexpr std::array<std::byte, 4> kFlush = {std::byte{0}, std::byte{0}, std::byte{0xff},
                                               std::byte{0xff}};
  const auto flush =
      std::search(compressed.begin(), compressed.end(), kFlush.begin(), kFlush.end());
  ASSERT_NE(flush, compressed.end());
  const auto flushed = static_cast<std::size_t>(flush - compressed.begin()) + kFlush.size();
  for (const auto& [name, format] :
       {std::pair("live", ""), {"live.jsonl", ""}, {"live", "lines"}}) {
    SCOPED_TRACE(std::string(name) + " " + format);
    const std::string path = directory_.File(name);
    unlink(path.c_str());
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const int kept = open(path.c_str(), O_RDWR);
    ASSERT_GE(kept, 0);
    OpenOptions options = Options();
    options.format = format;
    Reader reader = Batches(OpenFiles({path}, options), 1);
    ASSERT_EQ(write(kept, compressed.data(), flushed), static_cast<ssize_t>(flushed));
    Instance row;
    EXPECT_EQ(reader.TryReadNext(&row, {.deadline = DeadlineAfter(std::chrono::seconds(2))}),
              ReadResult::kRecord);
    reader.Close();
    close(kept);
  }
}

// Its first byte begins no compressed stream.
TEST_F(SourceTest, AShortFirstLineOfALiveStreamWhoseFormatIsNamedComesAtOnce) {
  for (const std::string line : {"1\n", "\n", "ab\n", "x\n", "(\n"}) {
    SCOPED_TRACE(line);
    const std::string path = directory_.File("live");
    unlink(path.c_str());
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const int kept = open(path.c_str(), O_RDWR);
    ASSERT_GE(kept, 0);
    OpenOptions options = Options();
    options.format = "lines";
    Reader reader = Batches(OpenFiles({path}, options), 1);
    ASSERT_EQ(write(kept, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    Instance row;
    EXPECT_EQ(reader.TryReadNext(&row, {.deadline = DeadlineAfter(std::chrono::seconds(2))}),
              ReadResult::kRecord);
    reader.Close();
    close(kept);
  }
}

TEST_F(SourceTest, AStreamThatThrowsFailsTheReader) {
  const Drained found =
      Drain(Batches(OpenStreamSource(std::make_unique<ThrowingStream>(), Options()), 4));
  EXPECT_EQ(found.status.code(), StatusCode::kUserError);
}

TEST_F(SourceTest, AHugeLengthOnAStreamTakesNoMemoryBeforeItsBytesCome) {
  std::vector<std::byte> bytes = MakeTfRecords(0, RandomSizes(4, 5, 8, 90)).bytes;
  AppendTfRecordHeader(std::uint64_t{1} << 29, &bytes);
  const Drained found =
      Drain(OpenStreamSource(std::make_unique<PieceStream>(bytes, 500), Options()));
  EXPECT_EQ(found.ids, Numbers(5));
  EXPECT_EQ(found.status.code(), StatusCode::kTruncated);
}

TEST_F(SourceTest, APipePublishesCompleteRecordsAtOnce) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  OpenOptions options = Options();
  options.format = "tfrecord";
  Reader reader = OpenStreamSource(OpenDescriptor(ends[0], "pipe", true), options);
  for (std::uint64_t id = 0; id < 20; ++id) {
    // Each record is awaited before the next is written: held back, it would hang.
    const TfRecordImage image = MakeTfRecords(id, std::vector<std::size_t>{50 + id});
    ASSERT_EQ(write(ends[1], image.bytes.data(), image.bytes.size()),
              static_cast<ssize_t>(image.bytes.size()));
    Drained drained;
    AddInstance(reader.ReadNext(), &drained);
    EXPECT_EQ(drained.ids, std::vector<std::uint64_t>{id});
  }
  close(ends[1]);
  EXPECT_FALSE(reader.HasNext());
}

TEST_F(SourceTest, AFifoIsReadFromItsWriterOn) {
  const std::string path = directory_.File("fifo.tfrecord");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const TfRecordImage image = MakeTfRecords(0, RandomSizes(4, 300, 8, 900));
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    WriteBytes(path, image.bytes);
  });
  const Drained found = Drain(Batches(OpenFiles({path}, Options()), 7));
  writer.join();
  EXPECT_EQ(found.ids, Numbers(300)) << found.status.ToString();
}

int ListenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  return listener;
}

/// Sends `bytes` to the first who connects; then neither peer nor listener are there any more.
void SendOnce(int listener, const std::string& path, std::span<const std::byte> bytes) {
  const int peer = accept(listener, nullptr, nullptr);
  close(listener);
  unlink(path.c_str());
  while (!bytes.empty()) {
    const ssize_t sent = send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;  // the reader is gone
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  close(peer);
}

TEST_F(SourceTest, RecordIoComesThroughASocket) {
  const std::string path = directory_.File("socket");
  const std::vector<std::byte> bytes = MakeChunksOfTen(directory_.File("made"), 0, 500);
  std::jthread sender([&, listener = ListenAt(path)] { SendOnce(listener, path, bytes); });
  OpenOptions options = Options();
  options.format = "recordio";
  const Drained found = Drain(Batches(OpenFiles({"unix:" + path}, options), 7));
  EXPECT_EQ(found.ids, Numbers(500)) << found.status.ToString();
  EXPECT_EQ(found.end, ReadResult::kEnd);
}

TEST_F(SourceTest, ASocketsPeerMayGoInAChunkAndComeAgain) {
  const std::string path = directory_.File("socket");
  std::vector<std::byte> first = MakeChunksOfTen(directory_.File("made"), 0, 100);
  first.resize(first.size() - 5);
  const std::vector<std::byte> second = MakeChunksOfTen(directory_.File("made"), 90, 300);
  std::jthread peers([&, listener = ListenAt(path)] {
    SendOnce(listener, path, first);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // nobody listens
    SendOnce(ListenAt(path), path, second);
  });
  OpenOptions options = Options();
  options.format = "recordio";
  options.reopen_limit = 1;
  Reader reader = Batches(OpenFiles({"unix:" + path}, options), 7);
  const Drained found = Drain(reader);
  EXPECT_EQ(found.ids, Numbers(390)) << found.status.ToString();
  EXPECT_EQ(found.end, ReadResult::kEnd);
  EXPECT_EQ(reader.Stats().reopened_streams, 1U);
  EXPECT_EQ(reader.Stats().damage.size(), 1U);
}

TEST_F(SourceTest, AStreamComesOnceAndSaysSoBeforeAnythingIsLost) {
  const TfRecordImage image = MakeTfRecords(0, RandomSizes(4, 30, 8, 90));
  const auto open = [&] {
    return OpenStreamSource(std::make_unique<PieceStream>(image.bytes, 100), Options());
  };
  EXPECT_THROW(Drain(MultiPass(open(), 2)), Error);
  Reader reader = Batches(open(), 10);
  (void)Drain(reader, 1);
  EXPECT_THROW(reader.ReInit(), Error);
  EXPECT_EQ(Drain(reader).ids.size(), 20u);
}

/// Numbers as instances: a fixed field and a ragged one.
class CountingReader final : public InstanceSource {
 public:
  struct Plan {
    std::int64_t count = 100;
    std::int64_t fails_at = -1;
    std::int64_t throws_at = -1;
    std::int64_t levels_at = -1;
    bool rewinds = true;
  };
  explicit CountingReader(const Plan& plan) : plan_(plan) {}

  static std::vector<FieldSpec> Fields() { return {{"id", kInt64, {1}}, {"copies", kInt64, {-1}}}; }
  ReadResult ReadNext(Instance* instance, std::stop_token /*stop*/, Status* status) override {
    if (next_ == plan_.throws_at) throw std::runtime_error("bad number");
    if (next_ == plan_.fails_at) {
      *status = Status(StatusCode::kIoError, "out of numbers");
      return ReadResult::kFailed;
    }
    if (next_ == plan_.count) return ReadResult::kEnd;
    instance->push_back(Repeat(1, {1}));
    instance->push_back(Repeat(next_ % 4, {next_ % 4}));
    if (next_ == plan_.levels_at) instance->back().lod = {levels_, levels_};
    ++next_;
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    if (plan_.rewinds) next_ = 0;
    return plan_.rewinds;
  }

 private:
  Tensor Repeat(std::int64_t count, Shape shape) const {
    return MakeTensor(std::move(shape),
                      std::vector<std::int64_t>(static_cast<std::size_t>(count), next_));
  }
  const Plan plan_;
  std::int64_t next_ = 0;
  std::vector<std::int64_t> levels_ = {0, 1};
};

class InstanceSourceTest : public SourceTest {
 protected:
  Reader Count(const CountingReader::Plan& plan) const {
    return FromInstanceSource(std::make_unique<CountingReader>(plan), CountingReader::Fields(),
                              Options());
  }
  /// The numbers of a batched chain, checking the ragged field beside each.
  static std::vector<std::int64_t> Ids(Reader reader, Status* status = nullptr) {
    std::vector<std::int64_t> ids;
    Instance batch;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
      const auto values = batch[0].Values<std::int64_t>();
      const auto copies = batch[1].Values<std::int64_t>();
      const auto offsets = batch[1].lod[0];
      for (std::size_t row = 0; row < values.size(); ++row) {
        EXPECT_EQ(offsets[row + 1] - offsets[row], values[row] % 4);
        for (auto at = offsets[row]; at < offsets[row + 1]; ++at) {
          EXPECT_EQ(copies[static_cast<std::size_t>(at)], values[row]);
        }
        ids.push_back(values[row]);
      }
    }
    if (status != nullptr) *status = reader.status();
    return ids;
  }
  static std::vector<std::int64_t> Range(std::int64_t count, int passes = 1) {
    std::vector<std::int64_t> ids;
    for (int pass = 0; pass < passes; ++pass) {
      for (std::int64_t id = 0; id < count; ++id) ids.push_back(id);
    }
    return ids;
  }
};

TEST_F(InstanceSourceTest, ItsInstancesAreBatchedShuffledAndRepeated) {
  EXPECT_EQ(Ids(Batch(Count({.count = 1000}), {.size = 64})), Range(1000));
  EXPECT_EQ(Ids(Batch(MultiPass(Count({.count = 130}), 3), {.size = 50})), Range(130, 3));
  auto shuffled = Ids(Batch(Shuffle(Count({.count = 1000}), {.window = 100}), {.size = 64}));
  EXPECT_NE(shuffled, Range(1000));
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, Range(1000));
}

TEST_F(InstanceSourceTest, WhatItThrowsOrReportsFailsTheStreamBehindItsRows) {
  Status status;
  EXPECT_EQ(Ids(Batch(Count({.throws_at = 70}), {.size = 16}), &status), Range(70));
  EXPECT_EQ(status.code(), StatusCode::kUserError);
  EXPECT_NE(status.message().find("bad number"), std::string::npos);
  EXPECT_EQ(Ids(Batch(Count({.fails_at = 71}), {.size = 16}), &status), Range(71));
  EXPECT_EQ(status.code(), StatusCode::kIoError);
}

TEST_F(InstanceSourceTest, BatchesSayWhichOfItsInstancesTheyHold) {
  OpenOptions options = Options();
  options.note_records = true;
  Reader counted =
      FromInstanceSource(std::make_unique<CountingReader>(CountingReader::Plan{.count = 100}),
                         CountingReader::Fields(), options);
  Reader reader = Batch(MultiPass(counted, 2), {.size = 40});
  std::vector<RecordRange> found;
  Instance batch;
  BatchOrigin origin;
  while (reader.TryReadNext(&batch, {.origin = &origin}) == ReadResult::kRecord) {
    found.insert(found.end(), origin.records.begin(), origin.records.end());
  }
  const std::vector<RecordRange> wanted = {{0, 0, 40}, {0, 40, 40}, {0, 80, 20},
                                           {0, 0, 20}, {0, 20, 40}, {0, 60, 40}};
  EXPECT_EQ(found, wanted);
}

/// Reads another chain, over and over.
class RepeatingReader final : public InstanceSource {
 public:
  explicit RepeatingReader(Reader inner) : inner_(std::move(inner)) {}
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* /*status*/) override {
    while (!stop.stop_requested()) {
      if (inner_.TryReadNext(instance) == ReadResult::kRecord) return ReadResult::kRecord;
      inner_.ReInit();
    }
    return ReadResult::kEnd;
  }
  bool ReInit() override { return true; }

 private:
  Reader inner_;
};

TEST_F(InstanceSourceTest, OneThatStartsAnotherReaderAgainDoesNotHoldItsOwnUp) {
  Reader outer = FromInstanceSource(std::make_unique<RepeatingReader>(Count({.count = 3})),
                                    CountingReader::Fields(), Options());
  for (int round = 0; round < 50; ++round) {
    (void)outer.ReadNext();
    outer.ReInit();
  }
}

TEST_F(InstanceSourceTest, ItStartsAgainWhereItCanAndSaysSoWhereItCannot) {
  Reader reader = Batch(Count({.count = 200}), {.size = 16});
  (void)reader.ReadNext();
  reader.ReInit();
  EXPECT_EQ(Ids(reader), Range(200));
  Reader once = Batch(Count({.count = 200, .rewinds = false}), {.size = 16});
  (void)once.ReadNext();
  EXPECT_THROW(once.ReInit(), Error);
  Instance batch;
  EXPECT_EQ(once.TryReadNext(&batch), ReadResult::kFailed);
  EXPECT_EQ(once.status().code(), StatusCode::kUnsupported);
  Status status;
  Reader twice = MultiPass(Count({.count = 20, .rewinds = false}), 2);
  EXPECT_EQ(Ids(Batch(twice, {.size = 7}), &status), Range(20));
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
}

/// A reader that gives one instance each time that the test asks for it.
class PatientReader final : public InstanceSource {
 public:
  explicit PatientReader(std::atomic<int>* granted) : granted_(granted) {}
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    while (granted_->load() == given_) {
      if (stop.stop_requested()) {
        *status = Status(StatusCode::kCancelled, "stopped");
        return ReadResult::kFailed;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    ++given_;
    instance->push_back(MakeScalar<std::int64_t>(given_));
    return ReadResult::kRecord;
  }

 private:
  std::atomic<int>* const granted_;
  int given_ = 0;
};

TEST_F(InstanceSourceTest, AnInstanceIsDeliveredWithoutWaitingForTheNext) {
  std::atomic<int> granted{0};
  Reader reader = FromInstanceSource(std::make_unique<PatientReader>(&granted),
                                     {{"value", kInt64, {}}}, Options());
  for (int i = 1; i <= 20; ++i) {
    granted.store(i);
    const Instance instance = reader.ReadNext();
    EXPECT_EQ(instance[0].Values<std::int64_t>()[0], i);
  }
}

TEST_F(InstanceSourceTest, AnInstanceUnlikeItsDeclarationIsAFailure) {
  Reader reader = FromInstanceSource(std::make_unique<CountingReader>(CountingReader::Plan{}),
                                     {{"id", kInt64, {2}}, {"copies", kInt64, {-1}}}, Options());
  EXPECT_EQ(Drain(Batch(reader, {.size = 4})).status.code(), StatusCode::kInvalidArgument);
}

TEST_F(InstanceSourceTest, LevelsThatNoFieldHasAreAFailureNotLost) {
  CountingReader::Plan plan;
  plan.levels_at = 5;
  Status status;
  EXPECT_EQ(Ids(Batch(Count(plan), {.size = 4}), &status).size(), 5U);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("levels"), std::string::npos) << status.ToString();
}

}  // namespace
}  // namespace ringfeed
