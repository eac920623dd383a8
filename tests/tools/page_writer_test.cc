// The page that `ringfeed trace --page` writes, and what it refuses.
#include "tools/trace/page_writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ringfeed::tools {
namespace {

class PageWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "page_writer_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/trace.html";
    writer_ = NewPageWriter(path_);
    ASSERT_TRUE(writer_->Begin(5'000'000'000).ok());
    ASSERT_TRUE(writer_->AddProcess(1, "rank 0 on a").ok());
  }
  void TearDown() override {
    writer_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::string Written() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  std::string path_;
  std::unique_ptr<TraceWriter> writer_;
};

TEST_F(PageWriterTest, ThePageHasOnePlaceForATrace) {
  const std::string_view page = TracePage();
  const std::size_t at = page.find(kTracePlace);
  ASSERT_NE(at, std::string_view::npos);
  EXPECT_EQ(page.find(kTracePlace, at + 1), std::string_view::npos);
}

TEST_F(PageWriterTest, ASpanStandsWithItsRowTimesAndName) {
  ASSERT_TRUE(writer_->AddRow(1, {1, 2, "device 0 copy"}).ok());
  ASSERT_TRUE(writer_->AddSpan(1, {"copy 17", "copy", 1, 2, 5'000'000'250, 500}).ok());
  ASSERT_TRUE(writer_->End().ok());
  const std::string page = Written();
  EXPECT_NE(page.find("\n[0,250,500,\"copy 17\"]\n"), std::string::npos);
  EXPECT_NE(page.find("\"rows\": [[0,\"device 0 copy\"]]"), std::string::npos);
  EXPECT_NE(page.find("\"processes\": [\"rank 0 on a\"]"), std::string::npos);
  EXPECT_NE(page.find("\"began_ms\": 5000}"), std::string::npos);
  EXPECT_EQ(page.find(kTracePlace), std::string::npos);
}

TEST_F(PageWriterTest, ARowWithoutANameIsKnownByItsFirstSpan) {
  ASSERT_TRUE(writer_->AddSpan(1, {"copy 1", "copy", 4, 4, 5'000'000'000, 1}).ok());
  ASSERT_TRUE(writer_->AddSpan(1, {"copy 2", "copy", 4, 4, 5'000'000'001, 1}).ok());
  ASSERT_TRUE(writer_->End().ok());
  EXPECT_NE(Written().find("\"rows\": [[0,\"copy\"]]"), std::string::npos);
}

TEST_F(PageWriterTest, NoNameEndsTheScriptThatItStandsIn) {
  const std::string name = "</script><script>alert(1)</script><!--";
  ASSERT_TRUE(writer_->AddRow(1, {0, 0, name}).ok());
  ASSERT_TRUE(writer_->AddSpan(1, {name, "copy", 0, 0, 5'000'000'000, 1}).ok());
  ASSERT_TRUE(writer_->End().ok());
  EXPECT_EQ(Written().find("<script>alert"), std::string::npos);
  EXPECT_NE(Written().find("\\u003c/script>\\u003cscript>alert"), std::string::npos);
}

TEST_F(PageWriterTest, MoreSpansThanABrowserDrawsAreRefused) {
  Status status;
  TraceEvent span{"copy 1", "copy", 0, 0, 5'000'000'000, 1};
  for (std::uint64_t i = 0; i < kMostSpansOfPage; ++i) {
    status = writer_->AddSpan(1, span);
    ASSERT_TRUE(status.ok()) << i;
  }
  status = writer_->AddSpan(1, span);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("--out"), std::string::npos) << status.ToString();
  writer_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(PageWriterTest, MoreRowsThanABrowserDrawsAreRefused) {
  Status status;
  for (std::int64_t i = 0; i <= static_cast<std::int64_t>(kMostRowsOfPage) && status.ok(); ++i) {
    status = writer_->AddRow(1, {0, i, "a row"});
  }
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringfeed::tools
