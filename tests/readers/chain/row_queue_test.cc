#include "readers/chain/row_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/parsers.h"
#include "ringfeed/tensor.h"

namespace ringfeed {
namespace {

using Row = RowQueue::Row;

class RowQueueTest : public testing::Test {
 protected:
  static StartedRun Started(std::uint64_t batch) {
    auto start = std::make_shared<RunStart>();
    start->batch = batch;
    return {nullptr, std::move(start)};
  }
  /// A damaged one for each empty text.
  void SetRecords(const std::vector<std::string>& texts) {
    texts_ = texts;
    for (const std::string& text : texts_) {
      const auto bytes = std::as_bytes(std::span(text));
      records_.gathered.push_back(text.empty() ? RecordSpan() : RecordSpan{bytes.data(), 1});
      records_.refs.push_back({&block_, 0});
    }
    records_.records = records_.gathered;
    records_.span.first_place = 100;
    records_.pass = 6;
  }
  static char Letter(const Instance& row) { return static_cast<char>(*row[0].data); }

  Block block_;
  std::vector<std::string> texts_;
  Delivery::Records records_;
  ExecutionPlan plan_;
  Instance row_;
  BatchOrigin origin_;
};

TEST_F(RowQueueTest, RecordsComeOneByOneWithTheirPlacesAndDamageIsPassedOver) {
  SetRecords({"", "a", "", "", "b", ""});
  RowQueue queue(plan_);
  auto hold = std::make_shared<int>();
  const StartedRun of = Started(1000);
  queue.Put(of, &records_, hold);
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(queue.pass(), 6u);
  ASSERT_EQ(queue.Take(&row_, &origin_), Row::kTaken);
  EXPECT_EQ(Letter(row_), 'a');
  EXPECT_TRUE(row_.is_record());
  EXPECT_EQ(origin_.batch, 1101u);
  EXPECT_EQ(hold.use_count(), 2);
  row_.clear();
  ASSERT_EQ(queue.Take(&row_, &origin_), Row::kTaken);
  EXPECT_EQ(Letter(row_), 'b');
  EXPECT_EQ(origin_.batch, 1104u);
  EXPECT_EQ(origin_.pass, 6u);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(hold.use_count(), 1) << "the last row lets the delivery go";
  EXPECT_EQ(queue.start(), of.start);
  EXPECT_EQ(queue.Take(&row_, &origin_), Row::kNone);
}

TEST_F(RowQueueTest, RowsThatAreDroppedDoNotCome) {
  SetRecords({"a", "b"});
  RowQueue queue(plan_);
  auto hold = std::make_shared<int>();
  queue.Put(Started(0), &records_, hold);
  EXPECT_EQ(queue.Take(&row_, &origin_), Row::kTaken);
  queue.Drop();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(hold.use_count(), 1);
  EXPECT_EQ(queue.Take(&row_, &origin_), Row::kNone);
}

TEST_F(RowQueueTest, InstancesLeaveAsTheyCame) {
  plan_.source.slots.emplace_back();
  Instance instance = {MakeTensor(std::vector<std::byte>(3))};
  const std::byte* const data = instance[0].data;
  records_.gathered.push_back({reinterpret_cast<const std::byte*>(&instance), sizeof(instance)});
  records_.refs.push_back({&block_, 0});
  records_.records = records_.gathered;
  RowQueue queue(plan_);
  queue.Put(Started(0), &records_, nullptr);
  ASSERT_EQ(queue.Take(&row_, &origin_), Row::kTaken);
  EXPECT_EQ(row_[0].data, data);
}

TEST_F(RowQueueTest, ParsedRowsAreCopiedOutOfTheirColumns) {
  plan_.parser = RowsParser({{"pair", DType::kUInt8, {2}}});
  Instance columns = {
      MakeTensor(std::vector{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}})};
  columns[0].shape = {2, 2};
  const std::weak_ptr<const void> memory = columns[0].owner;
  BatchBuffer batch;
  batch.span.first_place = 50;
  batch.failures.push_back({});
  batch.failures.back().row = 1;  // it was the second one, and was taken out
  RowQueue queue(plan_);
  queue.Put(Started(0), &batch, std::move(columns));
  ASSERT_EQ(queue.Take(&row_, &origin_), Row::kTaken);
  EXPECT_EQ(row_[0].shape, Shape{2});
  EXPECT_EQ(row_[0].data[1], std::byte{2});
  EXPECT_EQ(origin_.batch, 50u);
  EXPECT_FALSE(memory.expired());
  ASSERT_EQ(queue.Take(&row_, &origin_), Row::kTaken);
  EXPECT_EQ(row_[0].data[0], std::byte{3});
  EXPECT_EQ(origin_.batch, 52u);
  EXPECT_TRUE(memory.expired()) << "rows are copies";
}

TEST_F(RowQueueTest, ItsLockIsWaitedForUntilTheDeadline) {
  RowQueue queue(plan_);
  const auto lock = queue.Lock(kNoDeadline);
  ASSERT_TRUE(lock.owns_lock());
  bool owns = true;
  std::thread([&] {
    owns = queue.Lock(DeadlineAfter(std::chrono::milliseconds(5))).owns_lock();
  }).join();
  EXPECT_FALSE(owns);
}

}  // namespace
}  // namespace ringfeed
