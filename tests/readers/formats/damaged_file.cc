#include "tests/readers/formats/damaged_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>

#include "readers/formats/record_index.h"

namespace ringfeed {

std::vector<std::string> Without(const std::vector<std::string>& all, std::size_t gone) {
  std::vector<std::string> left = all;
  left.erase(left.begin() + static_cast<std::ptrdiff_t>(gone));
  return left;
}

std::vector<std::string> First(const std::vector<std::string>& all, std::size_t count) {
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<std::string> ByNumber(const Format& format, const std::string& file) {
  const FramerOptions options{"file", file.size(), OnDamage::kSkip};
  const OwnIndexResult own = format.OwnIndex(options, std::as_bytes(std::span(file)));
  EXPECT_TRUE(own.status.ok() && own.index != nullptr);
  const auto framer = format.NewUnitFramer(options);
  std::vector<std::string> records;
  for (std::uint64_t number = 0; number < own.index->records();) {
    RecordUnit unit;
    EXPECT_TRUE(own.index->Find({&number, 1}, {&unit, 1}).ok());
    EXPECT_EQ(unit.first_record, number);
    EXPECT_LE(unit.offset + unit.bytes, file.size());
    HeapFrameMemory memory;
    FrameOutput output;
    FrameInput input;
    input.bytes = std::as_bytes(std::span(file)).subspan(unit.offset, unit.bytes);
    input.offset = unit.offset;
    input.memory = &memory;
    EXPECT_TRUE(framer->Frame(input, unit.records, &output).ok());
    EXPECT_EQ(output.records.size(), unit.records);
    for (const RecordSpan& record : output.records) {
      records.push_back(record.damaged() ? "" : Bytes(record.bytes()));
    }
    number += unit.records;
  }
  return records;
}

std::vector<std::string> RecordsInOrder(const Framed& framed) {
  std::vector<std::string> records;
  std::size_t delivered = 0;
  for (const bool damaged : framed.damaged) {
    records.push_back(damaged ? "" : framed.records[delivered++]);
  }
  return records;
}

std::size_t CountLost(const std::vector<std::string>& records) {
  return static_cast<std::size_t>(std::count(records.begin(), records.end(), ""));
}

void ExpectOrderly(const Framed& framed) {
  ASSERT_FALSE(framed.stuck);
  std::uint64_t before = 0;
  for (const DamagedRange& range : framed.damage) {
    ASSERT_LE(before, range.begin);
    ASSERT_LT(range.begin, range.end);
    ASSERT_FALSE(range.reason.empty());
    before = range.end;
  }
}

}  // namespace ringfeed
