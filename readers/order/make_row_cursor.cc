#include "readers/order/make_row_cursor.h"

#include <cassert>
#include <utility>

#include "readers/order/block_cursor.h"
#include "readers/order/blocks_cursor.h"
#include "readers/order/global_cursor.h"
#include "readers/order/interleave_cursor.h"
#include "readers/order/join_cursor.h"
#include "readers/order/window_cursor.h"

namespace ringfeed {

namespace {

using Kind = OrderStage::Kind;

std::unique_ptr<RowCursor> OnFiles(const RowLayout& layout, const OrderOptions& options,
                                   const OrderStage* first) {
  if (first != nullptr && first->kind == Kind::kGlobal) {
    return std::make_unique<GlobalCursor>(layout, options, first->seed);
  }
  if (first == nullptr || first->kind != Kind::kBlocks) {
    return std::make_unique<InterleaveCursor>(layout, options);
  }
  auto blocks = std::make_unique<BlocksCursor>(layout, options, first->seed);
  if (first->amount == 0) return blocks;
  return std::make_unique<WindowCursor>(std::move(blocks), first->amount, first->seed,
                                        options.first_epoch);
}

}  // namespace

bool HasEvenPasses(const OrderOptions& options) {
  return options.files.ranks == 1 || !options.files.shuffle;
}

std::unique_ptr<RowCursor> AddOrderStages(std::unique_ptr<RowCursor> cursor,
                                          std::uint32_t first_epoch, bool even,
                                          std::span<const OrderStage> stages) {
  for (const OrderStage& stage : stages) {
    switch (stage.kind) {
      case Kind::kWindow:
        cursor = std::make_unique<WindowCursor>(std::move(cursor), stage.amount, stage.seed,
                                                first_epoch);
        break;
      case Kind::kBlock:
        cursor =
            std::make_unique<BlockCursor>(std::move(cursor), stage.amount, stage.seed, first_epoch);
        break;
      case Kind::kMultiPass:
        cursor = std::make_unique<JoinCursor>(std::move(cursor), stage.amount, even);
        break;
      case Kind::kBlocks:
      case Kind::kGlobal:
        assert(false && "stands on files alone");
        break;
      case Kind::kContent:
        return cursor;
    }
  }
  return cursor;
}

std::unique_ptr<RowCursor> MakeRowCursor(const RowLayout& layout, const OrderOptions& options,
                                         std::span<const OrderStage> stages) {
  const OrderStage* const first = stages.empty() ? nullptr : &stages.front();
  const bool on_files =
      first != nullptr && (first->kind == Kind::kGlobal || first->kind == Kind::kBlocks);
  return AddOrderStages(OnFiles(layout, options, first), options.first_epoch,
                        HasEvenPasses(options), on_files ? stages.subspan(1) : stages);
}

}  // namespace ringfeed
