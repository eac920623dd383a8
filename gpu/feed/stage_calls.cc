#include "gpu/feed/stage_calls.h"

#include <cstdint>
#include <span>
#include <vector>

#include "base/user_call.h"
#include "readers/chain/user_code.h"

namespace ringfeed {
namespace {

constexpr char kWithin = 0;  // of any feed: one may wait for another one's thread

}  // namespace

bool StageCalls::IsWithin() { return UserCodeLocked::IsOf(&kWithin); }

StageCalls::StageCalls(const FeedOptions& options, int device)
    : backend_(options.backend),
      device_(device),
      in_stream_(backend_->type() == DeviceType::kEmulated),
      function_(in_stream_ ? options.stage.on_host : options.stage.enqueue),
      outputs_(options.stage.outputs.size()) {}

Status StageCalls::Enqueue(DeviceSlot* slot, DeviceStream stream) const {
  slot->stage_may_fail = false;
  slot->stage_failure = {};
  if (!any() || slot->item.rows == 0) return {};
  if (!in_stream_) {
    slot->stage_failure = Call(*slot, stream);
    slot->stage_may_fail = !slot->stage_failure.ok();
    return {};
  }
  slot->stage_may_fail = true;
  std::vector<MemoryAccess> accesses;
  const std::size_t fields = slot->tensors.size() - outputs_;
  for (std::size_t t = 0; t < slot->tensors.size(); ++t) {
    const Tensor& tensor = slot->tensors[t];
    if (tensor.place.type == DeviceType::kCpu) continue;
    accesses.push_back({tensor.data, tensor.bytes, t >= fields});
    const auto* const offsets = slot->plan.fields().OffsetsIn(slot->memory, t);
    if (offsets == nullptr) continue;
    accesses.push_back(
        {reinterpret_cast<const std::byte*>(offsets), tensor.lod[0].size_bytes(), false});
  }
  return backend_->LaunchHost(
      stream, [this, slot] { slot->stage_failure = Call(*slot, {}); }, accesses);
}

Status StageCalls::Call(const DeviceSlot& slot, DeviceStream stream) const {
  const std::span<const Tensor> tensors = slot.tensors;
  const std::size_t fields = tensors.size() - outputs_;
  std::vector<const std::int64_t*> offsets;
  for (std::size_t f = 0; f < fields; ++f) {
    offsets.push_back(slot.plan.fields().OffsetsIn(slot.memory, f));
  }
  const StageCall call{.device = device_,
                       .stream = stream,
                       .fields = tensors.first(fields),
                       .offsets = offsets,
                       .outputs = tensors.subspan(fields),
                       .valid_rows = slot.item.valid_rows};
  const UserCodeLocked within(&kWithin);
  return AskUser("the stage", [&] { return function_(call); });
}

}  // namespace ringfeed
