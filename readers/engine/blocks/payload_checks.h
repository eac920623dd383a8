#pragma once

#include <cstdint>

#include "base/pending_copy.h"
#include "readers/engine/blocks/block.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"

namespace ringfeed {

// Checksums of payloads that framing left to the code that reads the bytes
// (FrameInput::leaves_sums). A row that does not match gets the failure that framing would have
// given it.

/// The sum of the row, with all of its bytes.
PendingSum SumOf(const Block& block, std::uint32_t row);
/// Why the row fails, and which range is lost with it.
Status PayloadFailure(const Block& block, std::uint32_t row);
DamagedRange PayloadDamage(const Block& block, std::uint32_t row);

/// The row does not match: it becomes damaged, or the block ends before it; false then.
bool LosePayload(OnDamage on_damage, std::uint32_t row, Block* block);
/// Checks all sums that are left of a block.
void CheckPayloads(OnDamage on_damage, Block* block);

}  // namespace ringfeed
