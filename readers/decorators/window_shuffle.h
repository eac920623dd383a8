#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "readers/plan_stage.h"

namespace ringfeed {

/// The window shuffle: record i of a pass gets the key i + W * u, u = draw(seed, epoch, i) / 2^32,
/// and records leave in the order of their keys, equal keys in the order of i. A key is due once i
/// has passed it: no record to come can precede it. So a record is held for at most W positions,
/// memory is W rows, and there is no history: a position is the last key delivered.
///
/// Buckets of 64 positions stand in a ring; a bucket is sorted when it is due. Arrivals are placed
/// 64 at a time, so that the cache lines of their buckets, far apart, are fetched together.
class WindowShuffleStage final : public PlanStage {
 public:
  WindowShuffleStage(std::uint64_t window, std::uint64_t seed);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  static constexpr std::uint32_t kBucketPositions = 64;
  /// Rows that a bucket has room for in the ring; 64 are expected, the rest stands in its spill.
  static constexpr std::uint32_t kBucketRows = 128;

  /// A held row: as small as can be, since its place is a cache miss.
  struct Held {
    std::uint32_t fraction;  ///< of its key
    std::uint32_t row;
    std::uint32_t place;  ///< position in its bucket in the low 6 bits, block number above
  };
  struct Pending {
    std::uint32_t bucket;  ///< in the ring
    Held held;
  };

  void Place(Block* block, std::uint32_t row);
  void NextArrival();
  void Insert();
  void EmitDue();
  void EmitBucket();
  void Sort(std::span<const Held> held);
  void Flush();

  const std::uint64_t window_;
  const std::uint64_t seed_;
  std::uint32_t epoch_ = 0;
  DrawSequence draws_;
  std::uint64_t arrived_ = 0;       ///< ordinals seen in this pass
  std::uint64_t first_bucket_ = 0;  ///< number of the oldest bucket that was not emitted

  const std::uint32_t buckets_;
  std::vector<std::uint32_t> counts_;  ///< rows in each bucket of the ring, spill included
  std::vector<Held> ring_;             ///< kBucketRows of each
  std::vector<std::vector<Held>> spills_;
  std::vector<Block*> blocks_;  ///< by Block::index
  std::array<Pending, kBucketPositions> pending_;
  std::uint32_t pending_rows_ = 0;
  std::vector<Held> bucket_;
  std::vector<Held> sorted_;
  std::vector<RowRef> out_;
};

}  // namespace ringfeed
