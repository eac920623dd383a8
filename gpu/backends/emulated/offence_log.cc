#include "gpu/backends/emulated/offence_log.h"

#include <utility>

namespace ringfeed {

std::string Offence::ToString() const {
  std::string text = rule + ": " + first;
  if (!second.empty()) text += "; and " + second;
  return text;
}

void OffenceLog::Note(std::string_view rule, std::string first, std::string second) {
  const std::lock_guard lock(mutex_);
  if (offences_.size() == kMost) return;
  offences_.push_back({std::string(rule), std::move(first), std::move(second)});
}

std::vector<Offence> OffenceLog::offences() const {
  const std::lock_guard lock(mutex_);
  return offences_;
}

}  // namespace ringfeed
