#include "tools/watched_supply.h"

#include "tools/row_digests.h"

namespace ringfeed::tools {

SupplyResult WatchedSupply::Take(Instance* batch, Status* status, const std::stop_token& stop) {
  const SupplyResult result = inner_->Take(batch, status, stop);
  if (result != SupplyResult::kBatch) return result;
  try {
    deliveries_->Expect(RowDigests(*batch));
  } catch (const Error& error) {  // tensors of different rows
    *status = error.status();
    return SupplyResult::kFailed;
  }
  return result;
}

}  // namespace ringfeed::tools
