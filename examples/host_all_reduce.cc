#include "examples/host_all_reduce.h"

#include <algorithm>
#include <utility>

HostAllReduce::HostAllReduce(std::shared_ptr<ringfeed::DeviceBackend> backend, std::size_t members,
                             std::size_t count, Function on_sum)
    : backend_(std::move(backend)),
      members_(members),
      count_(count),
      on_sum_(std::move(on_sum)),
      pages_(((members + 1) * count * sizeof(float) + sizeof(Page) - 1) / sizeof(Page)),
      floats_(reinterpret_cast<float*>(pages_.data())),
      barrier_(static_cast<std::ptrdiff_t>(members), AddUp{this}) {
  const ringfeed::Status status =
      backend_->RegisterHost(pages_.data()->bytes, pages_.size() * sizeof(Page));
  if (!status.ok()) throw ringfeed::Error(status);
}

HostAllReduce::~HostAllReduce() { (void)backend_->UnregisterHost(pages_.data()->bytes); }

std::span<float> HostAllReduce::Addend(std::size_t member) { return {Array(member), count_}; }

std::span<const float> HostAllReduce::Sum() {
  barrier_.arrive_and_wait();
  return {Array(members_), count_};
}

void HostAllReduce::Leave(std::size_t member) {
  std::ranges::fill(Addend(member), 0.0F);
  left_.fetch_add(1, std::memory_order_relaxed);  // the barrier orders it
  barrier_.arrive_and_drop();
}

void HostAllReduce::AddUp::operator()() noexcept {
  HostAllReduce& all = *all_reduce;
  if (all.left_.load(std::memory_order_relaxed) == all.members_) return;
  float* const sum = all.Array(all.members_);
  std::fill_n(sum, all.count_, 0.0F);
  for (std::size_t member = 0; member < all.members_; ++member) {
    const float* const addend = all.Array(member);
    for (std::size_t i = 0; i < all.count_; ++i) sum[i] += addend[i];
  }
  all.on_sum_({sum, all.count_});
}
