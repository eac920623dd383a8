#include "buffer_pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace ringfeed::python {
namespace {

constexpr std::align_val_t kAlign{64};

}  // namespace

void BufferPool::FreeAligned::operator()(std::byte* data) const { ::operator delete(data, kAlign); }

std::shared_ptr<std::byte> BufferPool::Take(std::size_t bytes) {
  Buffer buffer = TakeFree(bytes);
  if (buffer.data == nullptr) {
    buffer.bytes = std::max<std::size_t>(bytes, 1);
    buffer.data.reset(static_cast<std::byte*>(::operator new(buffer.bytes, kAlign)));
  }
  std::byte* data = buffer.data.get();
  auto lent = std::make_shared<Buffer>(std::move(buffer));
  return std::shared_ptr<std::byte>(data, [lent, pool = weak_from_this()](std::byte*) {
    if (const std::shared_ptr<BufferPool> home = pool.lock()) home->GiveBack(std::move(*lent));
  });
}

// Never one of more than twice the size: then a few small arrays would hold much memory.
BufferPool::Buffer BufferPool::TakeFree(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  for (std::size_t i = free_.size(); i-- > 0;) {
    if (free_[i].bytes < bytes || free_[i].bytes / 2 > bytes) continue;
    Buffer found = std::move(free_[i]);
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    return found;
  }
  return {};
}

void BufferPool::GiveBack(Buffer buffer) {
  Buffer dropped;
  const std::scoped_lock lock(mutex_);
  free_.push_back(std::move(buffer));
  if (free_.size() <= most_free_) return;
  dropped = std::move(free_.front());
  free_.erase(free_.begin());
}

}  // namespace ringfeed::python
