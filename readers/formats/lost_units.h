#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "readers/formats/format.h"

namespace ringfeed {

/// Why a unit that the index has without bytes is lost.
inline constexpr std::string_view kLostBefore = "it was damaged when the file was indexed";

/// What becomes of units whose records cannot be had: under kSkip null spans and a range, under
/// kFail a failure.
class LostUnits {
 public:
  explicit LostUnits(const FramerOptions& options)
      : file_(options.file), on_damage_(options.on_damage) {}

  /// The unit's records; `problem` may be empty where they are as many as nobody expected.
  Status Lose(const FrameInput& unit, std::uint32_t records, std::string_view problem,
              FrameOutput* output) const;

 private:
  const std::string file_;
  const OnDamage on_damage_;
};

}  // namespace ringfeed
