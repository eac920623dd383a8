#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "readers/formats/format.h"

namespace ringfeed {

/// Pieces of the heap, for framing outside of a pipeline. They live until Clear.
class HeapFrameMemory final : public FrameMemory {
 public:
  std::byte* Allocate(std::size_t bytes) override {
    pieces_.push_back(std::make_unique<std::byte[]>(bytes));
    return pieces_.back().get();
  }
  void Clear() { pieces_.clear(); }

 private:
  std::vector<std::unique_ptr<std::byte[]>> pieces_;
};

}  // namespace ringfeed
