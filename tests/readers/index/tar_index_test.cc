#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "readers/index/index_builder.h"
#include "readers/index/open_index.h"
#include "readers/index/paged_index.h"
#include "ringfeed/decorators.h"
#include "tests/readers/formats/tar_file.h"
#include "tests/readers/index/read_both_ways.h"

namespace ringfeed {
namespace {

using Offsets = std::vector<std::uint64_t>;

std::string IndexOf(const Offsets& offsets) {
  std::string index(offsets.size() * 8, '\0');
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    StoreLe(reinterpret_cast<std::byte*>(index.data()) + 8 * i, offsets[i]);
  }
  return index;
}

/// As Energon has them of an archive of these samples.
Offsets OffsetsOf(const std::vector<std::string>& samples) {
  Offsets offsets = {0};
  for (const std::string& sample : samples) offsets.push_back(offsets.back() + sample.size());
  return offsets;
}

std::string Joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

class TarIndexTest : public testing::Test {
 protected:
  void Write(const std::string& bytes) {
    bytes_ = bytes;
    file_ = FileAt(folder_.File("a.tar"), "tar", bytes_);
  }
  OpenedIndex With(const std::string& index) {
    WriteText(folder_.File("a.tar.idx"), index);
    IndexOptions options;
    options.save = false;
    return OpenRecordIndex(file_, options);
  }
  Status Read(const std::string& index, IndexImage* image) {
    WriteText(folder_.File("a.tar.idx"), index);
    return ReadTarIndex(folder_.File("a.tar.idx"), file_, image);
  }
  void ExpectUsed(const Offsets& offsets) {
    const OpenedIndex opened = With(IndexOf(offsets));
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_EQ(opened.origin, IndexOrigin::kForeign);
    EXPECT_EQ(opened.why, "");
    EXPECT_EQ(opened.index->records(), offsets.size() - 1);
    ExpectSameBothWays(file_, bytes_, *opened.index);
    EXPECT_TRUE(IsAsScanned(*opened.pages));
  }
  /// The reason.
  std::string ExpectNotBelieved(const std::string& index) {
    const OpenedIndex opened = With(index);
    EXPECT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_EQ(opened.origin, IndexOrigin::kBuilt);
    EXPECT_NE(opened.why.find("the index " + file_.name + ".idx was not believed"),
              std::string::npos)
        << opened.why;
    if (opened.status.ok()) ExpectSameBothWays(file_, bytes_, *opened.index);
    return opened.why;
  }
  bool IsAsScanned(const PagedIndex& index) const {
    IndexImage scanned;
    return ScanForIndex(file_, &scanned).ok() && scanned.damage.empty() &&
           index.SameUnits(PagedIndex(std::move(scanned)));
  }

  const TestFolder folder_;
  std::string bytes_;
  IndexedFile file_;
};

TEST_F(TarIndexTest, IsUsedIfSamplesBeginWhereItSays) {
  const std::vector<std::string> samples = SomeSamples(40);
  Write(TarOf(samples));
  ExpectUsed(OffsetsOf(samples));
  Write(TarOf(samples) + std::string(9 * 1024, '\0'));  // as tar pads it
  ExpectUsed(OffsetsOf(samples));
  Write(TarOf({}));
  ExpectUsed({0});
}

// Each of these is put together in a way of its own; Energon passes over what is here, too.
TEST_F(TarIndexTest, SamplesBeginWithTheirExtensionHeaders) {
  const std::string pax = TarPax(PaxRecord("path", "dir/long.jpg")) + TarFile("short", "abc");
  const std::string gnu =
      TarFile("././@LongLink", "dir/other.jpg\0", 'L') + TarFile("short", "abc");
  const std::string big = TarFile("dir/big.jpg", std::string(70'000, 'x'));
  const std::string folder = TarFile("dir/", "", '5');
  const std::string link = TarFile("dir/link.jpg", "", '2');
  const std::string comment = TarPax(PaxRecord("comment", "made today"), 'g');
  Write(Joined({comment, folder, pax, link, gnu, folder, big, pax, folder, TarEnd()}));
  const std::uint64_t first = comment.size() + folder.size();
  const std::uint64_t second = first + pax.size() + link.size();
  const std::uint64_t third = second + gnu.size() + folder.size();
  const std::uint64_t fourth = third + big.size();
  ExpectUsed({first, second, third, fourth, fourth + pax.size() + folder.size()});
}

TEST_F(TarIndexTest, IsNotBelievedIfItDoesNotFit) {
  const std::vector<std::string> samples = SomeSamples(5);
  const Offsets good = OffsetsOf(samples);
  Write(TarOf(samples));
  const auto without = [&](std::size_t entry) {
    Offsets offsets = good;
    offsets.erase(offsets.begin() + static_cast<std::ptrdiff_t>(entry));
    return offsets;
  };
  const auto with = [&](std::size_t entry, std::uint64_t offset) {
    Offsets offsets = good;
    offsets[entry] = offset;
    return offsets;
  };
  const std::uint64_t beyond = ~std::uint64_t{0};
  const std::vector<Offsets> wrong = {{},
                                      {0},
                                      {0, good[5]},
                                      without(0),
                                      without(1),
                                      without(4),
                                      without(5),
                                      with(2, good[2] - 512),
                                      with(2, good[2] + 1),
                                      with(2, good[1]),
                                      with(2, good[4]),
                                      with(2, beyond),
                                      with(5, beyond),
                                      with(5, good[5] - 512),
                                      with(5, good[5] + 512),
                                      with(0, 512),
                                      with(5, bytes_.size())};
  for (const Offsets& offsets : wrong) ExpectNotBelieved(IndexOf(offsets));
  ExpectNotBelieved(IndexOf(good) + "x");
  ExpectNotBelieved("v1.2 5\ncls 512 1 dir/000000.cls jpg 1536 300 dir/000000.jpg\n");
  EXPECT_NE(ExpectNotBelieved(IndexOf(without(2))).find("sample 2 begins at"), std::string::npos);
}

TEST_F(TarIndexTest, NoDamageOfItsBytesIsBelieved) {
  const std::vector<std::string> samples = SomeSamples(3);
  Write(TarOf(samples));
  const std::string good = IndexOf(OffsetsOf(samples));
  IndexImage image;
  ASSERT_TRUE(Read(good, &image).ok());
  for (std::size_t at = 0; at < good.size(); ++at) {
    EXPECT_FALSE(Read(good.substr(0, at), &image).ok()) << at;
    for (int bit = 0; bit < 8; ++bit) {
      std::string index = good;
      index[at] = static_cast<char>(index[at] ^ (1 << bit));
      EXPECT_FALSE(Read(index, &image).ok()) << at << ", bit " << bit;
    }
  }
}

// If an index of a damaged archive is believed, it is the one that a scan would make.
TEST_F(TarIndexTest, OfADamagedArchiveItIsBelievedOnlyIfAScanSaysTheSame) {
  const std::vector<std::string> samples = SomeSamples(3);
  const std::string good = TarOf(samples);
  const std::string index = IndexOf(OffsetsOf(samples));
  int believed = 0;
  for (std::size_t at = 0; at < good.size(); at += at % 512 < 400 ? 7 : 41) {
    for (const bool cut : {false, true}) {
      std::string bytes = good.substr(0, cut ? at : good.size());
      if (!cut) bytes[at] = static_cast<char>(bytes[at] ^ 1);
      Write(bytes);
      IndexImage image;
      if (!Read(index, &image).ok()) continue;
      ++believed;
      EXPECT_TRUE(IsAsScanned(PagedIndex(std::move(image)))) << at << (cut ? ", cut" : "");
    }
  }
  EXPECT_GT(believed, 0);  // a changed byte of a member
}

// What Energon takes for other samples than we do, and archives of which more is to be told.
TEST_F(TarIndexTest, OfSamplesThatAreOthersHereItIsNotBelieved) {
  const std::string a = TarFile("a.jpg", "a") + TarFile("a.cls", "1");
  const std::string b = TarFile("b.jpg", "b");
  const std::string meta = TarFile("__meta__.json", "{}");
  Write(Joined({meta, a, b, TarEnd()}));
  ExpectNotBelieved(
      IndexOf({meta.size(), meta.size() + a.size(), meta.size() + a.size() + b.size()}));
  Write(Joined({a, a, b, TarEnd()}));  // samples of one key next to each other
  ExpectNotBelieved(IndexOf({0, 2 * a.size(), 2 * a.size() + b.size()}));
  const Offsets both = OffsetsOf({a, b});
  for (const std::string& end : {std::string(), std::string(512, '\0'), TarEnd() + a + TarEnd()}) {
    Write(a + b + end);
    ExpectNotBelieved(IndexOf(both));
  }
  Write(a + b + TarEnd());
  file_.max_record_bytes = 1500;
  EXPECT_NE(ExpectNotBelieved(IndexOf(both)).find("max_record_bytes"), std::string::npos);
}

TEST_F(TarIndexTest, ArchivesWhoseRecordsCannotBeReadByThemselvesStayRefused) {
  const std::string globals = TarPax(PaxRecord("path", "a.jpg"), 'g');
  const std::string a = TarFile("a.jpg", "a");
  Write(Joined({globals, a, TarEnd()}));
  EXPECT_EQ(With(IndexOf({globals.size(), globals.size() + a.size()})).status.code(),
            StatusCode::kUnsupported);
}

// The folder as Energon leaves it.
TEST_F(TarIndexTest, AFolderOfEnergonIsReadInAnOrderByNumber) {
  const std::string data = folder_.File("data");
  std::filesystem::create_directories(data + "/.nv-meta");
  WriteText(data + "/.nv-meta/.info.json", "{\"shard_counts\": {\"0.tar\": 9, \"1.tar\": 9}}");
  WriteText(data + "/.nv-meta/split.yaml", "split_parts:\n  train: ['{0..1}.tar']\n");
  const std::vector<std::string> samples = SomeSamples(9);
  for (const std::string name : {"/0.tar", "/1.tar"}) {
    WriteText(data + name, TarOf(samples));
    WriteText(data + name + ".idx", IndexOf(OffsetsOf(samples)));
  }
  Reader reader = Shuffle(OpenFiles({data}, {}), {.seed = 1, .mode = ShuffleMode::kGlobal});
  std::uint64_t records = 0;
  RecordBlock block;
  ReadResult result;
  while ((result = reader.TryReadBlock(&block)) == ReadResult::kRecord) {
    records += block.records().size();
  }
  EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
  EXPECT_EQ(records, 2 * samples.size());
  EXPECT_EQ(reader.Stats().order.find("not believed"), std::string::npos) << reader.Stats().order;
}

// The next process need not compare it again.
TEST_F(TarIndexTest, WhatFitsIsKept) {
  const std::vector<std::string> samples = SomeSamples(5);
  Write(TarOf(samples));
  const std::string path = file_.name + ".idx";
  WriteText(path, IndexOf(OffsetsOf(samples)));
  EXPECT_EQ(OpenRecordIndex(file_).origin, IndexOrigin::kForeign);
  WriteText(path, "");
  const OpenedIndex opened = OpenRecordIndex(file_);
  EXPECT_EQ(opened.origin, IndexOrigin::kOpened);
  EXPECT_EQ(opened.why, "");
  ExpectSameBothWays(file_, bytes_, *opened.index);
  EXPECT_TRUE(CheckRecordIndex(file_).ok());
  EXPECT_EQ(BuildRecordIndex(file_).origin, IndexOrigin::kBuilt);
}

/// As DALI's wds2idx, version 1.2, has it of an archive of these members, two of each sample.
std::string DaliIndexOf(const std::vector<std::string>& names, std::size_t bytes) {
  std::string index = "v1.2 " + std::to_string(names.size() / 2) + "\n";
  const std::size_t member = TarFile(names[0], std::string(bytes, 'x')).size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    index += names[i].substr(names[i].find('.') + 1) + " " + std::to_string(member * i + 512) +
             " " + std::to_string(bytes) + " " + names[i] + (i % 2 == 0 ? " " : "\n");
  }
  return index;
}

class DaliTarIndexTest : public TarIndexTest {
 protected:
  DaliTarIndexTest() {
    std::string archive;
    for (const std::string& name : names_) archive += TarFile(name, std::string(700, 'x'));
    Write(archive + TarEnd());
  }

  const std::vector<std::string> names_ = {"d/a.seg.png", "d/a.cls", "d/b.seg.png",
                                           "d/b.cls",     "c.jpg",   "c.cls"};
  const std::string good_ = DaliIndexOf(names_, 700);
};

TEST_F(DaliTarIndexTest, IsUsedIfMembersAreWhereItSays) {
  const OpenedIndex opened = With(good_);
  ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
  EXPECT_EQ(opened.origin, IndexOrigin::kForeign);
  EXPECT_EQ(opened.index->records(), 3U);
  ExpectSameBothWays(file_, bytes_, *opened.index);
  EXPECT_TRUE(IsAsScanned(*opened.pages));
  IndexImage image;
  std::string old = "v1.1" + good_.substr(4);
  for (const std::string& name : names_) old.erase(old.find(" " + name), name.size() + 1);
  EXPECT_TRUE(Read(old, &image).ok());
  EXPECT_FALSE(Read("v1.1" + good_.substr(4), &image).ok());
}

TEST_F(DaliTarIndexTest, IsFoundUnderTheNameThatItsToolGives) {
  WriteText(folder_.File("a.idx"), good_);
  IndexOptions options;
  options.save = false;
  const OpenedIndex opened = OpenRecordIndex(file_, options);
  EXPECT_EQ(opened.origin, IndexOrigin::kForeign);
  EXPECT_EQ(opened.path, folder_.File("a.idx"));
  // A folder is read without it.
  Reader reader = OpenFiles({folder_.path()}, {});
  RecordBlock block;
  ASSERT_EQ(reader.TryReadBlock(&block), ReadResult::kRecord) << reader.status().ToString();
  EXPECT_EQ(block.records().size(), 3U);
}

TEST_F(DaliTarIndexTest, NoDamageOfItsBytesChangesTheSamples) {
  IndexImage image;
  for (std::size_t at = 0; at < good_.size(); ++at) {
    EXPECT_FALSE(Read(good_.substr(0, at), &image).ok()) << at;
    for (int bit = 0; bit < 8; ++bit) {
      std::string index = good_;
      index[at] = static_cast<char>(index[at] ^ (1 << bit));
      // Names are not compared, and version 1.1 has none.
      const bool is_read = Read(index, &image).ok();
      EXPECT_TRUE(!is_read || IsAsScanned(PagedIndex(image))) << at;
    }
  }
  for (const std::string& index :
       {good_ + "\n", good_ + "jpg 1 1 x\n", "v1.2 2\n" + good_.substr(7), std::string("v1.2 ")}) {
    EXPECT_FALSE(Read(index, &image).ok()) << index;
  }
}

}  // namespace
}  // namespace ringfeed
