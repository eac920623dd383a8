#include "ringfeed/device_feed.h"

#include <algorithm>
#include <string>
#include <utility>

#include "gpu/feed/feed_core.h"
#include "ringfeed/device_kinds.h"
#include "ringfeed/emulated_devices.h"
#include "ringfeed/ranks.h"

namespace ringfeed {
namespace {

// CUDA's where there are some, else emulated ones: as many as are asked for.
std::shared_ptr<DeviceBackend> DefaultDevices(const std::vector<int>& devices) {
  for (const DeviceKindStatus& kind : DeviceKinds()) {
    if (kind.name == "cuda" && kind.status.ok()) return OpenDevices("cuda");
  }
  const int last = devices.empty() ? 0 : *std::max_element(devices.begin(), devices.end());
  return EmulatedDevices::Open(std::max(last, 0) + 1);
}

FeedOptions Complete(FeedOptions options) {
  if (options.backend == nullptr) options.backend = DefaultDevices(options.devices);
  const Rank rank = options.devices.empty() ? FindRank() : Rank();
  if (rank.local_world_size > 1) {
    options.devices = {ChooseDevice(rank, options.backend->DeviceCount())};
  } else if (options.devices.empty()) {
    for (int d = 0; d < options.backend->DeviceCount(); ++d) options.devices.push_back(d);
  }
  CheckFeedOptions(options);
  return options;
}

}  // namespace

DeviceFeed::DeviceFeed(Reader reader, const FeedOptions& options) {
  const FeedOptions complete = Complete(options);
  core_ = FeedCore::Start(
      SupplyOf(std::move(reader),
               Distributor::HeldBatches(complete.devices.size(), complete.last_step)),
      complete);
}

DeviceFeed::~DeviceFeed() { core_->Abandon(); }

ReadResult DeviceFeed::TryNext(DeviceLease* lease, Status* status) {
  return core_->TryNext(lease, status);
}

ReadResult DeviceFeed::TryNext(std::size_t device_index, DeviceLease* lease, Status* status) {
  return core_->TryNext(device_index, lease, status);
}

ReadResult DeviceFeed::TryNext(DeviceLease* lease, Status* status, Deadline deadline) {
  return core_->TryNext(lease, status, deadline);
}

ReadResult DeviceFeed::TryNext(std::size_t device_index, DeviceLease* lease, Status* status,
                               Deadline deadline) {
  return core_->TryNext(device_index, lease, status, deadline);
}

std::optional<DeviceLease> DeviceFeed::Next() {
  std::optional<DeviceLease> lease(std::in_place);
  Status status;
  const ReadResult result = core_->TryNext(&*lease, &status);
  if (result == ReadResult::kFailed) throw Error(status);
  if (result == ReadResult::kEnd) lease.reset();
  return lease;
}

std::optional<DeviceLease> DeviceFeed::Next(std::size_t device_index) {
  std::optional<DeviceLease> lease(std::in_place);
  Status status;
  const ReadResult result = core_->TryNext(device_index, &*lease, &status);
  if (result == ReadResult::kFailed) throw Error(status);
  if (result == ReadResult::kEnd) lease.reset();
  return lease;
}

void DeviceFeed::ReInit() { core_->ReInit(); }
std::string DeviceFeed::Position() const { return core_->Position(); }
void DeviceFeed::Restore(const std::string& position) { core_->Restore(position); }
void DeviceFeed::SeekTo(std::uint64_t batch) { core_->SeekTo(batch); }
Status DeviceFeed::Close() { return core_->Close(); }
const std::vector<int>& DeviceFeed::devices() const { return core_->options().devices; }
const std::shared_ptr<DeviceBackend>& DeviceFeed::backend() const {
  return core_->options().backend;
}
FeedStats DeviceFeed::Stats() const { return core_->Stats(); }

}  // namespace ringfeed
