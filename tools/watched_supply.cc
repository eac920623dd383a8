#include "tools/watched_supply.h"

#include "tools/row_digests.h"

namespace ringfeed::tools {

SupplyResult WatchedSupply::Take(SuppliedBatch* batch, Status* status,
                                 const std::stop_token& stop) {
  const SupplyResult result = inner_->Take(batch, status, stop);
  if (result != SupplyResult::kBatch) return result;
  deliveries_->Expect(RowDigests(batch->tensors));
  return result;
}

}  // namespace ringfeed::tools
