#include "readers/formats/lost_units.h"

namespace ringfeed {

Status LostUnits::Lose(const FrameInput& unit, std::uint32_t records, std::string_view problem,
                       FrameOutput* output) const {
  const std::string reason(problem.empty() ? "it has another number of records than the index says"
                                           : problem);
  if (on_damage_ == OnDamage::kFail) {
    return Status(StatusCode::kDamaged, reason,
                  {file_, static_cast<std::int64_t>(unit.offset), -1});
  }
  output->records.resize(output->records.size() + records);
  output->damage.push_back({file_, unit.offset, unit.offset + unit.bytes.size(), reason});
  return {};
}

}  // namespace ringfeed
