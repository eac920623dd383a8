#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/memory/arena.h"
#include "gpu/feed/batch_supply.h"
#include "ringfeed/instance.h"

namespace ringfeed {

/// Batches that are in pinned memory already, to feed devices at any rate: one field of bytes each,
/// all of one size, with different random contents. They are never written again. Thread safe.
class MemoryBatches {
 public:
  /// Throws Error if there is no memory.
  MemoryBatches(std::size_t batch_bytes, std::size_t batches);

  std::size_t size() const { return batches_.size(); }
  std::size_t batch_bytes() const { return batch_bytes_; }
  const Instance& batch(std::size_t number) const { return batches_[number]; }
  /// The Checksum kernel's result for batch `number` of a feed: the batches repeat.
  std::uint64_t ChecksumOf(std::uint64_t number) const {
    return checksums_[number % checksums_.size()];
  }

  /// The batches in order, repeated, `limit` in all. Holds the batches' memory, not this object.
  std::unique_ptr<BatchSupply> Supply(std::uint64_t limit) const;

 private:
  const std::size_t batch_bytes_;
  std::vector<Instance> batches_;
  std::vector<std::uint64_t> checksums_;
};

}  // namespace ringfeed
