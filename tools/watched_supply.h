#pragma once

#include <memory>
#include <utility>

#include "gpu/feed/batch_supply.h"
#include "tools/device_deliveries.h"

namespace ringfeed::tools {

/// A supply that tells what it gives, row by row, to whoever compares it with what arrives.
class WatchedSupply final : public BatchSupply {
 public:
  /// `deliveries` outlives this.
  WatchedSupply(std::unique_ptr<BatchSupply> inner, DeviceDeliveries* deliveries)
      : inner_(std::move(inner)), deliveries_(deliveries) {}

  SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override;
  void ReInit() override { inner_->ReInit(); }
  Reader reader() const override { return inner_->reader(); }

 private:
  const std::unique_ptr<BatchSupply> inner_;
  DeviceDeliveries* const deliveries_;
};

}  // namespace ringfeed::tools
