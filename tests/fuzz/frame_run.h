#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"

namespace ringfeed {

/// Makes a framer: a format's NewFramer, or one that no format has in memory.
using MakeFramer = std::function<std::unique_ptr<Framer>(const FramerOptions& options)>;

/// How a file is handed over.
struct FrameControl {
  bool known_size = true;
  std::size_t max_record_bytes = std::size_t{1} << 16;
  std::uint64_t limit_step = 0;  ///< stripes; 0: no limit below the end
  unsigned pieces = 0;           ///< 0: the file in one call; else where calls end
};

/// What a whole file gave.
struct FrameRun {
  static constexpr std::size_t kDamaged = ~std::size_t{0};
  static constexpr std::uint64_t kNoPlace = ~std::uint64_t{0};
  struct Record {
    std::size_t bytes = 0;  ///< kDamaged: it only kept its place
    std::uint64_t at = 0;   ///< in the file; kNoPlace where it stands in the memory given
    bool operator==(const Record&) const = default;
  };

  std::vector<Record> records;
  std::string payload;  ///< of all records, one behind the other
  std::vector<DamagedRange> damage;
  Status status;
};

/// Frames the file as a reader would: calls again with more where more is needed, with the next
/// limit where one is reached. Each call gets a copy of its bytes in memory of exactly their size,
/// and no more memory than the limit for a record allows. Checks on the way that every call makes
/// progress, that the records are of the bytes that they were made of, and that records and damage
/// are in order, apart and inside of the file.
FrameRun RunFramer(const MakeFramer& make_framer, std::span<const std::byte> file,
                   OnDamage on_damage, const FrameControl& control);

/// What does not depend on how the file is handed over.
std::string Described(const FrameRun& run);

}  // namespace ringfeed
