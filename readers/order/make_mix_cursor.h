#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "readers/order/mix_cursor.h"
#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

/// One set of a mixture, as MixSource::Set has it.
struct MixInput {
  const RowLayout* layout = nullptr;  ///< must outlive the cursor
  OrderOptions options{};
  std::span<const OrderStage> stages;
  double weight = 1;
  std::uint64_t passes = 1;
  std::uint64_t most_records = 0;
};

struct MixChain {
  std::unique_ptr<RowCursor> rows;
  MixCursor* mix = nullptr;  ///< at the bottom of `rows`
};

/// The sets, mixed, and the stages behind the mixture, whose epochs count from first_epoch. Rows
/// are numbered set after set, all of a set's layout. States of the last `kept` places of the
/// mixture are kept.
MixChain MakeMixCursor(std::span<const MixInput> sets, std::uint32_t first_epoch,
                       std::span<const OrderStage> stages, std::uint64_t kept);

}  // namespace ringfeed
