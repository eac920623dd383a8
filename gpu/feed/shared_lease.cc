#include "ringfeed/export/shared_lease.h"

#include <string>
#include <utility>

#include "base/refuse.h"
#include "gpu/feed/feed_core.h"

namespace ringfeed {

std::shared_ptr<SharedLease> SharedLease::Of(DeviceLease&& lease, DeviceStream stream) {
  // Before the lease is taken over: the caller keeps it if the stream is refused.
  const std::span<const Tensor> views = stream ? lease.On(stream) : lease.WaitHost();
  const std::shared_ptr<SharedLease> shared(new SharedLease(std::move(lease)));
  shared->views_ = std::vector<Tensor>(views.begin(), views.end());
  shared->first_stream_ = stream;
  return shared;
}

std::shared_ptr<SharedLease> SharedLease::Unwaited(DeviceLease&& lease) {
  const std::shared_ptr<FeedCore> core = FeedCore::Of(lease);
  if (core == nullptr) Refuse("the lease is empty: it was released, or moved");
  Instance views = core->SlotOf(lease).tensors;
  const std::shared_ptr<SharedLease> shared(new SharedLease(std::move(lease)));
  shared->views_ = std::move(views);
  shared->is_unwaited_ = true;
  return shared;
}

void SharedLease::Count() {
  FeedCore::Of(lease_)->RefuseInChild();
  const std::lock_guard lock(mutex_);
  lease_.Count();
}

void SharedLease::WaitHost() {
  FeedCore::Of(lease_)->RefuseInChild();
  const std::scoped_lock lock(mutex_);
  (void)lease_.WaitHost();
  is_unwaited_ = false;
}

void SharedLease::WaitOnce() {
  const bool is_unwaited = [this] {
    const std::scoped_lock lock(mutex_);
    return is_unwaited_;
  }();
  if (is_unwaited) WaitHost();
}

Instance SharedLease::Tensors() const {
  Instance tensors = views_;
  for (Tensor& tensor : tensors) tensor.owner = shared_from_this();
  return tensors;
}

Tensor SharedLease::OwnTensor(DType dtype, std::uint64_t count, const void* data) const {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = {static_cast<std::int64_t>(count)};
  tensor.data = static_cast<const std::byte*>(data);
  tensor.bytes = count * DTypeBytes(dtype);
  tensor.place = views_.front().place;
  tensor.owner = shared_from_this();
  return tensor;
}

std::optional<Tensor> SharedLease::Offsets(std::size_t field) const {
  const std::int64_t* offsets = lease_.DeviceOffsets(field);
  if (offsets == nullptr) return std::nullopt;
  return OwnTensor(DType::kInt64, views_[field].lod[0].size(), offsets);
}

std::optional<Tensor> SharedLease::Mask() const {
  const std::byte* mask = lease_.DeviceMask();
  if (mask == nullptr) return std::nullopt;
  return OwnTensor(DType::kUInt8, lease_.rows(), mask);
}

void SharedLease::UseOn(DeviceStream stream) {
  FeedCore::Of(lease_)->RefuseInChild();
  const std::scoped_lock lock(mutex_);
  (void)lease_.On(stream);
}

void SharedLease::UseOnNumbered(std::optional<std::int64_t> number) {
  if (!number || number == kNoWait) WaitOnce();
  if (number == kNoWait) return;
  if (number && *number <= 0) {
    Refuse("there is no stream " + std::to_string(*number) +
           ": 1 is the legacy one, 2 the per-thread one, -1 asks for no wait");
  }
  UseOn(NumberedStream(number.value_or(kLegacyStream)));
}

std::int64_t SharedLease::InterfaceStream(std::optional<std::int64_t> told) {
  if (told) return *told;
  WaitOnce();
  UseOnNumbered(kLegacyStream);
  if (!first_stream_) return kLegacyStream;
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(first_stream_.handle));
}

}  // namespace ringfeed
