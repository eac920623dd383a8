#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ringfeed::python {

/// Reused memory for copies: fresh memory costs several times the copy. A buffer comes back by
/// itself when its last owner drops it, even after the pool's end. Thread safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  /// Keeps up to `most_free` unused buffers.
  explicit BufferPool(std::size_t most_free) : most_free_(most_free) {}

  /// At least `bytes`, aligned to 64; not initialised.
  std::shared_ptr<std::byte> Take(std::size_t bytes);

 private:
  struct FreeAligned {
    void operator()(std::byte* data) const;
  };
  struct Buffer {
    std::unique_ptr<std::byte, FreeAligned> data;
    std::size_t bytes = 0;
  };

  Buffer TakeFree(std::size_t bytes);
  void GiveBack(Buffer buffer);

  const std::size_t most_free_;
  std::mutex mutex_;
  std::vector<Buffer> free_;  // the last one was used most recently
};

}  // namespace ringfeed::python
