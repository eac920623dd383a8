#pragma once

#include <string>

#include "ringfeed/ranks.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// Which of several processes this one is, as far as it was said.
struct RankOptions {
  static constexpr int kNotSaid = -1;
  int rank = kNotSaid;
  int ranks = kNotSaid;
};
/// Adds --rank and --ranks.
void AddRankOptions(CLI::App* app, RankOptions* options);

/// As the options say, else the launcher that `lookup` shows. Throws Error where they contradict
/// themselves, or one is missing.
Rank ChooseRank(const RankOptions& options, const EnvironmentLookup& lookup);
/// Of this process's environment.
Rank ChooseRank(const RankOptions& options);

/// A name that all ranks of this launch share and no other launch has, where there is one:
/// RINGFEED_RUN_ID, else by the launcher that said the rank.
std::string LaunchName(const Rank& rank, const EnvironmentLookup& lookup);
std::string LaunchName(const Rank& rank);

}  // namespace ringfeed::tools
