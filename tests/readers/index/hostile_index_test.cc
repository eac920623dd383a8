// Indexes that somebody else wrote: whole, with right checksums, of the file as it is; and wrong.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/file_state.h"
#include "readers/index/index_builder.h"
#include "readers/index/index_file.h"
#include "readers/index/open_index.h"
#include "tests/readers/formats/tfrecord_file.h"
#include "tests/readers/index/read_both_ways.h"

namespace ringfeed {
namespace {

std::vector<RecordUnit> UnitsOf(const RecordIndex& index) {
  std::vector<RecordUnit> units;
  for (std::uint64_t record = 0; record < index.records();) {
    RecordUnit unit;
    EXPECT_TRUE(index.Find({&record, 1}, {&unit, 1}).ok());
    units.push_back(unit);
    record = unit.first_record + unit.records;
  }
  return units;
}

void Add(const RecordUnit& unit, IndexBuilder* builder) {
  builder->Add({unit.offset, unit.offset + unit.bytes, unit.records, unit.lost});
}

class HostileIndexTest : public testing::Test {
 protected:
  /// Younger than the file, as ScanKnown sees to.
  static void Save(const IndexedFile& file, const IndexImage& image) {
    const std::string path = IndexPlaceFor(file.name, {}).own;
    struct stat of_file {};
    struct stat of_index {};
    do {
      ASSERT_TRUE(SaveIndex(path, image).ok());
      ASSERT_EQ(stat(file.name.c_str(), &of_file), 0);
      ASSERT_EQ(stat(path.c_str(), &of_index), 0);
    } while (FileState::Of(of_index).modified_ns <= FileState::Of(of_file).changed_ns);
  }
  /// Leaves an index of these units of the file.
  void Leave(const IndexedFile& file, IndexBuilder* builder, std::uint64_t end) const {
    KnownFile known;
    ASSERT_TRUE(IdentifyFile(file, &known).ok());
    IndexImage image = builder->Finish(end);
    image.header.max_record_bytes = file.max_record_bytes;
    SignIndex(file, known.identity, &image);
    Save(file, image);
  }
  void ExpectMadeAgain(const IndexedFile& file, const std::string& bytes,
                       const std::string& why) const {
    const OpenedIndex opened = OpenRecordIndex(file);
    ASSERT_TRUE(opened.status.ok()) << opened.status.ToString();
    EXPECT_EQ(opened.origin, IndexOrigin::kRebuilt);
    EXPECT_NE(opened.why.find(why), std::string::npos) << opened.why;
    ExpectSameBothWays(file, bytes, *opened.index);
    EXPECT_EQ(OpenRecordIndex(file).origin, IndexOrigin::kOpened);
  }

  const TestFolder folder_;
};

TEST_F(HostileIndexTest, AnIndexThatLeavesRecordsOutIsMadeAgain) {
  for (const ScannedFile& scanned : ScannedFiles()) {
    SCOPED_TRACE(scanned.format);
    const IndexedFile file = FileAt(folder_.File("data"), scanned.format, scanned.bytes);
    ForgetIndex(file);
    const OpenedIndex good = OpenRecordIndex(file);
    ASSERT_TRUE(good.status.ok()) << good.status.ToString();
    ASSERT_EQ(OpenRecordIndex(file).origin, IndexOrigin::kOpened);
    const std::vector<RecordUnit> units = UnitsOf(*good.index);
    ASSERT_GT(units.size(), 1U);
    const std::size_t half = units.size() / 2;
    {
      SCOPED_TRACE("the first ones");
      IndexBuilder builder;
      for (std::size_t i = half; i < units.size(); ++i) Add(units[i], &builder);
      Leave(file, &builder, file.bytes);
      ExpectMadeAgain(file, scanned.bytes, "leaves out");
    }
    {
      SCOPED_TRACE("the last ones");
      IndexBuilder builder;
      for (std::size_t i = 0; i < half; ++i) Add(units[i], &builder);
      Leave(file, &builder, units[half].offset);
      ExpectMadeAgain(file, scanned.bytes, "leaves out");
    }
    {
      SCOPED_TRACE("all");
      IndexBuilder builder;
      Leave(file, &builder, 0);
      ExpectMadeAgain(file, scanned.bytes, "leaves out");
    }
  }
}

TEST_F(HostileIndexTest, AGapThatHidesARecordIsFound) {
  std::vector<std::string> payloads(40, std::string(100, 'a'));
  const std::string bytes = PlainFile(payloads);
  const IndexedFile file = FileAt(folder_.File("data"), "tfrecord", bytes);
  const std::uint64_t record = PlainRecord(payloads[0]).size();
  IndexBuilder builder;
  for (std::uint64_t i = 0; i < payloads.size(); ++i) {
    if (i != 20) builder.Add({i * record, (i + 1) * record});
  }
  Leave(file, &builder, file.bytes);
  ExpectMadeAgain(file, bytes, "leaves out");
}

TEST_F(HostileIndexTest, NoMoreRecordsAreBelievedThanTheFileHasBytesFor) {
  const std::vector<std::string> payloads(10, "some");
  const std::string bytes = PlainFile(payloads);
  const IndexedFile file = FileAt(folder_.File("data"), "tfrecord", bytes);
  for (const std::uint64_t records :
       {~std::uint64_t{0}, std::uint64_t{1} << 56, std::uint64_t{bytes.size()} * 259 + 258}) {
    IndexBuilder builder;
    builder.Add({0, file.bytes, 2});
    KnownFile known;
    ASSERT_TRUE(IdentifyFile(file, &known).ok());
    IndexImage image = builder.Finish(file.bytes);
    image.header.records = records;
    SignIndex(file, known.identity, &image);
    Save(file, image);
    ExpectMadeAgain(file, bytes, "more than the file has bytes for");
  }
}

TEST_F(HostileIndexTest, ListsThatCannotBeOfTheFileAreNotBelieved) {
  const std::string bytes = PlainFile(std::vector<std::string>(10, "some"));
  const IndexedFile file = FileAt(folder_.File("data"), "tfrecord", bytes);
  KnownFile known;
  ASSERT_TRUE(IdentifyFile(file, &known).ok());
  const auto leave = [&](const auto& change) {
    IndexImage image;
    ASSERT_TRUE(ScanForIndex(file, &image).ok());
    change(&image);
    SignIndex(file, known.identity, &image);
    Save(file, image);
  };
  constexpr std::uint64_t kNone = IndexDamage::kNoRecord;
  leave([](IndexImage* image) { image->header.lost_ranges = 5; });
  ExpectMadeAgain(file, bytes, "other damage than it lists");
  leave([&](IndexImage* image) { image->damage.push_back({0, bytes.size(), kNone, "all of it"}); });
  ExpectMadeAgain(file, bytes, "other damage than it lists");
  leave([&](IndexImage* image) { image->damage.push_back({0, bytes.size() + 1, 3, "beyond"}); });
  ExpectMadeAgain(file, bytes, "of another file");
  leave([&](IndexImage* image) { image->damage.push_back({0, 1, 10, "no such record"}); });
  ExpectMadeAgain(file, bytes, "of another file");
  leave([](IndexImage* image) {
    image->gaps = {{5, 40}, {5, 41}};
    image->header.gaps = 2;
  });
  ExpectMadeAgain(file, bytes, "has no order");
}

// Two records that an index says are one: none of them is passed over in silence.
TEST_F(HostileIndexTest, AUnitThatHoldsAnotherRecordBehindItsOwnIsDamaged) {
  std::size_t joined = 0;
  for (const ScannedFile& scanned : ScannedFiles()) {
    SCOPED_TRACE(scanned.format);
    const IndexedFile file = FileAt(folder_.File("data"), scanned.format, scanned.bytes);
    ForgetIndex(file);
    const OpenedIndex good = OpenRecordIndex(file);
    ASSERT_TRUE(good.status.ok()) << good.status.ToString();
    const std::vector<RecordUnit> units = UnitsOf(*good.index);
    const auto framer =
        file.format->NewUnitFramer({file.name, file.bytes, OnDamage::kSkip, file.max_record_bytes});
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
      const RecordUnit& one = units[i];
      const RecordUnit& next = units[i + 1];
      if (one.lost || next.lost || one.offset + one.bytes != next.offset) continue;
      const std::string both = scanned.bytes.substr(one.offset, one.bytes + next.bytes);
      FrameOutput output;
      HeapFrameMemory memory;
      const FrameInput input{std::as_bytes(std::span(both)), one.offset, 0, false, &memory};
      const Status status = framer->Frame(input, one.records, &output);
      EXPECT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(output.records.size(), one.records);
      EXPECT_TRUE(output.records.front().damaged()) << "unit " << i;
      EXPECT_FALSE(output.damage.empty());
      ++joined;
    }
  }
  EXPECT_GT(joined, 20U);
}

// A line of which an index says the front alone would be a record that is in no file.
TEST_F(HostileIndexTest, ARowThatGoesOnBehindItsUnitIsDamaged) {
  for (const char* const name : {"lines", "jsonl", "csv"}) {
    SCOPED_TRACE(name);
    const std::string bytes = "first row\nsecond row\n";
    const IndexedFile file = FileAt(folder_.File("data"), name, bytes);
    const auto framer = file.format->NewUnitFramer({file.name, file.bytes, OnDamage::kSkip});
    const std::string front = bytes.substr(0, 5);
    FrameOutput output;
    ASSERT_TRUE(framer->Frame({std::as_bytes(std::span(front)), 0}, 1, &output).ok());
    ASSERT_EQ(output.records.size(), 1U);
    EXPECT_TRUE(output.records.front().damaged());
  }
}

}  // namespace
}  // namespace ringfeed
