#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "readers/order/row_cursor.h"

namespace ringfeed {

/// The block shuffle (BlockShuffleStage) by numbers. Starts at the start of the block that holds
/// the place, at the next call of Next.
class BlockCursor final : public RowCursor {
 public:
  BlockCursor(std::unique_ptr<RowCursor> input, std::uint64_t block_rows, std::uint64_t seed,
              std::uint32_t first_epoch);

  std::uint64_t Places(std::uint64_t pass) override { return input_->Places(pass); }
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  OrderPlace Origin(std::uint64_t pass, std::uint64_t place) override;
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;

 private:
  Status Fill();

  const std::unique_ptr<RowCursor> input_;
  const std::uint64_t block_rows_;
  const std::uint64_t seed_;
  const std::uint32_t first_epoch_;

  std::uint64_t pass_ = 0;
  std::uint64_t places_ = 0;  ///< of this pass
  std::uint64_t next_block_ = 0;
  std::uint64_t skipped_ = 0;  ///< rows of the next block that were delivered before
  std::vector<RowNumber> block_;
  std::size_t at_ = 0;  ///< in block_
};

}  // namespace ringfeed
