#pragma once

#include <cstdint>

namespace ringfeed {

/// A step that orders records without looking into them, or joins passes. Behind all of these stand
/// those that do look, kContent, of which the program has what they do.
struct OrderStage {
  enum class Kind : std::uint8_t { kWindow, kBlock, kMultiPass, kContent, kBlocks, kGlobal };
  Kind kind = Kind::kWindow;
  /// Window, block rows, passes, or rows that content holds back (its segment); else 0.
  std::uint64_t amount = 0;
  std::uint64_t seed = 0;
};

}  // namespace ringfeed
