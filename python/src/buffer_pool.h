#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace ringfeed::python {

/// Memory for copies that is used again: fresh memory costs several times the copy. What is taken
/// comes back by itself when its last owner goes, also behind the pool's end. Thread safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  /// Keeps up to `most_free` buffers that nobody uses.
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
  std::vector<Buffer> free_;  // the last one was used last
};

}  // namespace ringfeed::python
