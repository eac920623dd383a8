// Data sets of several files (shards with an index, pairs) are read from a store as from a disk.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "ringfeed/ringfeed.h"
#include "tests/readers/sample_files_fixture.h"
#include "tests/remote/nginx_server.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

class RemoteDataSetTest : public SampleFilesTest {
 protected:
  void SetUp() override {
    if (!NginxServer::Missing().empty()) GTEST_SKIP() << NginxServer::Missing();
    server_ = std::make_unique<NginxServer>(RINGFEED_TEST_DATA);
  }
  std::string Url(const std::string& name) const { return server_->Url(name); }
  Status FailureOf(const std::string& name, const std::string& format = "") const {
    OpenOptions options = Options();
    options.format = format;
    try {
      Reader reader = OpenFiles({name}, options);
      RecordBlock block;
      while (reader.TryReadBlock(&block) == ReadResult::kRecord) {
      }
      return reader.status();
    } catch (const Error& error) {
      return error.status();
    }
  }

  std::unique_ptr<NginxServer> server_;
};

TEST_F(RemoteDataSetTest, AFolderOfShardsIsThatOfADisk) {
  for (const std::string set :
       {"mds/columns_none", "mds/columns_zstd", "mds/encodings", "litdata/plain", "litdata/items",
        "litdata/frames", "litdata/arrow", "litdata/arrow_zstd"}) {
    const auto local = RecordsOf({FixturePath(set)});
    EXPECT_FALSE(local.empty());
    EXPECT_EQ(RecordsOf({Url(set + "/")}), local) << set;
    EXPECT_EQ(RecordsOf({Url(set + "/index.json")}), local) << set;
  }
}

TEST_F(RemoteDataSetTest, ItIsReadInEveryOrderByRanksWithRestores) {
  for (const std::string set : {"mds/columns_none", "litdata/plain"}) {
    ExpectEveryOrder(Url(set + "/"), RecordsOf({FixturePath(set)}).size());
  }
}

TEST_F(RemoteDataSetTest, FieldsAreThoseOfADisk) {
  for (const std::string set : {"mds/encodings", "litdata/plain"}) {
    InferredParser local;
    InferredParser remote;
    const auto expected = ValuesOf(FixturePath(set), &local);
    EXPECT_EQ(ValuesOf(Url(set + "/"), &remote), expected) << set;
    EXPECT_FALSE(expected.empty());
  }
}

TEST_F(RemoteDataSetTest, ATableThatNamesFilesElsewhereIsRefused) {
  const std::string folder = Copied("mds/columns_none");
  const std::string table = R"({"shards": [{"format": "mds", "raw_data": {"basename": "../a"}}]})";
  std::ofstream(folder + "/index.json") << table;
  server_ = std::make_unique<NginxServer>(folder);
  EXPECT_EQ(FailureOf(Url("index.json")).code(), StatusCode::kDamaged);
}

TEST_F(RemoteDataSetTest, AShardThatIsMissingIsSaidToBe) {
  const std::string folder = Copied("mds/columns_none");
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".mds") fs::remove(entry.path());
  }
  server_ = std::make_unique<NginxServer>(folder);
  const Status failure = FailureOf(Url("index.json"));
  EXPECT_EQ(failure.code(), StatusCode::kNotFound) << failure.ToString();
  EXPECT_NE(failure.ToString().find("shard.00000.mds"), std::string::npos) << failure.ToString();
}

TEST_F(RemoteDataSetTest, APairIsReadByEitherName) {
  for (const std::string pair : {"megatron/gpt_int32", "megatron/gpt_uint16"}) {
    const auto local = RecordsOf({FixturePath(pair + ".idx")});
    EXPECT_FALSE(local.empty());
    EXPECT_EQ(RecordsOf({Url(pair + ".idx")}), local);
    OpenOptions options = Options();
    options.threads = 1;
    options.cycle = 1;
    options.format = "megatron";
    EXPECT_EQ(RecordsOf(OpenFiles({Url(pair + ".bin")}, options)), local);
    Reader shuffled = Shuffle(OpenFiles({Url(pair + ".idx")}, Options()),
                              {.seed = 5, .mode = ShuffleMode::kGlobal});
    Reader of_disk = Shuffle(OpenFiles({FixturePath(pair + ".idx")}, Options()),
                             {.seed = 5, .mode = ShuffleMode::kGlobal});
    EXPECT_EQ(RecordsOf(shuffled), RecordsOf(of_disk));
  }
}

TEST_F(RemoteDataSetTest, WhatOfAPairCannotBeReadIsRefusedInWords) {
  const std::string pair = Url("megatron/gpt_int32.idx");
  EXPECT_EQ(FailureOf(pair, "megatron:window=8").code(), StatusCode::kUnsupported);
  // A query may be a secret of that one object.
  EXPECT_EQ(FailureOf(pair + "?signature=x").code(), StatusCode::kUnsupported);
  const std::string folder = Copied("megatron");
  fs::remove(folder + "/gpt_int32.bin");
  server_ = std::make_unique<NginxServer>(folder);
  const Status failure = FailureOf(Url("gpt_int32.idx"));
  EXPECT_EQ(failure.code(), StatusCode::kNotFound) << failure.ToString();
  EXPECT_NE(failure.ToString().find("gpt_int32.bin"), std::string::npos) << failure.ToString();
}

}  // namespace
}  // namespace ringfeed
