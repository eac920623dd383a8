#include "tools/feed/device_deliveries.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "ringfeed/tensor.h"
#include "tools/feed/hashing_parser.h"

namespace ringfeed::tools {
namespace {

using Rows = std::vector<std::uint64_t>;

DeviceDelivery Delivery(std::uint64_t number, Rows rows) {
  DeviceDelivery delivery;
  delivery.number = number;
  delivery.records = rows.size();
  delivery.hashes.resize(rows.size() * sizeof(HashedPayload));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    HashedPayload payload;
    payload.bytes = 10;
    std::memcpy(payload.hash.data(), &rows[row], sizeof rows[row]);
    std::memcpy(delivery.hashes.data() + row * sizeof payload, &payload, sizeof payload);
  }
  delivery.row_digests = std::move(rows);
  return delivery;
}

class DeviceDeliveriesTest : public testing::Test {
 protected:
  void Add(DeviceDelivery delivery) {
    deliveries_.Add(std::move(delivery), [this](const HashSums& sums) {
      so_far_ = sums;
      return true;
    });
  }

  DeliveryLedger ledger_{PayloadHash::kSha256, true};
  DeviceDeliveries deliveries_{&ledger_, {.hashes = true, .compare = true}};
  HashSums so_far_;
};

TEST_F(DeviceDeliveriesTest, BatchesComeIntoTheOrderOfTheirNumbers) {
  deliveries_.Expect(Rows{1, 2, 3, 4, 5});
  Add(Delivery(1, {3, 4}));
  EXPECT_EQ(so_far_.records, 0U);
  Add(Delivery(2, {5}));
  Add(Delivery(0, {1, 2}));
  EXPECT_EQ(so_far_.records, 5U);
  EXPECT_EQ(so_far_.payload_bytes, 50U);
  EXPECT_EQ(deliveries_.batches(), 3U);
  EXPECT_EQ(deliveries_.Difference(true), "");

  DeliveryLedger in_order(PayloadHash::kSha256, false);
  DeviceDeliveries whole(&in_order, {.hashes = true});
  whole.Add(Delivery(0, {1, 2, 3, 4, 5}), [](const HashSums&) { return true; });
  EXPECT_EQ(ledger_.FinishOrderDigest(), in_order.FinishOrderDigest());
}

TEST_F(DeviceDeliveriesTest, WhatIsBehindAGapDoesNotCount) {
  deliveries_.Expect(Rows{1, 2, 3});
  Add(Delivery(0, {1}));
  Add(Delivery(2, {3}));
  EXPECT_EQ(deliveries_.batches(), 1U);
  EXPECT_EQ(so_far_.records, 1U);
  EXPECT_EQ(deliveries_.Difference(false), "");
  EXPECT_NE(deliveries_.Difference(true), "");
}

TEST_F(DeviceDeliveriesTest, ARowThatIsNotWhatWasReadIsNamed) {
  deliveries_.Expect(Rows{1, 2, 3, 4});
  Add(Delivery(0, {1, 2}));
  Add(Delivery(1, {3, 9}));
  EXPECT_NE(deliveries_.Difference(false).find("row 3, in batch 1"), std::string::npos)
      << deliveries_.Difference(false);
}

TEST_F(DeviceDeliveriesTest, RowsThatNobodyReadAreADifference) {
  deliveries_.Expect(Rows{1});
  Add(Delivery(0, {1, 2}));
  EXPECT_NE(deliveries_.Difference(false), "");
}

TEST_F(DeviceDeliveriesTest, RowsThatDidNotArriveAreADifferenceAtTheEndAlone) {
  deliveries_.Expect(Rows{1, 2});
  Add(Delivery(0, {1}));
  EXPECT_EQ(deliveries_.Difference(false), "");
  EXPECT_NE(deliveries_.Difference(true), "");
}

TEST(DeviceDeliveriesRowByRowTest, KeepsTheSumsOfEachRow) {
  DeliveryLedger ledger(PayloadHash::kSha256, true);
  DeviceDeliveries deliveries(&ledger, {.hashes = true, .row_by_row = true});
  deliveries.Add(Delivery(0, {1, 2, 3}), [](const HashSums&) { return true; });
  EXPECT_EQ(ledger.kept().size(), 3U);
  EXPECT_EQ(deliveries.batches(), 1U);
}

/// A fixed field of two bytes a row and a ragged one.
struct TwoFields {
  std::vector<std::byte> fixed{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::vector<std::byte> ragged{std::byte{5}, std::byte{6}, std::byte{7}};
  std::vector<std::int64_t> offsets{0, 1, 3};

  Instance Batch() const {
    Tensor first;
    first.shape = {2, 2};
    first.data = fixed.data();
    first.bytes = fixed.size();
    Tensor second;
    second.shape = {3};
    second.data = ragged.data();
    second.bytes = ragged.size();
    second.lod.emplace_back(offsets);
    return {first, second};
  }
};

TEST(RowDigestsTest, ARowsDigestDoesNotDependOnItsNeighbours) {
  TwoFields fields;
  const Rows before = RowDigests(fields.Batch());
  ASSERT_EQ(before.size(), 2U);
  EXPECT_NE(before[0], before[1]);
  fields.fixed[0] = std::byte{9};
  const Rows behind = RowDigests(fields.Batch());
  EXPECT_NE(behind[0], before[0]);
  EXPECT_EQ(behind[1], before[1]);
}

TEST(RowDigestsTest, WhereTensorsDifferInTheirRowsTheWholeBatchCounts) {
  TwoFields fields;
  fields.offsets = {0, 1, 2, 3};
  const Rows before = RowDigests(fields.Batch());
  EXPECT_EQ(before.size(), 1U);
  fields.fixed[3] = std::byte{9};
  EXPECT_NE(RowDigests(fields.Batch()), before);
}

TEST(RowDigestsTest, EveryByteAndEveryBorderCounts) {
  TwoFields fields;
  const Rows before = RowDigests(fields.Batch());
  fields.offsets[1] = 2;
  const Rows moved = RowDigests(fields.Batch());
  EXPECT_NE(moved[0], before[0]);
  EXPECT_NE(moved[1], before[1]);
  fields.offsets[1] = 1;
  fields.ragged[2] = std::byte{8};
  EXPECT_NE(RowDigests(fields.Batch())[1], before[1]);
}

}  // namespace
}  // namespace ringfeed::tools
