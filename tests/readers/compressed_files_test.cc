#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/formats.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/compressed.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

using Kind = CompressedForm::Kind;

/// Whole files compressed by gzip, zlib or zstd.
class CompressedFilesTest : public PipelineTest {
 protected:
  static std::vector<std::byte> Contents(const std::string& path) {
    const std::string text = ReadBytes(path);
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  std::string Compressed(const std::string& path, const CompressedForm& form) const {
    const std::string ending = form.kind == Kind::kGzip   ? ".gz"
                               : form.kind == Kind::kZlib ? ".zlib"
                                                          : ".zst";
    WriteBytes(path + ending, Compress(Contents(path), form));
    return path + ending;
  }
  /// Every file in another form.
  std::vector<std::string> CompressedInAllForms(const std::vector<std::string>& files) const {
    constexpr Kind kKinds[] = {Kind::kGzip, Kind::kZlib, Kind::kZstd};
    std::vector<std::string> compressed;
    for (std::size_t i = 0; i < files.size(); ++i) {
      compressed.push_back(
          Compressed(files[i], {kKinds[i % 3], 1 + i % 4, i % 2 == 0 ? 0U : 5000U}));
    }
    return compressed;
  }
  OpenOptions InFileOrder(OnDamage on_damage) const {
    OpenOptions options = Options();
    options.cycle = 1;
    options.on_damage = on_damage;
    return options;
  }
};

TEST_F(CompressedFilesTest, TheOrderIsThatOfTheContentsAtAnyNumberOfThreads) {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 1 : 4); ++seed) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < 9; ++i) {
      const std::size_t records = i == 4 ? 0 : 10 + (seed * 131 + i * i * 57) % 500;
      files.push_back(MakeFile(RandomSizes(seed * 100 + i, records, 8, 300 + 200 * i)));
    }
    const auto compressed = CompressedInAllForms(files);
    for (const std::size_t cycle : {1U, 3U, 8U}) {
      for (const std::size_t stripe : {4096U, 65536U}) {
        OpenOptions options = Options();
        options.cycle = cycle;
        options.stripe_bytes = stripe;
        const auto chain = [&](const std::vector<std::string>& names) {
          return Batches(MultiPass(OpenFiles(names, options), 3), 50);
        };
        // An empty file takes no turn, an empty content one: the sizes of files are known before.
        std::vector<std::string> same = files;
        same.erase(same.begin() + 4);
        std::vector<std::string> without = compressed;
        without.erase(without.begin() + 4);
        const Drained plain = Drain(chain(same));
        for (const int threads : {1, 2, 5}) {
          options.threads = threads;
          const Drained found = Drain(chain(without));
          ASSERT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
          ASSERT_TRUE(found == plain) << cycle << " " << stripe << " " << threads;
          ASSERT_EQ(Sorted(Drain(chain(compressed)).ids), Sorted(plain.ids));
        }
      }
    }
  }
}

TEST_F(CompressedFilesTest, PlainAndCompressedFilesAreShuffledTogetherInOneOrder) {
  const auto files = MakeFiles(8, 300, 8, 2000);
  auto mixed = CompressedInAllForms(files);
  mixed[1] = files[1];
  mixed[6] = files[6];
  OpenOptions options = Options();
  const auto chain = [&](const std::vector<std::string>& names) {
    Reader shuffled = Shuffle(OpenFiles(names, options), {.window = 500, .seed = 3});
    return Batches(MultiPass(std::move(shuffled), 2), 64);
  };
  const Drained plain = Drain(chain(files));
  EXPECT_EQ(plain.ids.size(), 4800U);
  for (const int threads : {1, 2, 4}) {
    options.threads = threads;
    EXPECT_TRUE(Drain(chain(mixed)) == plain) << threads;
  }
}

// Nothing of what is left is damaged then: what is gone are whole members.
TEST_F(CompressedFilesTest, AFileThatIsEmptiedOrLosesMembersBetweenPassesIsReported) {
  for (const bool emptied : {true, false}) {
    for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
      const auto plain = MakeFiles(2, 400, 1000, 1000);
      const std::string other = Compressed(plain[0], {});
      const std::string file = Compressed(plain[1], {});
      const std::size_t first_member = Contents(file).size();
      std::vector<std::byte> members = Contents(file);
      for (const std::byte byte : Contents(file)) members.push_back(byte);
      WriteBytes(file, members);
      Reader reader = MultiPass(Batches(OpenFiles({other, file}, InFileOrder(on_damage)), 400), 60);
      EXPECT_EQ(Drain(reader, 3).ids.size(), 1200U);
      std::filesystem::resize_file(file, emptied ? 0 : first_member);
      const Drained rest = Drain(reader);
      const PipelineStats stats = reader.Stats();
      EXPECT_LT(rest.ids.size(), 59U * 1200);
      if (on_damage == OnDamage::kFail) {
        EXPECT_EQ(rest.status.code(), StatusCode::kTruncated) << rest.status.ToString();
        EXPECT_NE(rest.status.ToString().find(file), std::string::npos) << rest.status.ToString();
        continue;
      }
      EXPECT_EQ(rest.end, ReadResult::kEnd) << rest.status.ToString();
      EXPECT_GT(stats.lost_ranges, 0U);
      EXPECT_EQ(stats.damaged_records, stats.lost_ranges);
      ASSERT_FALSE(stats.damage.empty());
      EXPECT_EQ(stats.damage[0].file, file);
      EXPECT_NE(stats.damage[0].reason.find(" had "), std::string::npos) << stats.damage[0].reason;
    }
  }
}

TEST_F(CompressedFilesTest, RecordsLargerThanAStripeAreWhole) {
  std::vector<std::size_t> sizes = RandomSizes(3, 30, 8, 5000);
  sizes[2] = 700'000;
  sizes[17] = 2'500'000;
  sizes[29] = 1'000'000;
  const std::string file = MakeFile(sizes);
  OpenOptions options = Options();
  options.stripe_bytes = 4096;
  options.io.block_bytes = 4096;
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    const Drained found = Drain(OpenFiles({Compressed(file, {kind})}, options));
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(found.ids, Numbers(30));
    EXPECT_EQ(found.strange, 0U);
  }
}

TEST_F(CompressedFilesTest, ContentThatEndsWhereAStripeEndsIsOneStripeLess) {
  // 16 bytes of frame and 48 of payload: 64 records are a stripe of 4,096 bytes.
  OpenOptions options = Options();
  options.stripe_bytes = 4096;
  options.cycle = 2;
  for (const std::size_t records : {63U, 64U, 65U, 128U, 192U}) {
    std::vector<std::string> files;
    for (int i = 0; i < 4; ++i) files.push_back(MakeFile(std::vector<std::size_t>(records, 48)));
    const auto compressed = CompressedInAllForms(files);
    EXPECT_EQ(Drain(OpenFiles(compressed, options)).ids, Drain(OpenFiles(files, options)).ids);
  }
}

TEST_F(CompressedFilesTest, StoresAndStreamsAreDecompressedToo) {
  const std::string file = MakeFile(RandomSizes(5, 500, 8, 3000));
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    const auto bytes = Compress(Contents(file), {kind, 3});
    const auto store = std::make_shared<MemorySource>("store", bytes);
    const Drained found = Drain(OpenSources({store}, Options()));
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(found.ids, Numbers(500));

    for (const std::string format : {"", "tfrecord"}) {
      OpenOptions options = Options();
      options.format = format;
      const int descriptor = open(Compressed(file, {kind, 3}).c_str(), O_RDONLY);
      ASSERT_GE(descriptor, 0);
      const Drained streamed =
          Drain(OpenStreamSource(OpenDescriptor(descriptor, "stream", true), options));
      EXPECT_EQ(streamed.end, ReadResult::kEnd) << streamed.status.ToString();
      EXPECT_EQ(streamed.ids, Numbers(500));
    }
  }
}

TEST_F(CompressedFilesTest, ACutFileGivesWhatPrecedesTheCut) {
  const std::string file = MakeFile(RandomSizes(6, 200, 8, 40));
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    const auto whole = Compress(Contents(file), {kind});
    for (std::size_t cut = 4; cut < whole.size(); cut += 1 + cut / (kSanitized ? 5 : 15)) {
      const std::string name = directory_.File("cut.tfrecord.gz");
      WriteBytes(name, std::span(whole).first(cut));
      const Drained failed = Drain(OpenFiles({name}, InFileOrder(OnDamage::kFail)));
      ASSERT_EQ(failed.end, ReadResult::kFailed) << cut;
      ASSERT_EQ(failed.status.place().file, name);
      ASSERT_NE(failed.status.message().find("at byte"), std::string::npos);
      ASSERT_EQ(failed.ids, Numbers(failed.ids.size()));

      Reader reader = OpenFiles({name}, InFileOrder(OnDamage::kSkip));
      const Drained skipped = Drain(reader);
      ASSERT_EQ(skipped.end, ReadResult::kEnd) << cut << skipped.status.ToString();
      ASSERT_EQ(skipped.ids, failed.ids);
      ASSERT_FALSE(reader.Stats().damage.empty()) << cut;
    }
  }
}

TEST_F(CompressedFilesTest, AFlippedBitIsReportedOrHarmlessAndNeverChangesARecord) {
  const std::string file = MakeFile(RandomSizes(7, 30, 8, 40));
  const std::string other = MakeFile(RandomSizes(8, 40, 8, 40));
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    const auto whole = Compress(Contents(file), {kind});
    for (std::size_t at = 0; at < whole.size(); at += kSanitized ? 29 : 7) {
      auto damaged = whole;
      damaged[at] ^= std::byte{0x10};
      const std::string name = directory_.File("damaged.tfrecord.gz");
      WriteBytes(name, damaged);
      for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
        OpenOptions options = InFileOrder(on_damage);
        options.format = "tfrecord";
        Reader reader = OpenFiles({name, other}, options);
        const Drained found = Drain(reader);
        ASSERT_EQ(found.strange, 0U) << at;
        const bool reported = found.end == ReadResult::kFailed || !reader.Stats().damage.empty();
        ASSERT_TRUE(reported || found.ids == Numbers(70)) << at;
        if (on_damage == OnDamage::kFail) continue;
        ASSERT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
        ASSERT_EQ(std::count_if(found.ids.begin(), found.ids.end(),
                                [](std::uint64_t id) { return id >= 30; }),
                  40);
      }
    }
  }
}

/// Members of whole records each, of which one is damaged.
class DamagedMemberTest : public CompressedFilesTest {
 protected:
  static constexpr std::size_t kMembers = 4;
  static constexpr std::size_t kRecords = 60;  ///< in each of them

  static std::vector<std::byte> Member(std::string_view text) {
    return Compress(std::as_bytes(std::span(text)), {});
  }
  /// The file's name; *sizes are those of the members.
  std::string MakeMembers(Kind kind, std::vector<std::size_t>* sizes) {
    for (std::size_t i = contents_.size(); i < kMembers; ++i) {
      contents_.push_back(Contents(MakeFile(RandomSizes(i, kRecords, 8, 200))));
    }
    std::vector<std::byte> file;
    sizes->clear();
    for (const auto& content : contents_) {
      const auto member = Compress(content, {.kind = kind});
      file.insert(file.end(), member.begin(), member.end());
      sizes->push_back(member.size());
    }
    const std::string name = directory_.File("members.tfrecord.gz");
    WriteBytes(name, file);
    return name;
  }

 private:
  std::vector<std::vector<std::byte>> contents_;
};

TEST_F(DamagedMemberTest, OnlyTheDamagedMemberLosesRecords) {
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    std::vector<std::size_t> sizes;
    const std::string name = MakeMembers(kind, &sizes);
    const auto whole = Contents(name);
    for (std::size_t at = sizes[0]; at < sizes[0] + sizes[1]; at += 97) {
      auto damaged = whole;
      damaged[at] ^= std::byte{0x08};
      WriteBytes(name, damaged);
      OpenOptions options = InFileOrder(OnDamage::kSkip);
      options.format = "tfrecord";
      options.stripe_bytes = 4096;
      options.io.block_bytes = 4096;
      Reader reader = OpenFiles({name}, options);
      const Drained found = Drain(reader);
      ASSERT_EQ(found.end, ReadResult::kEnd) << at << found.status.ToString();
      ASSERT_EQ(found.strange, 0U);
      std::vector<std::uint64_t> lost = Numbers(kMembers * kRecords);
      std::erase_if(lost, [&](std::uint64_t id) {
        return std::binary_search(found.ids.begin(), found.ids.end(), id);
      });
      ASSERT_TRUE(std::is_sorted(found.ids.begin(), found.ids.end()));
      ASSERT_TRUE(lost.empty() || (lost.front() >= kRecords && lost.back() < 2 * kRecords)) << at;
      ASSERT_TRUE(lost.empty() || !reader.Stats().damage.empty()) << at;

      options.threads = 3;
      ASSERT_EQ(Drain(OpenFiles({name}, options)).ids, found.ids);
      const int descriptor = open(name.c_str(), O_RDONLY);
      ASSERT_GE(descriptor, 0);
      ASSERT_EQ(Drain(OpenStreamSource(OpenDescriptor(descriptor, "s", true), options)).ids,
                found.ids);
    }
  }
}

TEST_F(DamagedMemberTest, AWrongChecksumAtTheEndLosesNoRecord) {
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    std::vector<std::size_t> sizes;
    const std::string name = MakeMembers(kind, &sizes);
    auto damaged = Contents(name);
    damaged[sizes[0] + sizes[1] - (kind == Kind::kGzip ? 5 : 1)] ^= std::byte{1};
    WriteBytes(name, damaged);
    // Parts may end anywhere in front of the damage.
    for (const std::size_t stripe : {4096U, 8192U, 12'288U}) {
      OpenOptions options = InFileOrder(OnDamage::kFail);
      options.stripe_bytes = stripe;
      options.io.block_bytes = 4096;
      const Drained failed = Drain(OpenFiles({name}, options));
      EXPECT_EQ(failed.end, ReadResult::kFailed);
      EXPECT_EQ(failed.ids, Numbers(2 * kRecords)) << stripe;
      options.on_damage = OnDamage::kSkip;
      Reader reader = OpenFiles({name}, options);
      EXPECT_EQ(Drain(reader).ids, Numbers(kMembers * kRecords)) << stripe;
      EXPECT_EQ(reader.Stats().damage.size(), 1U);
    }
  }
}

TEST_F(DamagedMemberTest, ARecordThatFailsBeforeItsStreamDoesEndsTheFile) {
  const std::vector<std::size_t> sizes = RandomSizes(1, kRecords, 8, 200);
  auto content = Contents(MakeFile(sizes));
  // The length of the last record but one.
  const std::size_t last = sizes[kRecords - 1] + sizes[kRecords - 2] + std::size_t{2 * 16};
  content[content.size() - last] ^= std::byte{1};
  auto damaged = Compress(content, {});
  damaged[damaged.size() - 5] ^= std::byte{1};
  const std::string name = directory_.File("twice.tfrecord.gz");
  WriteBytes(name, damaged);
  for (const std::size_t stripe : {4096U, 8192U, 65'536U}) {
    OpenOptions options = InFileOrder(OnDamage::kFail);
    options.stripe_bytes = stripe;
    options.io.block_bytes = 4096;
    const Drained failed = Drain(OpenFiles({name}, options));
    EXPECT_EQ(failed.end, ReadResult::kFailed);
    EXPECT_EQ(failed.ids, Numbers(kRecords - 2)) << stripe;
    EXPECT_NE(failed.status.ToString().find("length's checksum"), std::string::npos)
        << failed.status.ToString();
  }
}

TEST_F(DamagedMemberTest, OfLinesTheOneWhoseBeginningIsLostIsNotDelivered) {
  std::vector<std::byte> file = Member("a whole line\nand the beg");
  file[file.size() - 6] ^= std::byte{1};
  for (const char* rest : {"inning of one\nsecond\nthi", "rd\nlast"}) {
    const auto member = Member(rest);
    file.insert(file.end(), member.begin(), member.end());
  }
  const std::string name = directory_.File("cut.txt.gz");
  WriteBytes(name, file);
  Reader reader = Parse(OpenFiles({name}, InFileOrder(OnDamage::kSkip)), RawParser());
  std::vector<std::string> lines;
  Instance line;
  while (reader.TryReadNext(&line) == ReadResult::kRecord) {
    lines.emplace_back(reinterpret_cast<const char*>(line[0].data), line[0].bytes);
  }
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  EXPECT_EQ(lines, (std::vector<std::string>{"a whole line", "second", "third", "last"}));
  const auto damage = reader.Stats().damage;
  ASSERT_EQ(damage.size(), 2U);
  EXPECT_NE(damage[0].reason.find("goes on at byte"), std::string::npos) << damage[0].reason;
  EXPECT_EQ(damage[0].begin, 0U);  // all of the member, also what was delivered of it
  EXPECT_NE(damage[0].reason.find("(records delivered: 1)"), std::string::npos) << damage[0].reason;
  EXPECT_EQ(damage[1].end, std::string("a whole line\nand the beginning of one\n").size());
}

TEST_F(DamagedMemberTest, WhatIsDeliveredInFrontOfDamageDependsOnNoSizeAndIsReported) {
  std::mt19937_64 random(3);
  std::string text;
  for (int i = 0; i < 40'000; ++i) text += std::to_string(random() % 100'000'000) + '\n';
  const std::vector<std::byte> whole = Member(text);
  const std::string intact = "intact one\nintact two\n";
  for (int round = 0; round < StressRounds(12); ++round) {
    std::vector<std::byte> file = Member(intact);
    const std::size_t before = file.size();
    file.insert(file.end(), whole.begin(), whole.end());
    file[before + 40 + random() % (whole.size() - 40)] ^=
        static_cast<std::byte>(1 + random() % 255);
    const std::string name = directory_.File("sizes.txt.gz");
    WriteBytes(name, file);
    std::vector<std::string> first;
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      for (const std::size_t stripe : {4096U, 40'960U, 1'048'576U}) {
        for (const std::size_t block : {4096U, 12'288U, 524'288U}) {
          OpenOptions options = InFileOrder(policy);
          options.stripe_bytes = stripe;
          options.io.block_bytes = block;
          Reader reader = Parse(OpenFiles({name}, options), RawParser());
          std::vector<std::string> lines;
          Instance line;
          while (reader.TryReadNext(&line) == ReadResult::kRecord) {
            lines.emplace_back(reinterpret_cast<const char*>(line[0].data), line[0].bytes);
          }
          if (first.empty()) first = lines;
          ASSERT_EQ(lines.size(), first.size()) << round << " " << stripe << " " << block;
          ASSERT_TRUE(lines == first);
          const std::string count = "(records delivered: " + std::to_string(lines.size() - 2) + ")";
          if (policy == OnDamage::kFail) {
            EXPECT_NE(reader.status().message().find(count), std::string::npos)
                << count << reader.status().ToString();
            continue;
          }
          const auto damage = reader.Stats().damage;
          ASSERT_EQ(damage.size(), 1U);
          EXPECT_EQ(damage[0].begin, intact.size());
          EXPECT_NE(damage[0].reason.find(count), std::string::npos) << damage[0].reason;
        }
      }
    }
  }
}

TEST_F(DamagedMemberTest, FormatsThatTellNoRecordFromWhatIsNoneEndThere) {
  std::vector<std::byte> file = Member("name,id\nfirst,1\nthi");
  file[file.size() - 6] ^= std::byte{1};
  const auto second = Member("\"rd,3\nfourth,4\n");
  file.insert(file.end(), second.begin(), second.end());
  const std::string name = directory_.File("rows.csv.gz");
  WriteBytes(name, file);
  for (const std::string format : {"csv", "npy", "tokens:u2", "ofrecord"}) {
    OpenOptions options = InFileOrder(OnDamage::kSkip);
    options.format = format;
    Reader reader = OpenFiles({name}, options);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd) << format << found.status.ToString();
    EXPECT_EQ(found.strange, format == "csv" ? 2U : 0U) << format;
    EXPECT_FALSE(reader.Stats().damage.empty()) << format;
  }
}

/// Nobody knows where the content of a compressed file ends, so a length can be checked against
/// nothing.
class PromisedLengthTest : public CompressedFilesTest {
 protected:
  static constexpr std::size_t kMiB = std::size_t{1} << 20;

  OpenOptions InArena(std::size_t bytes, OnDamage on_damage) const {
    OpenOptions options = InFileOrder(on_damage);
    options.arena = std::make_shared<PinnedArena>(bytes);
    options.max_record_bytes = ~std::size_t{0};
    return options;
  }
};

TEST_F(PromisedLengthTest, OneThatNothingStandsBehindTakesNoMemoryAndIsDamage) {
  for (const std::uint64_t length : {std::uint64_t{900} << 20, (std::uint64_t{1} << 62) - 16}) {
    std::vector<std::byte> bytes = MakeTfRecords(0, std::vector<std::size_t>{20, 30}).bytes;
    AppendTfRecordHeader(length, &bytes);
    for (std::uint64_t id = 2; id < 5000; ++id) AppendTfRecord(RecordPayload(id, 990), &bytes);
    const std::string path = directory_.File("promises.tfrecord");
    WriteBytes(path, bytes);
    for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
      for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
        const bool skip = policy == OnDamage::kSkip;
        Reader reader = OpenFiles({Compressed(path, {kind})}, InArena(64 * kMiB, policy));
        const Drained found = Drain(reader);
        EXPECT_EQ(found.end, skip ? ReadResult::kEnd : ReadResult::kFailed);
        EXPECT_EQ(found.status.code(), skip ? StatusCode::kOk : StatusCode::kTruncated)
            << found.status.ToString();
        EXPECT_EQ(found.ids, Numbers(skip ? 5000 : 2));
        EXPECT_EQ(reader.Stats().damage.size(), skip ? 1U : 0U);
        EXPECT_LT(reader.Stats().arena_peak_bytes, 16 * kMiB);
      }
    }
  }
}

TEST_F(PromisedLengthTest, OneThatIsKeptHasMostOfTheArena) {
  const std::string file = MakeFile(std::vector<std::size_t>{100, 50 * kMiB, 100});
  for (const std::size_t stripe : {std::size_t{4096}, kMiB}) {
    OpenOptions options = InArena(64 * kMiB, OnDamage::kFail);
    options.stripe_bytes = stripe;
    const Drained found = Drain(OpenFiles({Compressed(file, {Kind::kGzip})}, options));
    EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
    EXPECT_EQ(found.ids, Numbers(3));
    EXPECT_EQ(found.strange, 0U);
  }
}

/// What grows a thousandfold takes the arena's memory and no more.
class BombTest : public CompressedFilesTest {
 protected:
  static constexpr std::size_t kSmallArena = std::size_t{32} << 20;
  static constexpr std::size_t kContent = std::size_t{96} << 20;

  /// Lines of so many bytes, which come to less than a thousandth.
  std::string Bomb(std::size_t line_bytes, Kind kind) const {
    std::vector<std::byte> content(kContent, std::byte{'x'});
    for (std::size_t at = line_bytes; at < kContent; at += line_bytes) {
      content[at - 1] = std::byte{'\n'};
    }
    std::vector<std::byte> file = Compress(content, {.kind = kind, .level = 9});
    EXPECT_LT(file.size(), kContent / 700);
    const std::string path = directory_.File("bomb.txt.gz");
    WriteBytes(path, file);
    return path;
  }
  OpenOptions Small(OnDamage on_damage) const {
    OpenOptions options;
    options.arena = std::make_shared<PinnedArena>(kSmallArena);
    options.on_damage = on_damage;
    return options;
  }
};

TEST_F(BombTest, LinesOfUsualSizeAreAllRead) {
  for (const Kind kind : {Kind::kGzip, Kind::kZlib, Kind::kZstd}) {
    constexpr std::size_t kLine = 4096;
    const OpenOptions options = Small(OnDamage::kFail);
    Reader reader =
        Batch(Parse(OpenFiles({Bomb(kLine, kind)}, options), RawParser()), {.size = 64});
    std::size_t bytes = 0;
    std::size_t lines = 0;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      bytes += batch[0].bytes;
      lines += batch[0].lod[0].size() - 1;
    }
    EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
    EXPECT_EQ(lines, kContent / kLine);
    EXPECT_EQ(bytes, kContent / kLine * (kLine - 1) + 1);  // the last one has no end
  }
}

TEST_F(BombTest, ALineLargerThanTheArenaOrTheLimitIsAClearFailure) {
  for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
    for (const std::size_t limit : {std::size_t{1} << 30, std::size_t{1} << 20}) {
      OpenOptions options = Small(on_damage);
      options.max_record_bytes = limit;
      Reader reader = OpenFiles({Bomb(kContent, Kind::kGzip)}, options);
      Instance record;
      const ReadResult result = reader.TryReadNext(&record);
      if (result == ReadResult::kEnd) {
        EXPECT_EQ(on_damage, OnDamage::kSkip);
        EXPECT_EQ(reader.Stats().damage.size(), 1U);
        continue;
      }
      EXPECT_EQ(result, ReadResult::kFailed);
      EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted)
          << reader.status().ToString();
    }
  }
}

TEST_F(CompressedFilesTest, TextAndRowsKnowWhetherTheirBytesAreCompressed) {
  const std::string text = "first\nsecond\n\nlast";
  WriteBytes(directory_.File("a.txt"), std::as_bytes(std::span(text)));
  const std::string name = Compressed(directory_.File("a.txt"), {Kind::kZstd});
  EXPECT_EQ(Drain(OpenFiles({name}, Options())).strange, 4U);  // lines, if no payloads of this test

  OpenOptions raw = Options();
  raw.format = "raw";
  const Drained whole = Drain(OpenFiles({name}, raw));
  EXPECT_EQ(whole.strange, 1U);
}

TEST_F(CompressedFilesTest, TheReportSaysHowTheyAreRead) {
  const std::string name = Compressed(MakeFile(RandomSizes(9, 100, 8, 4000)), {Kind::kGzip});
  Reader reader = OpenFiles({name}, Options());
  EXPECT_EQ(Drain(reader).ids.size(), 100U);
  const PipelineStats stats = reader.Stats();
  EXPECT_EQ(stats.read_bytes, Contents(name).size());
  ASSERT_EQ(stats.io.size(), 1U);
  EXPECT_NE(stats.io[0].reason.find("compressed"), std::string::npos);
  EXPECT_TRUE(std::any_of(stats.stages.begin(), stats.stages.end(),
                          [](const StageStats& stage) { return stage.name == "decompress"; }));
}

/// A compressed store of the user's own that says when it is opened for the second pass.
class FirstPassSource final : public MemorySource {
 public:
  FirstPassSource(std::vector<std::byte> bytes, std::latch* again)
      : MemorySource("first.tfrecord.gz", std::move(bytes)), again_(again) {}
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    // Its first bytes are looked at before it is read.
    if (offset == 0 && ++openings_ > 2) {
      if (openings_ == 3) again_->count_down();
      return Status(StatusCode::kIoError, "it was taken away");
    }
    return MemorySource::ReadAt(offset, buffer, bytes_read);
  }

 private:
  std::latch* const again_;
  std::atomic<int> openings_ = 0;
};

/// One whose last bytes come when the other was opened again.
class SlowSource final : public MemorySource {
 public:
  SlowSource(std::vector<std::byte> bytes, std::latch* until)
      : MemorySource("second.tfrecord.gz", std::move(bytes)), until_(until) {}
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    if (offset + buffer.size() >= Size()) {
      until_->wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return MemorySource::ReadAt(offset, buffer, bytes_read);
  }

 private:
  std::latch* const until_;
};

// Its lane would wait for how many turns another one's file has, which is read no further until it
// is this lane's turn no more.
TEST_F(CompressedFilesTest, AFileThatGivesLessInALaterPassKeepsItsTurnsAndHoldsNobodyUp) {
  constexpr std::size_t kFirst = 2000;
  constexpr std::size_t kSecond = 3000;
  const auto compressed = [](std::uint64_t first_id, std::size_t records) {
    const auto image = MakeTfRecords(first_id, RandomSizes(first_id, records, 390, 410));
    return Compress(image.bytes, {.kind = Kind::kGzip, .level = 0});
  };
  std::latch again(1);
  const std::vector<std::shared_ptr<Source>> sources{
      std::make_shared<FirstPassSource>(compressed(0, kFirst), &again),
      std::make_shared<SlowSource>(compressed(kFirst, kSecond), &again)};
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  options.stripe_bytes = 4096;
  options.cycle = 2;
  options.threads = 2;
  Reader reader = Batches(MultiPass(OpenSources(sources, options), 2), 10);
  const Drained found = Drain(reader);
  EXPECT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
  EXPECT_EQ(found.ids.size(), kFirst + 2 * kSecond);
  EXPECT_EQ(reader.Stats().damage.size(), 1U);
}

}  // namespace
}  // namespace ringfeed
