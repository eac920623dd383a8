#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ringfeed/reader.h"

namespace ringfeed {

/// What a reader delivered up to its end or failure, of payloads that RecordPayload made.
struct Drained {
  std::vector<std::uint64_t> ids;  ///< in the order of delivery
  std::vector<std::size_t> rows;   ///< of each delivery
  std::size_t strange = 0;         ///< payloads that are not what was written
  ReadResult end = ReadResult::kRecord;
  Status status;

  bool operator==(const Drained& other) const {
    return ids == other.ids && rows == other.rows && strange == other.strange && end == other.end;
  }
};

/// Adds one delivery: its first field holds payloads, of one row or, behind Batch, of many.
void AddInstance(const Instance& instance, Drained* drained);
/// Adds one payload.
void AddPayload(std::span<const std::byte> payload, Drained* drained);

/// Reads instances to the end or the failure, at most `most` of them.
Drained Drain(Reader reader, std::size_t most = ~std::size_t{0});
/// Reads record blocks to the end or the failure; `rows` stays empty, as blocks may be cut
/// anywhere.
Drained DrainBlocks(Reader reader);

}  // namespace ringfeed
