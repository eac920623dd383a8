#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "readers/engine/blocks/locate.h"
#include "readers/engine/stages/plan_stage.h"

namespace ringfeed {

/// What stands at a place: the number of a record, or a hole.
using PlanRow = std::optional<std::uint64_t>;
using Pass = std::vector<PlanRow>;

/// Up to three passes of numbers from 1 on, holes among them.
inline std::vector<Pass> RandomPasses(std::mt19937_64& random, std::size_t most_rows) {
  std::vector<Pass> passes(1 + random() % 3);
  const std::uint64_t holes = std::vector<std::uint64_t>{0, 5, 50, 100}[random() % 4];
  std::uint64_t number = 0;
  for (Pass& pass : passes) {
    pass.resize(random() % most_rows);
    for (PlanRow& row : pass) {
      ++number;
      if (random() % 100 >= holes) row = number;
    }
  }
  return passes;
}

/// What stands behind the number in a record.
inline std::byte TailByte(std::uint64_t number) { return static_cast<std::byte>(number % 250 + 1); }

/// Feeds rows to a plan's first stage as a run would, in blocks of random sizes. A record is its
/// number in 8 bytes, and, where `ragged`, number % 7 bytes more.
class PlanRows {
 public:
  explicit PlanRows(std::uint64_t seed) : random_(seed) {}

  /// Where set, blocks are located by it, as a run does.
  void set_parser(const Parser* parser, bool ragged) {
    parser_ = parser;
    ragged_ = ragged;
  }

  /// Where not 0, a record's group is its number modulo this.
  void set_groups(std::uint64_t groups) { groups_ = groups; }

  /// Gives all rows of a pass, as blocks or as references.
  void Feed(std::span<const PlanRow> rows, std::uint64_t pass, bool as_refs, PlanStage* stage) {
    std::uint64_t first = 0;
    while (!rows.empty()) {
      const std::size_t take = std::min<std::size_t>(rows.size(), 1 + random_() % 40);
      Block* const block = MakeBlock(rows.first(take), pass);
      block->file_index = static_cast<std::uint32_t>(pass);
      block->first_record = std::exchange(first, first + take);
      Give(block, as_refs, stage);
      --block->holds;  // the planner's own
      rows = rows.subspan(take);
    }
  }

  /// Holds on all blocks: none once everything was written or dropped.
  std::uint64_t holds() const {
    std::uint64_t sum = 0;
    for (const auto& block : blocks_) sum += block->holds;
    return sum;
  }

 private:
  Block* MakeBlock(std::span<const PlanRow> rows, std::uint64_t pass) {
    blocks_.push_back(std::make_unique<Block>());
    Block* const block = blocks_.back().get();
    block->index = static_cast<std::uint32_t>(blocks_.size() - 1);
    block->pass = pass;
    for (const PlanRow& row : rows) {
      if (!row) {
        block->frame.records.emplace_back();
        continue;
      }
      auto bytes =
          std::make_shared<std::vector<std::byte>>(8 + (ragged_ ? *row % 7 : 0), TailByte(*row));
      std::memcpy(bytes->data(), &*row, 8);
      block->frame.records.push_back({bytes->data(), static_cast<std::uint32_t>(bytes->size())});
      block->storage.push_back(std::move(bytes));
    }
    if (parser_ != nullptr && parser_->two_phase()) {
      const auto scratch = parser_->NewScratch();
      LocateRows(*parser_, scratch.get(), OnDamage::kSkip, false, block);
    }
    for (const RecordSpan& record : block->frame.records) {
      block->good_rows += record.damaged() ? 0 : 1;
    }
    for (const PlanRow& row : rows) {
      if (groups_ != 0)
        block->groups.push_back(static_cast<std::int64_t>(row.value_or(0) % groups_));
    }
    block->holds = static_cast<std::uint32_t>(rows.size()) + 1;
    return block;
  }

  void Give(Block* block, bool as_refs, PlanStage* stage) {
    const auto rows = static_cast<std::uint32_t>(block->rows());
    if (!as_refs) {
      stage->OnRows(block, 0, rows);
      return;
    }
    std::vector<RowRef> refs;
    for (std::uint32_t row = 0; row < rows; ++row) refs.push_back({block, row});
    const std::size_t cut = random_() % (rows + 1);
    stage->OnRefs(std::span(refs).first(cut));
    stage->OnRefs(std::span(refs).subspan(cut));
  }

  std::mt19937_64 random_;
  const Parser* parser_ = nullptr;
  bool ragged_ = false;
  std::uint64_t groups_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace ringfeed
