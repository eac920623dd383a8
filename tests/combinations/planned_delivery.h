#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "readers/order/rank_shares.h"
#include "readers/order/share_plan.h"
#include "tests/combinations/chain_data.h"
#include "tests/combinations/chain_space.h"
#include "tests/combinations/expected_delivery.h"
#include "tests/support/planned_order.h"

namespace ringfeed {

/// Units of a record in the field.
std::uint64_t UnitsOf(const Configuration& configuration, const ChainData& data,
                      std::int64_t record);
/// Units of a packed row, planned or not.
std::size_t PackLength(const Configuration& configuration, const ChainData& data);
/// What makes the steps of a planned chain, and who gets their shares.
ShareRules RulesOf(const Configuration& configuration, const ChainData& data);
RankSplit SplitOf(const Configuration& configuration, std::uint64_t ranks);
/// Whether one of so many ranks has no part of a step that is filled up: that is refused.
bool LeavesRankOut(const Configuration& configuration, std::uint64_t ranks);
/// Batches of a step on each of so many ranks; 1 of a chain that is not planned.
std::uint64_t PiecesOf(const Configuration& configuration, std::uint64_t ranks);

/// Makes what a rank gets of the steps.
class PlannedPart {
 public:
  /// Which records are lost once they are read: these are holes, or fail.
  using IsLost = std::function<bool(std::int64_t record)>;
  PlannedPart(const Configuration& configuration, const ChainData& data, std::uint64_t rank,
              std::uint64_t ranks, IsLost is_lost);

  void Add(SlowStep step);
  const std::vector<DeliveredRows>& deliveries() const { return deliveries_; }
  /// Whether the rank met a record that fails: nothing follows.
  bool failed() const { return failed_; }

 private:
  void Deliver(const SlowStep& shares);
  void AddPacked(const SlowShare& share, Places* rows);
  void AddRows(const SlowShare& share, Places* rows);

  const Configuration& c_;
  const ChainData& data_;
  const ShareRules rules_;
  const RankSplit split_;
  const std::uint64_t rank_;
  const IsLost is_lost_;
  const bool skips_;
  const bool pads_;
  std::vector<DeliveredRows> deliveries_;
  std::uint64_t next_ = 0;  ///< number of the next delivery
  bool failed_ = false;
};

}  // namespace ringfeed
