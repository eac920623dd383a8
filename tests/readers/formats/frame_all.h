#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"

namespace ringfeed {

/// What a whole file gave.
struct Framed {
  std::vector<std::string> records;  ///< intact ones
  std::vector<bool> damaged;         ///< of all that kept a place, whether it is one of those
  std::vector<DamagedRange> damage;
  std::vector<std::string> warnings;
  Status status;
  std::uint64_t end = 0;  ///< of what the framer was done with
  bool stuck = false;     ///< the framer asked for nothing and was not at the end
};

/// How the bytes are handed to the framer.
struct Feeding {
  std::vector<std::size_t> ends{};  ///< where in the file calls end, before its own end
  std::uint64_t limit_step = 0;     ///< stripes; 0: no limit below the end
  bool known_size = true;
  std::uint64_t offset = 0;  ///< where the bytes stand; 0 with limits
  bool at_end = true;        ///< nothing follows them
};

/// The format as it is of a file of that content, if it looks at a file's end: else itself.
/// `format` must outlive it.
std::shared_ptr<const Format> FormatOfFile(const Format& format, const std::string& file);

/// Frames `file` as a reader would: calls again with more where more is needed, with the next limit
/// where one is reached. Each call gets a copy of its bytes in memory of exactly their size.
Framed FrameAll(const Format& format, const std::string& file, OnDamage on_damage,
                const Feeding& feeding = {}, std::size_t max_record_bytes = std::size_t{1} << 30);
/// The same with a framer that was made for it.
Framed FrameWith(Framer* framer, const std::string& file, const Feeding& feeding = {});

std::string Bytes(std::span<const std::byte> bytes);

}  // namespace ringfeed
