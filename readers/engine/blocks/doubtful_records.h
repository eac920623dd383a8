#pragma once

#include <cstdint>
#include <string>

#include "readers/engine/blocks/block.h"

namespace ringfeed {

/// Counts the records that were framed from a member of compressed content while its checksum,
/// which stands at its end, has not been seen. One thread at a time.
class DoubtfulRecords {
 public:
  /// To be told of every block, framed; the member at hand begins at `member` of the content.
  void Note(const Block& block, std::uint64_t member);
  /// What is to be said where that member turns out damaged, and [member, end) of the content came
  /// of it, the last of it into `block`, which was not noted yet. Empty where nothing came.
  std::string Describe(const Block& block, std::uint64_t member, std::uint64_t end) const;

 private:
  std::uint64_t member_ = 0;
  std::uint64_t records_ = 0;  ///< of the blocks that were noted
};

}  // namespace ringfeed
