#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "readers/plan_stage.h"

namespace ringfeed {

/// The window shuffle: record i of a pass gets the key i + W * u, u = draw(seed, epoch, i) / 2^32,
/// and records leave in the order of their keys, equal keys in the order of i. A key is due once W
/// later records cannot precede it any more, that is, once i has passed it: so a record is held for
/// at most W positions, memory is W rows, and there is no history: a position is the last key
/// delivered.
///
/// Buckets of 64 positions stand in a ring; a bucket is sorted when it is due.
class WindowShuffleStage final : public PlanStage {
 public:
  WindowShuffleStage(std::uint64_t window, std::uint64_t seed);

  void OnRows(Block* block, std::uint32_t begin, std::uint32_t end) override;
  void OnRefs(std::span<const RowRef> rows) override;
  void OnPassEnd() override;
  void OnEnd(const Status& status) override;

 private:
  static constexpr std::uint64_t kBucketPositions = 64;
  /// A held row: its key relative to its bucket (position within it in the high bits, fraction
  /// below).
  struct Held {
    std::uint64_t key;
    RowRef ref;
  };

  void Insert(RowRef ref);
  void Advance();  ///< emits every bucket that lies wholly before the arrivals
  void EmitBucket();
  void Flush();

  const std::uint64_t window_;
  const std::uint64_t seed_;
  std::uint32_t epoch_ = 0;
  DrawSequence draws_;
  std::uint64_t arrived_ = 0;       ///< ordinals seen in this pass
  std::uint64_t first_bucket_ = 0;  ///< number of the oldest bucket that was not emitted
  std::vector<std::vector<Held>> ring_;
  std::vector<RowRef> out_;
  std::vector<Held> sorted_;
};

}  // namespace ringfeed
