#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/input_file.h"
#include "io/read_engine.h"
#include "io/read_progress.h"
#include "ringfeed/formats.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kPage = 4096;

/// Pages of one file that its medium does not give.
struct BadPages {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool Touches(std::uint64_t from, std::uint64_t to) const { return from < end && begin < to; }
};

/// Fails reads that touch them: as a whole, as direct reads do, or from them on, as the page cache
/// does.
class BadMedium final : public ReadFaultHook {
 public:
  BadMedium(const std::vector<BadPages>& bad, bool whole) : bad_(bad), whole_(whole) {
    SetReadFaultHook(this);
  }
  ~BadMedium() override { SetReadFaultHook(nullptr); }
  std::int64_t OnResult(const InputFile& /*file*/, std::uint64_t offset, std::uint32_t /*bytes*/,
                        std::int64_t result) override {
    if (result <= 0) return result;
    for (const BadPages& bad : bad_) {
      if (!bad.Touches(offset, offset + static_cast<std::uint64_t>(result))) continue;
      if (whole_ || offset >= bad.begin) return -EIO;
      result = static_cast<std::int64_t>(bad.begin - offset);
    }
    return result;
  }

 private:
  const std::vector<BadPages> bad_;
  const bool whole_;
};

/// The same of a mapped file: there stand pages of a file that has none.
class BadMapping {
 public:
  BadMapping(const std::string& path, const std::string& empty, const std::vector<BadPages>& bad) {
    IoOptions options;
    options.path = IoPath::kMmap;
    file_ = OpenInput(path, options).file;
    const int descriptor = open(empty.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    auto* const data = const_cast<std::byte*>(file_->mapping().data());
    for (const BadPages& pages : bad) {
      void* const at = data + pages.begin;
      EXPECT_EQ(mmap(at, pages.end - pages.begin, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 0),
                at);
    }
    close(descriptor);
  }

 private:
  std::unique_ptr<InputFile> file_;
};

/// A file of records, and where each stands, with what is read together with it.
struct MadeFile {
  std::string path;
  std::string format;
  std::vector<BadPages> units;  ///< by record
  std::vector<std::uint64_t> Left(const std::vector<BadPages>& bad) const {
    std::vector<std::uint64_t> ids;
    for (std::uint64_t id = 0; id < units.size(); ++id) {
      const bool lost = std::any_of(bad.begin(), bad.end(), [&](const BadPages& pages) {
        return pages.Touches(units[id].begin, units[id].end);
      });
      if (!lost) ids.push_back(id);
    }
    return ids;
  }
};

class UnreadableTest : public PipelineTest {
 protected:
  MadeFile MakeRows(std::size_t records, std::size_t bytes) {
    MadeFile made{directory_.File("x.rows"), "rows:" + std::to_string(bytes), {}};
    std::vector<std::byte> all;
    for (std::uint64_t id = 0; id < records; ++id) {
      const std::vector<std::byte> payload = RecordPayload(id, bytes);
      made.units.push_back({all.size(), all.size() + bytes});
      all.insert(all.end(), payload.begin(), payload.end());
    }
    WriteBytes(made.path, all);
    return made;
  }
  MadeFile MakeRecords(std::size_t records, std::size_t least, std::size_t most) {
    MadeFile made{directory_.File("x.tfrecord"), "tfrecord", {}};
    const auto offsets = WriteTfRecords(made.path, 0, RandomSizes(3, records, least, most));
    for (std::size_t i = 0; i < records; ++i) made.units.push_back({offsets[i], offsets[i + 1]});
    return made;
  }
  MadeFile MakeChunks(std::size_t records) {
    MadeFile made{directory_.File("x.recordio"), "recordio", {}};
    const std::uint64_t bytes = MakeChunksOfTen(made.path, 0, records).size();
    const RecordIoIndex index = LoadRecordIoIndex(made.path);
    for (std::size_t i = 0; i < index.chunks.size(); ++i) {
      const bool last = i + 1 == index.chunks.size();
      const std::uint64_t end = last ? bytes : index.chunks[i + 1].offset;
      for (int record = 0; record < 10; ++record) {
        made.units.push_back({index.chunks[i].offset, end});
      }
    }
    return made;
  }

  MadeFile MakeArchive() {
    MadeFile made{directory_.File("x.tar"), "tar:ext=bin", {}};
    const auto writer = OpenRecordWriter(made.path, made.format).writer;
    for (std::uint64_t id = 0; id < 400; ++id) {
      EXPECT_TRUE(writer->Write(RecordPayload(id, 600)).ok());
      made.units.push_back({1536 * id, 1536 * (id + 1)});  // a header and two blocks each
    }
    EXPECT_TRUE(writer->Close().ok());
    return made;
  }

  struct Way {
    IoPath path = IoPath::kPread;
    bool cold = false;
    bool direct = false;
    bool whole = false;  ///< a read fails as a whole
  };
  static std::vector<Way> Ways() {
    std::vector<Way> ways = {{IoPath::kMmap, false, false, false}};
    for (const bool whole : {false, true}) {
      ways.push_back({IoPath::kPread, false, false, whole});
      ways.push_back({IoPath::kPread, true, false, whole});
      ways.push_back({IoPath::kPread, true, true, whole});
      if (!ProbeUring().available) continue;
      ways.push_back({IoPath::kUring, true, false, whole});
      ways.push_back({IoPath::kUring, true, true, whole});
    }
    return ways;
  }

  /// Reads the file through `chain` in that way, with those pages bad.
  Drained Read(const MadeFile& file, const std::vector<BadPages>& bad, const Way& way,
               OnDamage policy, const std::optional<ShuffleOptions>& order, PipelineStats* stats) {
    std::filesystem::remove(directory_.File("." + Name(file) + ".rfx"));
    (void)(way.cold ? MakeCold(file.path) : MakeWarm(file.path));
    if (way.path == IoPath::kMmap && order && order->mode != ShuffleMode::kOfSize) {
      // Whoever makes an index later maps the file anew, and finds it good.
      OpenOptions indexing = Options();
      indexing.format = file.format;
      Shuffle(OpenFiles({file.path}, indexing), *order).MakeIndex(IndexPurpose::kReading);
    }
    std::optional<BadMapping> mapping;
    std::optional<BadMedium> medium;
    if (way.path == IoPath::kMmap) {
      mapping.emplace(file.path, directory_.File("empty"), bad);
    } else {
      medium.emplace(bad, way.whole);
    }
    OpenOptions options = Options();
    options.format = file.format;
    options.on_damage = policy;
    options.io.path = way.path;
    options.io.direct = way.direct;
    options.io.retries = 1;
    Reader records = OpenFiles({file.path}, options);
    if (order) records = Shuffle(records, *order);
    Reader reader = Batches(std::move(records), 16);
    Drained found = Drain(reader);
    *stats = reader.Stats();
    return found;
  }

  static std::string Name(const MadeFile& file) {
    return std::filesystem::path(file.path).filename().string();
  }
  static std::string TextOf(const MadeFile& file, const Way& way) {
    return file.format + " by " + std::string(IoPathName(way.path)) + (way.cold ? ", cold" : "") +
           (way.direct ? ", direct" : "") + (way.whole ? ", failing as a whole" : "");
  }

  void CheckEveryWay(const MadeFile& file, const std::vector<BadPages>& bad) {
    const std::vector<std::uint64_t> left = file.Left(bad);
    ASSERT_LT(left.size(), file.units.size());
    const std::optional<ShuffleOptions> orders[] = {
        std::nullopt,
        ShuffleOptions{.window = 50, .seed = 2},
        ShuffleOptions{.seed = 2, .mode = ShuffleMode::kStripes},
        ShuffleOptions{.seed = 2, .mode = ShuffleMode::kGlobal},
    };
    for (const Way& way : Ways()) {
      for (const auto& order : orders) {
        SCOPED_TRACE(TextOf(file, way) + ", order " + std::to_string(&order - orders));
        PipelineStats stats;
        const Drained found = Read(file, bad, way, OnDamage::kSkip, order, &stats);
        EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
        EXPECT_EQ(found.strange, 0u);
        EXPECT_EQ(Sorted(found.ids), left);
        ASSERT_FALSE(stats.damage.empty());
        EXPECT_GE(stats.damaged_records, bad.size());
        if (file.format.starts_with("rows")) {
          EXPECT_EQ(stats.damaged_records, file.units.size() - left.size());
        }
        EXPECT_NE(stats.damage.front().reason.find("nput/output error"), std::string::npos)
            << stats.damage.front().reason;
      }
    }
  }
};

TEST_F(UnreadableTest, OfRowsThoseInUnreadableBytesAreLost) {
  CheckEveryWay(MakeRows(3000, 100), {{5 * kPage, 6 * kPage}, {40 * kPage, 42 * kPage}});
}

TEST_F(UnreadableTest, OfRecordsThoseInUnreadableBytesAreLost) {
  CheckEveryWay(MakeRecords(3000, 50, 150), {{5 * kPage, 6 * kPage}, {40 * kPage, 42 * kPage}});
}

TEST_F(UnreadableTest, OfRecordsThatAreLongerThanAPageOneIsLost) {
  CheckEveryWay(MakeRecords(60, 9000, 90000), {{33 * kPage, 34 * kPage}});
}

TEST_F(UnreadableTest, OfChunksThoseInUnreadableBytesAreLost) {
  CheckEveryWay(MakeChunks(3000), {{7 * kPage, 8 * kPage}});
}

TEST_F(UnreadableTest, TheFirstPageCostsWhatStandsInIt) {
  CheckEveryWay(MakeRows(3000, 100), {{0, kPage}});
}

TEST_F(UnreadableTest, TheLastPageCostsWhatStandsInIt) {
  const MadeFile file = MakeRows(3000, 100);
  const std::vector<BadPages> bad = {{73 * kPage, 74 * kPage}};
  for (const Way& way : Ways()) {
    if (way.path == IoPath::kMmap) continue;  // it is touched as soon as it is mapped
    SCOPED_TRACE(TextOf(file, way));
    PipelineStats stats;
    const Drained found = Read(file, bad, way, OnDamage::kSkip, std::nullopt, &stats);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(found.ids, file.Left(bad));
  }
}

// A page of zeros in place of a header would be the end of the archive.
TEST_F(UnreadableTest, OfAnArchiveTheSamplesInUnreadableBytesAreLost) {
  const MadeFile file = MakeArchive();
  const std::vector<BadPages> bad = {{20 * kPage, 21 * kPage}};
  for (const Way& way : Ways()) {
    SCOPED_TRACE(TextOf(file, way));
    PipelineStats stats;
    const Drained found = Read(file, bad, way, OnDamage::kSkip, std::nullopt, &stats);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    // The sample before the page is known to be whole by the header behind it.
    EXPECT_GE(stats.records, file.Left(bad).size() - 1);
    EXPECT_LE(stats.records, file.Left(bad).size());
  }
}

TEST_F(UnreadableTest, NoArchiveIsWarnedOfAnEndThatOnlyAPageHides) {
  const MadeFile file = MakeArchive();
  for (const Way& way : Ways()) {
    SCOPED_TRACE(TextOf(file, way));
    PipelineStats stats;
    const Drained found = Read(file, {{0, kPage}}, way, OnDamage::kSkip, std::nullopt, &stats);
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_GE(stats.records, 396u);
    EXPECT_TRUE(stats.warnings.empty());
  }
}

TEST_F(UnreadableTest, OfTextTheLinesInUnreadableBytesAreLost) {
  const std::string path = directory_.File("x.txt");
  std::string text;
  MadeFile file{path, "lines", {}};
  for (std::uint64_t id = 0; id < 8000; ++id) {
    const std::size_t begin = text.size();
    text += std::to_string(100000 + id) + std::string(id % 50, 'x') + "\n";
    file.units.push_back({begin, text.size()});
  }
  WriteBytes(path, std::as_bytes(std::span(text)));
  const std::vector<BadPages> bad = {{20 * kPage, 21 * kPage}};
  for (const Way& way : Ways()) {
    SCOPED_TRACE(TextOf(file, way));
    PipelineStats stats;
    (void)Read(file, bad, way, OnDamage::kSkip, std::nullopt, &stats);
    // The line that begins right behind the page cannot be told from the rest of one.
    EXPECT_GE(stats.records + 1, file.Left(bad).size());
    EXPECT_LE(stats.records, file.Left(bad).size());
    EXPECT_GE(stats.damaged_records, 1u);
  }
}

TEST_F(UnreadableTest, FailDeliversWhatStandsBeforeThePageAndNamesIt) {
  const std::vector<BadPages> bad = {{20 * kPage, 21 * kPage}};
  for (const MadeFile& file : {MakeRows(3000, 100), MakeRecords(3000, 50, 150)}) {
    std::uint64_t before = 0;
    while (file.units[before].end <= bad[0].begin) ++before;
    for (const Way& way : Ways()) {
      SCOPED_TRACE(TextOf(file, way));
      PipelineStats stats;
      const Drained found = Read(file, bad, way, OnDamage::kFail, std::nullopt, &stats);
      EXPECT_EQ(found.end, ReadResult::kFailed);
      EXPECT_EQ(found.status.code(), StatusCode::kIoError) << found.status.ToString();
      EXPECT_EQ(found.ids, Numbers(before));
      EXPECT_EQ(found.strange, 0u);
    }
  }
}

// It would say so also after the medium was mended.
TEST_F(UnreadableTest, AnIndexThatLacksWhatCouldNotBeReadIsNotKept) {
  const MadeFile file = MakeRecords(3000, 50, 150);
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  const ShuffleOptions global{.seed = 2, .mode = ShuffleMode::kGlobal};
  {
    const BadMedium medium({{20 * kPage, 21 * kPage}}, true);
    (void)MakeCold(file.path);
    const Drained found = Drain(Batches(Shuffle(OpenFiles({file.path}, options), global), 16));
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  }
  const Drained found = Drain(Batches(Shuffle(OpenFiles({file.path}, options), global), 16));
  EXPECT_EQ(found.ids.size(), 3000u);
}

}  // namespace
}  // namespace ringfeed
