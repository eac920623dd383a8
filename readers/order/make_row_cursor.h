#pragma once

#include <memory>
#include <span>

#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

/// The order of a chain over files: the source's own, or that of a first stage kBlocks or kGlobal,
/// then the stages behind it up to the first that looks into records (kContent). Draws of pass p of
/// a stage are those of epoch first_epoch + p, p counted behind the stages before it; the
/// permutation of the files too. kBlocks with an amount is followed by a window of that amount.
/// `layout` must outlive the cursor, which has to be sought before it is read.
std::unique_ptr<RowCursor> MakeRowCursor(const RowLayout& layout, const OrderOptions& options,
                                         std::span<const OrderStage> stages);

/// The same stages on an order that exists. `even`: all its passes have as many places.
std::unique_ptr<RowCursor> AddOrderStages(std::unique_ptr<RowCursor> cursor,
                                          std::uint32_t first_epoch, bool even,
                                          std::span<const OrderStage> stages);

/// Whether all passes over these files have as many rows: not where their list is permuted before
/// it is split.
bool HasEvenPasses(const OrderOptions& options);

}  // namespace ringfeed
