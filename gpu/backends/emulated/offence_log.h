#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ringfeed/emulated_devices.h"

namespace ringfeed {

/// Where offences are collected, up to a bound: a rule that a loop breaks is broken in each round.
///
/// Thread safety: all calls from any thread.
class OffenceLog {
 public:
  static constexpr std::size_t kMost = 1'000;

  void Note(std::string_view rule, std::string first, std::string second = {});
  std::vector<Offence> offences() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Offence> offences_;
};

}  // namespace ringfeed
