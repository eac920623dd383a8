#include "tools/feed/rank_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdlib>
#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed::tools {
namespace {

constexpr int kMostRanks = 1 << 20;

Error Refuse(const std::string& why) { return Error(Status(StatusCode::kInvalidArgument, why)); }

// What tells one launch of a launcher from its others. torchrun's is its own choice and may come
// again, which takes nothing away; its count of restarts is not the same on all machines.
struct LaunchVariables {
  std::string_view source;
  std::array<const char*, 3> names;
};
constexpr std::array<LaunchVariables, 3> kLaunchVariables = {{
    {"torchrun", {"TORCHELASTIC_RUN_ID", nullptr, nullptr}},
    {"Open MPI", {"PMIX_NAMESPACE", nullptr, nullptr}},
    {"Slurm", {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
}};

}  // namespace

void AddRankOptions(CLI::App* app, RankOptions* options) {
  app->add_option("--rank", options->rank,
                  "which of the processes this one is, from 0: it gets its part of each batch; "
                  "default: as the launcher says (torchrun, Open MPI, Slurm, Ray, …)")
      ->check(CLI::Range(0, kMostRanks - 1).description(""));
  app->add_option("--ranks", options->ranks,
                  "how many there are; 1: this one alone, whatever launched it")
      ->check(CLI::Range(1, kMostRanks).description(""));
}

Rank ChooseRank(const RankOptions& options, const EnvironmentLookup& lookup) {
  const bool rank_said = options.rank != RankOptions::kNotSaid;
  const bool ranks_said = options.ranks != RankOptions::kNotSaid;
  if (!rank_said && !ranks_said) return FindRank(lookup);
  if (!ranks_said) throw Refuse("--rank says nothing without --ranks: say how many there are");
  if (!rank_said && options.ranks > 1) throw Refuse("--ranks needs --rank: say which one this is");
  Rank rank;
  rank.rank = rank_said ? options.rank : 0;
  rank.world_size = options.ranks;
  rank.source = "options";
  if (rank.rank < rank.world_size) return rank;
  throw Refuse("there is no --rank " + std::to_string(rank.rank) + " of --ranks " +
               std::to_string(rank.world_size) + ": they count from 0");
}

Rank ChooseRank(const RankOptions& options) {
  return ChooseRank(options, [](const char* name) { return std::getenv(name); });
}

std::string LaunchName(const Rank& rank, const EnvironmentLookup& lookup) {
  if (const char* id = lookup("RINGFEED_RUN_ID"); id != nullptr) return id;
  std::string name;
  for (const LaunchVariables& variables : kLaunchVariables) {
    if (variables.source != rank.source) continue;
    for (const char* variable : variables.names) {
      const char* const value = variable == nullptr ? nullptr : lookup(variable);
      if (value != nullptr) name += (name.empty() ? "" : ".") + std::string(value);
    }
  }
  return name;
}

std::string LaunchName(const Rank& rank) {
  return LaunchName(rank, [](const char* name) { return std::getenv(name); });
}

}  // namespace ringfeed::tools
