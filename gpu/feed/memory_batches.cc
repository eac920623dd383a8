#include "gpu/feed/memory_batches.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/random_bits.h"
#include "base/refuse.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

class MemorySupply final : public BatchSupply {
 public:
  MemorySupply(std::vector<Instance> batches, std::uint64_t limit)
      : batches_(std::move(batches)), limit_(limit) {}

  SupplyResult Take(SuppliedBatch* batch, Status* /*status*/,
                    const std::stop_token& /*stop*/) override {
    if (next_ == limit_) return SupplyResult::kEnd;
    batch->tensors = batches_[next_++ % batches_.size()];
    return SupplyResult::kBatch;
  }
  void ReInit() override { next_ = 0; }

 private:
  const std::vector<Instance> batches_;
  const std::uint64_t limit_;
  std::uint64_t next_ = 0;
};

}  // namespace

MemoryBatches::MemoryBatches(std::size_t batch_bytes, std::size_t batches)
    : batch_bytes_(batch_bytes), checksums_(batches) {
  ArenaOptions options;
  while (options.slab_bytes < batch_bytes && options.slab_bytes < (std::size_t{1} << 20)) {
    options.slab_bytes *= 2;
  }
  const std::size_t slabs = (batch_bytes + options.slab_bytes - 1) / options.slab_bytes;
  options.bytes = slabs * options.slab_bytes * batches;
  const std::shared_ptr<Arena> arena = Arena::Create(options);
  for (std::size_t b = 0; b < batches; ++b) {
    const SlabRun run = arena->Allocate(batch_bytes);
    if (!run) {
      Refuse(StatusCode::kResourceExhausted,
             "no " + std::to_string(options.bytes) + " bytes of pinned memory");
    }
    RandomBits(b).Fill({run.data, batch_bytes});
    RunKernelOnHost(Checksum{run.data, batch_bytes, &checksums_[b]});
    Tensor tensor;
    tensor.shape = {1, static_cast<std::int64_t>(batch_bytes)};
    tensor.data = run.data;
    tensor.bytes = batch_bytes;
    tensor.owner =
        std::shared_ptr<const void>(run.data, [arena, run](const void*) { arena->Free(run); });
    batches_.push_back({std::move(tensor)});
  }
}

std::unique_ptr<BatchSupply> MemoryBatches::Supply(std::uint64_t limit) const {
  return std::make_unique<MemorySupply>(batches_, limit);
}

}  // namespace ringfeed
