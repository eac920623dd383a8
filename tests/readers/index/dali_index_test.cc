#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "readers/index/open_index.h"
#include "ringfeed/decorators.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/readers/index/read_both_ways.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

// As tfrecord2idx writes it.
std::string DaliIndex(const std::vector<std::string>& payloads) {
  std::string text;
  std::size_t at = 0;
  for (const std::string& payload : payloads) {
    text += std::to_string(at) + " " + std::to_string(payload.size() + 16) + "\n";
    at += payload.size() + 16;
  }
  return text;
}

class DaliIndexTest : public testing::Test {
 protected:
  DaliIndexTest() {
    for (int i = 0; i < 20; ++i) {
      for (const std::string& payload : SomePayloads()) payloads_.push_back(payload);
    }
    bytes_ = PlainFile(payloads_);
    file_ = FileAt(folder_.File("a.tfrecord"), "tfrecord", bytes_);
  }

  OpenedIndex With(const std::string& index) {
    WriteText(folder_.File("a.tfrecord.idx"), index);
    IndexOptions options;
    options.save = false;
    return OpenRecordIndex(file_, options);
  }

  const TestFolder folder_;
  std::vector<std::string> payloads_;
  std::string bytes_;
  IndexedFile file_;
};

TEST_F(DaliIndexTest, IsUsedWhereItCoversTheFile) {
  const std::string text = DaliIndex(payloads_);
  for (const std::string& index : {text, text.substr(0, text.size() - 1)}) {
    const OpenedIndex opened = With(index);
    ASSERT_TRUE(opened.status.ok());
    EXPECT_EQ(opened.origin, IndexOrigin::kForeign);
    EXPECT_EQ(opened.why, "");
    ExpectSameBothWays(file_, bytes_, *opened.index);
  }
}

// Each line is compared with the file: one that is stale by a single record is not believed.
TEST_F(DaliIndexTest, ALineOverTwoRecordsIsFoundAmongVeryMany) {
  constexpr std::uint64_t kRecords = 1000;
  constexpr std::uint64_t kBytes = 40 + 16;
  const std::vector<std::size_t> sizes(kRecords, 40);
  WriteTfRecords(file_.name, 0, sizes);
  std::string text;
  for (std::uint64_t record = 0; record < kRecords; ++record) {
    const std::uint64_t records = record == 517 ? 2 : 1;
    text += std::to_string(record * kBytes) + " " + std::to_string(records * kBytes) + "\n";
    record += records - 1;
  }
  WriteText(file_.name + ".idx", text);
  Reader reader = Shuffle(OpenFiles({file_.name}, {.format = "tfrecord"}),
                          {.seed = 1, .mode = ShuffleMode::kGlobal});
  std::uint64_t records = 0;
  RecordBlock block;
  ReadResult result;
  while ((result = reader.TryReadBlock(&block)) == ReadResult::kRecord) {
    records += block.records().size();
  }
  EXPECT_EQ(result, ReadResult::kEnd) << reader.status().ToString();
  EXPECT_EQ(records, kRecords);
  EXPECT_NE(reader.Stats().order.find("not believed"), std::string::npos) << reader.Stats().order;
}

// The same size in other pieces, as of a file that was written again.
TEST_F(DaliIndexTest, AnIndexOfAFileThatWasWrittenAgainIsNotBelieved) {
  std::vector<std::string> others = payloads_;
  std::swap(others[70], others[71]);
  ASSERT_NE(others[70].size(), others[71].size());
  const OpenedIndex opened = With(DaliIndex(others));
  ASSERT_TRUE(opened.status.ok());
  EXPECT_EQ(opened.origin, IndexOrigin::kBuilt);
  ExpectSameBothWays(file_, bytes_, *opened.index);
}

TEST_F(DaliIndexTest, IsNotBelievedWhereItDoesNot) {
  const std::string text = DaliIndex(payloads_);
  std::vector<std::string> others = payloads_;
  std::swap(others[0], others[1]);  // it covers the file, but no record of one byte is the first
  const std::vector<std::string> wrong = {"",
                                          "nonsense",
                                          text.substr(text.find('\n') + 1),
                                          text.substr(0, text.rfind('\n', text.size() - 2) + 1),
                                          text + "99999 20\n",
                                          text + "x",
                                          "0 99999999999999999999\n",
                                          DaliIndex({std::string(bytes_.size() - 16, 'x')}),
                                          DaliIndex(others)};
  for (const std::string& index : wrong) {
    SCOPED_TRACE(index.substr(0, 60));
    const OpenedIndex opened = With(index);
    ASSERT_TRUE(opened.status.ok());
    EXPECT_EQ(opened.origin, IndexOrigin::kBuilt);
    EXPECT_NE(opened.why.find("was not believed"), std::string::npos) << opened.why;
    ExpectSameBothWays(file_, bytes_, *opened.index);
  }
}

}  // namespace
}  // namespace ringfeed
