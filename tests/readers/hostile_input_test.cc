#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/random_fault_hook.h"
#include "tests/support/restrictions.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// Bad input and faults: an error or a counted skip, and nothing lost around it.
class HostileInputTest : public PipelineTest {
 protected:
  OpenOptions InFileOrder(OnDamage on_damage = OnDamage::kFail, IoPath path = IoPath::kAuto) const {
    OpenOptions options = Options();
    options.cycle = 1;
    options.on_damage = on_damage;
    options.io.path = path;
    options.io.block_bytes = 4096;
    return options;
  }
  static std::vector<IoPath> Paths() {
    std::vector<IoPath> paths{IoPath::kAuto, IoPath::kPread, IoPath::kMmap};
    if (ProbeUring().available) paths.push_back(IoPath::kUring);
    return paths;
  }
  StatusCode CodeOf(const std::vector<std::string>& names) const {
    try {
      return Drain(OpenFiles(names, InFileOrder())).status.code();
    } catch (const Error& error) {
      EXPECT_FALSE(error.status().message().empty());
      return error.status().code();
    }
  }
};

TEST_F(HostileInputTest, AnEmptyFileIsNoRecordsUnderEveryPath) {
  const std::vector<std::size_t> none;
  const std::string empty = MakeFile(none);
  for (const IoPath path : Paths()) {
    const Drained found = Drain(Batches(OpenFiles({empty}, InFileOrder(OnDamage::kFail, path)), 4));
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_TRUE(found.ids.empty());
  }
}

TEST_F(HostileInputTest, AFileCutAnywhereDeliversItsWholeRecords) {
  const TfRecordImage image = MakeTfRecords(0, std::vector<std::size_t>{30, 8, 100, 12});
  const std::string path = directory_.File("cut.tfrecord");
  for (std::size_t bytes = 1; bytes < image.bytes.size(); bytes += kSanitized ? 3 : 1) {
    WriteBytes(path, std::span(image.bytes).first(bytes));
    const auto whole = static_cast<std::uint64_t>(
        std::upper_bound(image.offsets.begin(), image.offsets.end(), bytes) -
        image.offsets.begin() - 1);
    const bool clean = image.offsets[whole] == bytes;
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      Reader reader = OpenFiles({path}, InFileOrder(policy));
      const Drained found = Drain(reader);
      ASSERT_EQ(found.ids, Numbers(whole)) << "cut at " << bytes;
      const bool fails = !clean && policy == OnDamage::kFail;
      ASSERT_EQ(found.end, fails ? ReadResult::kFailed : ReadResult::kEnd);
      if (fails) {
        ASSERT_EQ(found.status.code(), StatusCode::kTruncated);
      } else {
        ASSERT_EQ(reader.Stats().damaged_records, clean ? 0u : 1u);
      }
    }
  }
}

TEST_F(HostileInputTest, OneFlippedBitAnywhereIsFoundAndCostsOneRecord) {
  const TfRecordImage image = MakeTfRecords(0, std::vector<std::size_t>{9, 20, 12, 15, 31, 10});
  const std::string path = directory_.File("flip.tfrecord");
  for (std::size_t at = 0; at < image.bytes.size(); at += kSanitized ? 3 : 1) {
    std::vector<std::byte> bytes = image.bytes;
    bytes[at] ^= static_cast<std::byte>(1 << (at % 8));
    WriteBytes(path, bytes);
    const auto record = static_cast<std::uint64_t>(
        std::upper_bound(image.offsets.begin(), image.offsets.end(), at) - image.offsets.begin() -
        1);
    const Drained failed = Drain(Batches(OpenFiles({path}, InFileOrder()), 4));
    ASSERT_EQ(failed.end, ReadResult::kFailed) << "byte " << at;
    ASSERT_EQ(failed.ids, Numbers(record));
    Reader reader = Batches(OpenFiles({path}, InFileOrder(OnDamage::kSkip)), 4);
    const Drained skipped = Drain(reader);
    std::vector<std::uint64_t> wanted = Numbers(6);
    wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(record));
    ASSERT_EQ(skipped.ids, wanted)
        << "byte " << at << " " << reader.Stats().damage.front().reason << " "
        << reader.Stats().damage.front().begin << " " << reader.Stats().damage.front().end;
    ASSERT_EQ(reader.Stats().damaged_records, 1u);
    ASSERT_EQ(reader.Stats().damage.front().begin, image.offsets[record]);
    ASSERT_EQ(reader.Stats().damage.front().end, image.offsets[record + 1]);
  }
}

TEST_F(HostileInputTest, AFlippedBitInLargeFilesCostsOneRecordUnderEveryPath) {
  const std::vector<std::size_t> sizes = RandomSizes(3, 300, 8, 3000);
  const TfRecordImage image = MakeTfRecords(0, sizes);
  const std::string path = directory_.File("large.tfrecord");
  for (std::size_t at = 1; at < image.bytes.size(); at += image.bytes.size() / 23) {
    std::vector<std::byte> bytes = image.bytes;
    bytes[at] ^= std::byte{0x10};
    WriteBytes(path, bytes);
    const auto record = std::upper_bound(image.offsets.begin(), image.offsets.end(), at) -
                        image.offsets.begin() - 1;
    std::vector<std::uint64_t> wanted = Numbers(300);
    wanted.erase(wanted.begin() + record);
    for (const IoPath io : Paths()) {
      OpenOptions options = InFileOrder(OnDamage::kSkip, io);
      options.stripe_bytes = 8192;
      Reader reader = Batches(OpenFiles({path}, options), 50);
      ASSERT_EQ(Drain(reader).ids, wanted) << at << " " << IoPathName(io);
      ASSERT_EQ(reader.Stats().damaged_records, 1u);
    }
  }
}

TEST_F(HostileInputTest, AnAbsurdLengthWithAValidChecksumIsDamageNotMemory) {
  for (const std::uint64_t length : {std::uint64_t{1} << 62, ~std::uint64_t{0},
                                     (std::uint64_t{1} << 62) - 16, std::uint64_t{5} << 30}) {
    std::vector<std::byte> bytes = MakeTfRecords(0, std::vector<std::size_t>{20, 30}).bytes;
    AppendTfRecordHeader(length, &bytes);
    for (std::uint64_t id = 2; id < 5; ++id) AppendTfRecord(RecordPayload(id, 25), &bytes);
    const std::string path = directory_.File("absurd.tfrecord");
    WriteBytes(path, bytes);
    for (const IoPath io : Paths()) {
      const Drained failed = Drain(Batches(OpenFiles({path}, InFileOrder(OnDamage::kFail, io)), 2));
      EXPECT_EQ(failed.end, ReadResult::kFailed);
      EXPECT_EQ(failed.ids, Numbers(2));
      const Drained skipped =
          Drain(Batches(OpenFiles({path}, InFileOrder(OnDamage::kSkip, io)), 2));
      EXPECT_EQ(skipped.end, ReadResult::kEnd) << skipped.status.ToString();
      EXPECT_EQ(skipped.ids, Numbers(5));
    }
  }
}

TEST_F(HostileInputTest, ARecordAboveTheLimitIsAnErrorOrASkip) {
  const std::string path = MakeFile(std::vector<std::size_t>{100, 5000, 100});
  OpenOptions options = InFileOrder();
  options.max_record_bytes = 1000;
  EXPECT_EQ(Drain(OpenFiles({path}, options)).status.code(), StatusCode::kResourceExhausted);
  options.on_damage = OnDamage::kSkip;
  EXPECT_EQ(Drain(OpenFiles({path}, options)).ids, (std::vector<std::uint64_t>{0, 2}));
}

TEST_F(HostileInputTest, ALimitBeyondEveryRecordIsNone) {
  constexpr std::size_t kMost = ~std::size_t{0};
  const std::vector<std::byte> record(100'000, std::byte{'x'});
  for (const std::string format :
       {"tfrecord", "recordio", "lines", "csv", "tar:ext=x", "rows:100000", "megatron:u1"}) {
    const std::string name = format.substr(0, format.find(':'));
    const std::string path = directory_.File("limit." + (name == "megatron" ? "idx" : name));
    RecordWriterResult opened = OpenRecordWriter(path, format);
    ASSERT_TRUE(opened.status.ok()) << format << opened.status.ToString();
    for (int r = 0; r < 20; ++r) ASSERT_TRUE(opened.writer->Write(record).ok());
    ASSERT_TRUE(opened.writer->Close().ok());
    for (const std::size_t most : {std::size_t{1} << 30, kMost, kMost - 65'000, kMost / 2 + 1}) {
      for (const bool shuffled : {false, true}) {
        OpenOptions options = InFileOrder(OnDamage::kSkip);
        options.format = name == "rows" ? format : name;
        options.max_record_bytes = most;
        Reader records = OpenFiles({path}, options);
        if (shuffled) records = Shuffle(records, {.mode = ShuffleMode::kGlobal});
        Reader reader = Batch(Parse(records, RawParser()), {.size = 5});
        std::size_t rows = 0;
        Instance batch;
        while (reader.TryReadNext(&batch) == ReadResult::kRecord)
          rows += batch[0].lod[0].size() - 1;
        EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
        EXPECT_EQ(rows, 20u) << format << most << shuffled;
        EXPECT_EQ(reader.Stats().damaged_records, 0u);
      }
    }
  }
}

// Each names all of the data: a glob that matches both gave every record twice.
TEST_F(HostileInputTest, TheTwoFilesOfOneDataSetAreRefusedInOneList) {
  const std::vector<std::byte> record(100, std::byte{'x'});
  for (const std::string name : {"m.idx", "n.idx"}) {
    RecordWriterResult opened = OpenRecordWriter(directory_.File(name), "megatron:u1");
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    ASSERT_TRUE(opened.writer->Write(record).ok());
    ASSERT_TRUE(opened.writer->Close().ok());
  }
  OpenOptions options = InFileOrder();
  options.format = "megatron";
  const auto rows_of = [&](const std::vector<std::string>& names) {
    Reader reader = Batches(OpenFiles(names, options), 1);
    std::int64_t rows = 0;
    while (reader.HasNext()) rows += reader.ReadNext().Rows();
    return rows;
  };
  const std::string index = directory_.File("m.idx");
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{directory_.File("m.*")},
        {index, directory_.File("m.bin")},
        {directory_.File("n.bin"), directory_.File("*.idx")}}) {
    try {
      OpenFiles(names, options);
      ADD_FAILURE() << names[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
      EXPECT_NE(error.status().message().find(".idx"), std::string::npos);
    }
  }
  EXPECT_THROW(ReadAs(OpenFiles({directory_.File("m.*")}, InFileOrder()), "megatron"), Error);
  EXPECT_EQ(rows_of({index}), 1);
  EXPECT_EQ(rows_of({directory_.File("*.bin")}), 2);
  EXPECT_EQ(rows_of({index, index}), 2) << "whoever names a file twice wants it twice";
}

TEST_F(HostileInputTest, AFileThatIsCutWhileItIsReadFailsOrIsSkippedFromThereOn) {
  for (const IoPath io : Paths()) {
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      const std::string path = directory_.File("shrinks.tfrecord");
      WriteTfRecords(path, 0, std::vector<std::size_t>(4000, 1000));
      const std::string other = directory_.File("after.tfrecord");
      WriteTfRecords(other, 9000, std::vector<std::size_t>(10, 100));
      OpenOptions options = InFileOrder(policy, io);
      options.threads = 1;
      Reader reader =
          Batch(Parse(OpenFiles({path, other}, options), RawParser()), {.size = 10, .slots = 2});
      Drained found = Drain(reader, 3);
      ASSERT_EQ(truncate(path.c_str(), 2'000'000), 0);
      const Drained rest = Drain(reader);
      found.ids.insert(found.ids.end(), rest.ids.begin(), rest.ids.end());
      std::vector<std::uint64_t> wanted = Numbers(found.ids.size());
      if (policy == OnDamage::kSkip) {
        EXPECT_EQ(rest.end, ReadResult::kEnd) << rest.status.ToString();
        EXPECT_GE(reader.Stats().damaged_records, 1u);
        ASSERT_GT(found.ids.size(), 10u);
        for (std::size_t i = 0; i < 10; ++i) wanted[wanted.size() - 10 + i] = 9000 + i;
      } else {
        EXPECT_EQ(rest.end, ReadResult::kFailed) << IoPathName(io);
      }
      // No zeros in place of data, also where pages vanished between the check and the copy.
      EXPECT_EQ(found.strange + rest.strange, 0u) << IoPathName(io);
      if (io != IoPath::kMmap) {
        EXPECT_EQ(found.ids, wanted) << IoPathName(io);
        // 2,000,000 / 1,016 records stand before the cut.
        EXPECT_GE(found.ids.size(), 1968u) << IoPathName(io);
      }
      std::filesystem::remove(path);
    }
  }
}

/// Files of tf.Examples, each of 1,000 numbers that are `first` + the file's number.
class CutWhileMappedTest : public HostileInputTest {
 protected:
  static constexpr std::size_t kValues = 1000;

  std::vector<std::string> MakeExamples(std::size_t files, std::size_t records) const {
    std::vector<std::string> names;
    for (std::size_t f = 0; f < files; ++f) {
      names.push_back(directory_.File("numbers-" + std::to_string(f) + ".tfrecord"));
      RecordWriterResult opened = OpenRecordWriter(names.back(), "tfrecord");
      ExampleBuilder builder;
      builder.AddInts("t", std::vector<std::int64_t>(kValues, 300 + static_cast<int>(f)));
      const auto record = builder.Finish();
      for (std::size_t r = 0; r < records; ++r) EXPECT_TRUE(opened.writer->Write(record).ok());
      EXPECT_TRUE(opened.writer->Close().ok());
    }
    return names;
  }
  /// How many of a batch's rows are none that was written.
  static std::size_t Strange(const Instance& batch, std::size_t files) {
    const auto* values = reinterpret_cast<const std::int64_t*>(batch[0].data);
    const auto ends = batch[0].lod[0];
    std::size_t strange = 0;
    for (std::size_t row = 0; row + 1 < ends.size(); ++row) {
      const std::int64_t first = values[ends[row]];
      bool good = ends[row + 1] - ends[row] == kValues && first >= 300 &&
                  first < 300 + static_cast<std::int64_t>(files);
      for (auto i = ends[row]; good && i < ends[row + 1]; ++i) good = values[i] == first;
      strange += good ? 0 : 1;
    }
    return strange;
  }
};

TEST_F(CutWhileMappedTest, BatchesThatAreHeldKeepTheirValuesAndNoRowHasOthers) {
  for (const bool shuffled : {false, true}) {
    const std::vector<std::string> names = MakeExamples(2, 1500);
    OpenOptions options = InFileOrder(OnDamage::kSkip, IoPath::kMmap);
    options.threads = 1;
    Reader records = OpenFiles(names, options);
    if (shuffled) records = Shuffle(records, {.seed = 1, .mode = ShuffleMode::kGlobal});
    Reader reader =
        Batch(Parse(records, ExampleParser({{"t", kInt64, {-1}}})), {.size = 64, .slots = 6});
    std::vector<Instance> held(2);
    for (Instance& batch : held) ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
    // In the middle of a page: what stands behind the cut in it becomes zeros without a signal.
    ASSERT_EQ(truncate(names[0].c_str(), 150'100), 0);
    std::size_t rows = 128;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      EXPECT_EQ(Strange(batch, 2), 0u);
      rows += batch[0].lod[0].size() - 1;
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    for (const Instance& each : held) EXPECT_EQ(Strange(each, 2), 0u);
    EXPECT_GE(rows, 1500u);  // the other file's
    EXPECT_LT(rows, 3000u);
    EXPECT_GE(reader.Stats().damaged_records, 1u);
  }
}

TEST_F(CutWhileMappedTest, AFilterDoesNotAnswerForRecordsThatBecameZeros) {
  // No checksum: the records behind the cut are zeros, which the filter would drop in silence.
  const std::string path = directory_.File("rows");
  std::FILE* const file = std::fopen(path.c_str(), "w");
  const std::vector<char> rows(3'000'000, 'x');
  ASSERT_EQ(std::fwrite(rows.data(), 1, rows.size(), file), rows.size());
  ASSERT_EQ(std::fclose(file), 0);
  OpenOptions options = InFileOrder(OnDamage::kSkip, IoPath::kMmap);
  options.format = "rows:100";
  options.threads = 1;
  bool cut = false;
  const auto keep = [&](const RecordSpan& record) {
    if (!std::exchange(cut, true)) {
      EXPECT_EQ(truncate(path.c_str(), 150'123), 0);
    }
    return record.data[99] == std::byte{'x'};
  };
  Reader reader = Batch(Parse(Filter(OpenFiles({path}, options), keep), RawParser()), {.size = 10});
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  EXPECT_EQ(reader.Stats().filtered_records, 0u);
  EXPECT_GE(reader.Stats().damaged_records, 1u);
}

/// What comes of 20,000 rows of which the file is cut behind the first.
struct CutRows {
  std::size_t good = 0;
  std::size_t strange = 0;
  std::size_t holes = 0;
  ReadResult end = ReadResult::kRecord;
  PipelineStats stats;
};

class CutViewsTest : public HostileInputTest {
 protected:
  static constexpr std::size_t kRows = 20'000;
  static constexpr std::size_t kRowBytes = 100;

  static void Count(std::span<const std::byte> row, CutRows* found) {
    const bool good =
        row.size() == kRowBytes && std::count(row.begin(), row.end(), std::byte{'x'}) == kRowBytes;
    ++(good ? found->good : found->strange);
  }
  /// In an order by number, in which mapped rows are views of the file.
  CutRows Read(OnDamage policy, bool in_blocks) const {
    const std::string path = directory_.File("rows");
    WriteBytes(path, std::vector<std::byte>(kRows * kRowBytes, std::byte{'x'}));
    OpenOptions options = InFileOrder(policy, IoPath::kMmap);
    options.format = "rows:100";
    Reader reader = Shuffle(OpenFiles({path}, options), {.seed = 1, .mode = ShuffleMode::kGlobal});
    CutRows found;
    const auto read = [&] {
      if (in_blocks) {
        RecordBlock block;
        found.end = reader.TryReadBlock(&block);
        for (const RecordSpan& record : block.records()) {
          if (record.damaged()) {
            ++found.holes;
          } else {
            Count(record.bytes(), &found);
          }
        }
      } else {
        Instance row;
        found.end = reader.TryReadNext(&row);
        if (!row.empty()) Count({row[0].data, row[0].bytes}, &found);
      }
      return found.end == ReadResult::kRecord;
    };
    EXPECT_TRUE(read());
    // In the middle of a page, whose end becomes zeros without a signal.
    EXPECT_EQ(truncate(path.c_str(), 1'000'123), 0);
    while (read()) {
    }
    found.stats = reader.Stats();
    return found;
  }
};

TEST_F(CutViewsTest, RowsAreGivenUpAndReportedWhereTheirFileWasCutBeforeTheyWereHandedOut) {
  for (const bool in_blocks : {false, true}) {
    const CutRows skipped = Read(OnDamage::kSkip, in_blocks);
    EXPECT_EQ(skipped.end, ReadResult::kEnd);
    EXPECT_EQ(skipped.strange, 0u);
    EXPECT_LT(skipped.good, kRows);
    EXPECT_EQ(skipped.stats.records, skipped.good);
    EXPECT_EQ(skipped.stats.damaged_records, kRows - skipped.good);
    if (in_blocks) {
      EXPECT_EQ(skipped.holes, kRows - skipped.good);
    }

    const CutRows failed = Read(OnDamage::kFail, in_blocks);
    EXPECT_EQ(failed.end, ReadResult::kFailed);
    EXPECT_EQ(failed.strange, 0u);
    EXPECT_LT(failed.good, kRows);
  }
}

TEST_F(HostileInputTest, AFileThatIsDeletedWhileItIsReadIsReadToItsEnd) {
  for (const IoPath io : Paths()) {
    const std::string path = directory_.File("deleted.tfrecord");
    WriteTfRecords(path, 0, std::vector<std::size_t>(3000, 1000));
    OpenOptions options = InFileOrder(OnDamage::kFail, io);
    Reader reader = Batches(OpenFiles({path}, options), 10);
    Drained found = Drain(reader, 1);
    std::filesystem::remove(path);
    const Drained rest = Drain(reader);
    found.ids.insert(found.ids.end(), rest.ids.begin(), rest.ids.end());
    EXPECT_EQ(found.ids, Numbers(3000)) << IoPathName(io) << rest.status.ToString();
  }
}

TEST_F(HostileInputTest, NamesThatAreNoReadableFilesAreNamedErrors) {
  const std::string file = MakeFile(std::vector<std::size_t>{8});
  std::filesystem::create_directory(directory_.File("empty"));
  EXPECT_EQ(CodeOf({directory_.File("empty")}), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf({directory_.path()}), StatusCode::kOk);  // a folder is its files
  EXPECT_EQ(CodeOf({"/dev/null"}), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf({directory_.File("absent.tfrecord")}), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf({}), StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf({directory_.File("*.nothing")}), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf({directory_.File("*.tfrecord")}), StatusCode::kOk);
  EXPECT_EQ(CodeOf({file, "-"}), StatusCode::kInvalidArgument);
}

TEST_F(HostileInputTest, AFileWithoutPermissionIsNamedOrSkipped) {
  if (!kChildrenMayStartThreads) GTEST_SKIP() << "not under this sanitizer";
  const std::string open = MakeFile(std::vector<std::size_t>{8, 9});
  const std::string secret = MakeFile(std::vector<std::size_t>{8});
  ASSERT_EQ(chmod(secret.c_str(), 0), 0);
  ASSERT_EQ(chmod(directory_.path().c_str(), 0755), 0);
  const ChildResult child = RunInChild([&](std::string* text) {
    if (!DropPrivileges()) return 2;
    OpenOptions options = InFileOrder();
    options.arena = std::make_shared<PinnedArena>(kArenaBytes);
    const Drained failed = Drain(OpenFiles({open, secret}, options));
    *text = failed.status.ToString();
    if (failed.status.code() != StatusCode::kPermissionDenied || failed.ids.size() != 2) return 3;
    options.on_damage = OnDamage::kSkip;
    const Drained skipped = Drain(OpenFiles({secret, open}, options));
    *text += skipped.status.ToString();
    return skipped.end == ReadResult::kEnd && skipped.ids.size() == 2 ? 0 : 4;
  });
  EXPECT_FALSE(child.signalled);
  EXPECT_EQ(child.status, 0) << child.text;
}

TEST_F(HostileInputTest, TenThousandFilesAreReadWithTwoHundredFiftySixDescriptors) {
  if (!kChildrenMayStartThreads) GTEST_SKIP() << "not under this sanitizer";
  std::vector<std::string> files;
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    files.push_back(directory_.File(std::to_string(i) + ".tfrecord"));
    WriteTfRecords(files.back(), i, std::vector<std::size_t>{8 + i % 50});
  }
  const ChildResult child = RunInChild([&](std::string* text) {
    const rlimit limit{256, 256};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    for (const IoPath io : {IoPath::kAuto, IoPath::kPread, IoPath::kMmap}) {
      OpenOptions options = Options();
      options.arena = std::make_shared<PinnedArena>(kArenaBytes);
      options.io.path = io;
      Drained found = Drain(Batches(Shuffle(OpenFiles(files, options), {.window = 300}), 100));
      *text += found.status.ToString() + " " + std::to_string(found.ids.size()) + "\n";
      if (found.end != ReadResult::kEnd || Sorted(found.ids) != Numbers(10'000)) return 3;
    }
    return 0;
  });
  EXPECT_EQ(child.status, 0) << child.text;
}

struct FaultCase {
  FaultPlan plan;
  ReadFaults reads;
};

// Also of reads that an engine gave up: they are read again in small pieces.
TEST_F(HostileInputTest, FaultsOfTheMediumThatPassCostNothing) {
  const auto files = MakeFiles(6, 300, 8, 3000);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (const std::string& file : files) MakeCold(file);
    OpenOptions options = Options();
    options.io.block_bytes = seed % 2 == 0 ? 4096 : 16384;
    options.io.path = seed % 3 == 0 || !ProbeUring().available ? IoPath::kPread : IoPath::kUring;
    options.io.direct = seed % 5 != 0;
    options.on_damage = seed % 4 < 2 ? OnDamage::kFail : OnDamage::kSkip;
    FaultPlan plan;
    plan.delay = 0.3;
    plan.longest_delay = std::chrono::microseconds(300);
    plan.reorder = true;
    plan.failure = seed % 4 == 0 ? 0.02 : seed % 4 == 1 ? 0.004 : 0;
    ReadFaults reads;
    if (seed % 7 < 4)
      reads = {.short_read = 0.2, .interrupted = 0.1, .again = 0.1, .io_error = 0.05};
    const RandomFaultHook hook(seed, reads);
    Reader reader = OpenFiles(files, options);
    if (seed % 2 == 0) reader = Shuffle(reader, {.window = 200});
    reader = Batches(reader, 16);
    Inject(reader, seed, plan);
    Drained found = Drain(reader);
    EXPECT_EQ(found.strange, 0u);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(Sorted(found.ids), Numbers(1800)) << seed;
    EXPECT_EQ(reader.Stats().damaged_records, 0u);
  }
}

}  // namespace
}  // namespace ringfeed
