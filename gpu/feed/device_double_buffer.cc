#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/feed/batch_supply.h"
#include "gpu/feed/feed_core.h"
#include "ringfeed/decorated_reader.h"
#include "ringfeed/decorators.h"
#include "ringfeed/device_feed.h"
#include "ringfeed/devices/device_kinds.h"
#include "ringfeed/export/shared_lease.h"

namespace ringfeed {
namespace {

/// A feed that its reader's thread drives. So it stands still while that thread is stopped, and
/// takes nothing from an input that starts again.
class DeviceDoubleBuffer final : public DecoratedReader {
 public:
  DeviceDoubleBuffer(Reader input, FeedOptions options)
      : DecoratedReader(std::move(input)), options_(std::move(options)) {
    core_ = FeedCore::Start(std::make_unique<Input>(this), options_,
                            {.threads = false, .hands_on = true});
  }
  ~DeviceDoubleBuffer() override { (void)core_->Close(); }

  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    DeviceLease lease;
    const ReadResult result = core_->TryNext(0, &lease, status, kNoDeadline, stop);
    if (result != ReadResult::kRecord) return result;
    // An exception becomes the failure.
    *instance = SharedLease::Of(std::move(lease))->Tensors();
    return result;
  }
  bool ReInit() override {
    core_->ReInit();
    return true;
  }
  bool on_device() const override { return true; }

 private:
  class Input final : public BatchSupply {
   public:
    explicit Input(DeviceDoubleBuffer* reader) : reader_(reader) {}
    SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override {
      reader_->ReserveOnce();
      return SupplyResultOf(reader_->ReadInputHeld(&batch->tensors, stop, status));
    }
    void ReInit() override {}  // the graph does it

   private:
    DeviceDoubleBuffer* const reader_;
  };

  // Only after the chain is complete, and before it is read.
  void ReserveOnce() {
    if (std::exchange(reserved_, true)) return;
    HoldBatches(options_.slots + Distributor::HeldBatches(options_));
  }

  const FeedOptions options_;
  bool reserved_ = false;
  std::shared_ptr<FeedCore> core_;
};

std::shared_ptr<DeviceBackend> DevicesOf(Place place) {
  if (place.type == DeviceType::kCuda) return OpenDevices("cuda");
  return OpenDevices("emu:" + std::to_string(place.device + 1));
}

}  // namespace

Reader DoubleBufferOn(Reader input, Place place, std::size_t slots) {
  if (place.type == DeviceType::kCpu) return DoubleBuffer(std::move(input), slots);
  return DoubleBufferOn(std::move(input), DevicesOf(place), place.device, slots);
}

Reader DoubleBufferOn(Reader input, std::shared_ptr<DeviceBackend> backend, int device,
                      std::size_t slots) {
  FeedOptions options;
  options.backend = std::move(backend);
  options.devices = {device};
  options.slots = slots;
  options.transfer = TransferPlan::kBatch;
  CheckFeedOptions(options);
  return FromInstanceSource(
      std::make_unique<DeviceDoubleBuffer>(std::move(input), std::move(options)));
}

}  // namespace ringfeed
