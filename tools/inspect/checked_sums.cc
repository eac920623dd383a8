#include "tools/inspect/checked_sums.h"

#include "ringfeed/device_kernels.h"

namespace ringfeed::tools {

CheckedSums::CheckedSums(const OwnedDevice& device, std::size_t capacity)
    : backend_(device.backend),
      capacity_(capacity),
      memory_(device, capacity * sizeof(std::uint64_t)) {}

void CheckedSums::Add(const OwnedStream& stream, const Tensor& tensor) {
  auto* const sums = reinterpret_cast<std::uint64_t*>(memory_.data());
  Require(backend_->Launch(stream.get(), Checksum{tensor.data, tensor.bytes, sums + used_}));
  ++used_;
}

std::vector<std::uint64_t> CheckedSums::Collect(const OwnedStream& stream) {
  std::vector<std::uint64_t> sums(used_);
  if (used_ > 0) {
    Require(backend_->CopyToHost(stream.get(), reinterpret_cast<std::byte*>(sums.data()),
                                 memory_.data(), used_ * sizeof(std::uint64_t)));
  }
  stream.Sync();
  used_ = 0;
  return sums;
}

}  // namespace ringfeed::tools
