#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/order/row_layout.h"

namespace ringfeed {

/// The orders, pass by pass, in the plainest way: whole passes in memory, sorts, no shared code but
/// the draws.
using Rows = std::vector<RowNumber>;

Rows SlowFiles(const RowLayout& layout, const OrderOptions& options, std::uint64_t pass);
Rows SlowInterleave(const RowLayout& layout, const OrderOptions& options, std::uint64_t pass);
Rows SlowBlocks(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed,
                std::uint64_t pass);
Rows SlowGlobal(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed,
                std::uint64_t pass);
/// The stages over `passes` passes of a source.
std::vector<Rows> SlowStages(std::vector<Rows> passes, std::uint32_t first_epoch,
                             const std::vector<OrderStage>& stages);

}  // namespace ringfeed
