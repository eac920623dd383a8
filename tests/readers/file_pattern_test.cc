#include "readers/chain/file_pattern.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

using Names = std::vector<std::string>;

// What a pattern without files in the way is written out to.
Names WrittenOut(const std::string& pattern) {
  Names names;
  const Status status = ExpandPattern(pattern, &names);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return names;
}

class FilePatternTest : public testing::Test {
 protected:
  void Make(const Names& files) const {
    for (const std::string& file : files) WritePatternFile(directory_.File(file), 1);
  }
  Names Expanded(const std::string& pattern) const {
    Names names = WrittenOut(directory_.File(pattern));
    for (std::string& name : names) name = name.substr(directory_.File("").size());
    return names;
  }
  Status StatusOf(const std::string& pattern) const {
    Names names = {"before"};
    Status status = ExpandPattern(directory_.File(pattern), &names);
    EXPECT_EQ(names, Names{"before"});
    return status;
  }

  TempDir directory_;
};

TEST(WrittenPatternTest, ARangeIsWhatBashMakesOfIt) {
  EXPECT_EQ(WrittenOut("s-{000..003}.tar"),
            (Names{"s-000.tar", "s-001.tar", "s-002.tar", "s-003.tar"}));
  EXPECT_EQ(WrittenOut("{8..10}"), (Names{"8", "9", "10"}));
  EXPECT_EQ(WrittenOut("{08..10}"), (Names{"08", "09", "10"}));
  EXPECT_EQ(WrittenOut("{9..010}"), (Names{"009", "010"}));
  EXPECT_EQ(WrittenOut("{-01..1}"), (Names{"-01", "000", "001"}));
  EXPECT_EQ(WrittenOut("{3..1}"), (Names{"3", "2", "1"}));
  EXPECT_EQ(WrittenOut("{0..10..5}"), (Names{"0", "5", "10"}));
  EXPECT_EQ(WrittenOut("{10..1..4}"), (Names{"10", "6", "2"}));
  EXPECT_EQ(WrittenOut("{1..3..-2}"), (Names{"1", "3"}));
  EXPECT_EQ(WrittenOut("{1..2..0}"), (Names{"1", "2"}));
  EXPECT_EQ(WrittenOut("{7..7}"), (Names{"7"}));
  EXPECT_EQ(WrittenOut("{00..1}"), (Names{"00", "01"}));
}

TEST(WrittenPatternTest, ListsRangesAndBracesInsideOthersAreCombined) {
  EXPECT_EQ(WrittenOut("{train,val}.rec"), (Names{"train.rec", "val.rec"}));
  EXPECT_EQ(WrittenOut("{1..2}{a,b}"), (Names{"1a", "1b", "2a", "2b"}));
  EXPECT_EQ(WrittenOut("{a{1,2},b}x"), (Names{"a1x", "a2x", "bx"}));
  EXPECT_EQ(WrittenOut("{a,{1..2}}"), (Names{"a", "1", "2"}));
  EXPECT_EQ(WrittenOut("x{,y}"), (Names{"x", "xy"}));
}

TEST(WrittenPatternTest, WhatAShellLeavesAloneStays) {
  for (const std::string text : {"{a}", "{}", "{1..2..x}", "{..3}", "{1..}", "{a..}", "{1..2",
                                 "1..2}", "{1.2}", "a", "-", "{1,2", "{99999999999999999999..1}"}) {
    EXPECT_EQ(WrittenOut(text), Names{text});
  }
  EXPECT_EQ(WrittenOut("{{1..2}}"), (Names{"{1}", "{2}"}));
  EXPECT_EQ(WrittenOut("{x{1..2}"), (Names{"{x1", "{x2"}));
  EXPECT_EQ(WrittenOut("a}{1..2}"), (Names{"a}1", "a}2"}));
}

TEST(WrittenPatternTest, TooManyNamesAreRefused) {
  EXPECT_EQ(WrittenOut("{1..1000}{1..1000}").size(), kMostPatternNames);
  for (const char* const many : {"{1..1000001}", "{1..1000}{1..1001}",
                                 "{-999999999999999999..999999999999999999..999999}{1..2}"}) {
    Names names;
    EXPECT_EQ(ExpandPattern(many, &names).code(), StatusCode::kInvalidArgument) << many;
    EXPECT_TRUE(names.empty());
  }
}

TEST_F(FilePatternTest, WildcardsGiveWhatMatchesSorted) {
  Make({"b-2", "b-1", "a-1"});
  EXPECT_EQ(Expanded("*"), (Names{"a-1", "b-1", "b-2"}));
  EXPECT_EQ(Expanded("?-[1]"), (Names{"a-1", "b-1"}));
  EXPECT_EQ(StatusOf("c*").code(), StatusCode::kNotFound);
  EXPECT_EQ(Expanded("c-1"), (Names{"c-1"}));  // whoever opens it says that it is not there
}

TEST_F(FilePatternTest, BracesComeInTheirOrderAndWildcardsInThemSorted) {
  Make({"a-2", "a-1", "b-1"});
  EXPECT_EQ(Expanded("{b,a}-*"), (Names{"b-1", "a-1", "a-2"}));
  EXPECT_EQ(Expanded("a-{2..0}"), (Names{"a-2", "a-1", "a-0"}));
  const Status status = StatusOf("{a,c}-*");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/c-*"), std::string::npos);
}

TEST_F(FilePatternTest, AFileOfThatVeryNameWins) {
  Make({"s-{0..1}", "s-0", "s-1", "[ab]", "a", "b", "{x,y}-1", "x-1", "y-1", "z-*", "z-1"});
  EXPECT_EQ(Expanded("s-{0..1}"), (Names{"s-{0..1}"}));
  EXPECT_EQ(Expanded("[ab]"), (Names{"[ab]"}));
  EXPECT_EQ(Expanded("{x,y}-?"), (Names{"{x,y}-1"}));
  EXPECT_EQ(Expanded("{z,x}-*"), (Names{"z-*", "x-1"}));
}

TEST_F(FilePatternTest, AFolderIsTheFilesInItAndInItsFoldersButNoHiddenOnes) {
  for (const char* const folder : {"d", "d/b", "d/.hidden", "empty"}) {
    ASSERT_EQ(mkdir(directory_.File(folder).c_str(), 0777), 0);
  }
  Make({"d/c", "d/a", "d/.a.rfx", "d/b/2", "d/b/1", "d/.hidden/x", "e"});
  ASSERT_EQ(symlink("../e", directory_.File("d/link").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", directory_.File("d/lost").c_str()), 0);
  const Names files = {"d/a", "d/b/1", "d/b/2", "d/c", "d/link", "d/lost"};
  EXPECT_EQ(Expanded("d"), files);
  EXPECT_EQ(Expanded("d/b/"), (Names{"d/b/1", "d/b/2"}));
  EXPECT_EQ(StatusOf("empty").code(), StatusCode::kNotFound);
  ASSERT_EQ(symlink("..", directory_.File("d/loop").c_str()), 0);
  EXPECT_FALSE(StatusOf("d").ok());
}

TEST_F(FilePatternTest, AFolderIsWithoutTheIndexesThatOthersPutBesideItsFiles) {
  for (const char* const folder : {"d", "d/.nv-meta", "d/b"}) {
    ASSERT_EQ(mkdir(directory_.File(folder).c_str(), 0777), 0);
  }
  Make({"d/.nv-meta/.info.json", "d/.nv-meta/split.yaml", "d/1.tar", "d/1.tar.idx", "d/1.tar.index",
        "d/b/1.jsonl", "d/b/1.jsonl.idx", "d/b/1.tar.idx", "d/m.bin", "d/m.idx"});
  // Megatron's table is the data set, and an index of no file there is told when it is opened.
  EXPECT_EQ(Expanded("d"),
            (Names{"d/1.tar", "d/b/1.jsonl", "d/b/1.tar.idx", "d/m.bin", "d/m.idx"}));
  EXPECT_EQ(Expanded("d/1.*"), (Names{"d/1.tar", "d/1.tar.idx", "d/1.tar.index"}));
}

TEST_F(FilePatternTest, AnAddressIsToldHowToBeReadUnlessItIsAPathHere) {
  for (const std::string name : {"memory+x-1.0://a", "ftp://host/a-*", "abfs://c/{0..9}.tar"}) {
    Names names;
    const Status status = ExpandPattern(name, &names);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << name;
    for (const std::string part : {name.c_str(), "copy", "mount", "OpenSources"}) {
      EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
    }
    EXPECT_TRUE(names.empty());
  }
  Names names;
  const Status local = ExpandPattern("file:///data/a.tar", &names);
  EXPECT_EQ(local.code(), StatusCode::kUnsupported);
  EXPECT_NE(local.message().find("the path alone, /data/a.tar"), std::string::npos);
  EXPECT_EQ(WrittenOut("C://a"), Names{"C://a"});  // no scheme has one letter
  EXPECT_EQ(WrittenOut("a b://c"), Names{"a b://c"});
  ASSERT_EQ(mkdir(directory_.File("ftp:").c_str(), 0777), 0);
  Make({"ftp:/a"});
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  EXPECT_EQ(WrittenOut("ftp://a"), Names{"ftp://a"});
  EXPECT_EQ(WrittenOut("ftp://*"), Names{"ftp://a"});
  std::filesystem::current_path(before);
}

TEST_F(FilePatternTest, AnAddressOfAStoreIsWrittenOutWithoutAskingIt) {
  EXPECT_EQ(
      WrittenOut("https://host/{0..2}.tar?key=1"),
      (Names{"https://host/0.tar?key=1", "https://host/1.tar?key=1", "https://host/2.tar?key=1"}));
  EXPECT_EQ(WrittenOut("s3://b/a.tfrecord"), Names{"s3://b/a.tfrecord"});
  Names names;
  EXPECT_EQ(ExpandPattern("s3:/b/a", &names).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ExpandPattern("https://host/{0..2000000}.tar", &names).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(names.empty());
}

TEST_F(FilePatternTest, AFolderThatCannotBeReadIsNoEmptyOne) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string folder = directory_.File("closed");
  ASSERT_EQ(mkdir(folder.c_str(), 0), 0);
  EXPECT_EQ(StatusOf("closed/*").code(), StatusCode::kIoError);
  EXPECT_EQ(StatusOf("{closed,open}/*").code(), StatusCode::kIoError);
}

TEST_F(FilePatternTest, AFolderOfAnotherProgramIsRefusedWithAWay) {
  for (const char* folder : {"set/_versions", "array", "table/_delta_log"}) {
    std::filesystem::create_directories(directory_.File(folder));
  }
  Make({"set/_versions/1.manifest", "array/zarr.json", "table/_delta_log/0.json",
        "table/0.parquet"});
  EXPECT_EQ(StatusOf("set").code(), StatusCode::kUnsupported);
  EXPECT_NE(StatusOf("set").message().find("lance.dataset(PATH)"), std::string::npos);
  EXPECT_NE(StatusOf("array").message().find("Zarr"), std::string::npos);
  EXPECT_NE(StatusOf("table").message().find("deleted and outdated rows"), std::string::npos);
}

}  // namespace
}  // namespace ringfeed
