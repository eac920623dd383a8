#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/ranks.h"
#include "ringfeed/reader.h"
#include "ringfeed/tables/table_source.h"
#include "tools/feed/hashing_parser.h"

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// A whole chain, as `ringfeed feed` describes it by options.
struct FeedPlan {
  std::vector<std::string> files;
  OpenOptions open;
  TableOptions tables;      ///< how rows of tables are read, but for `open`
  std::string parse;        ///< as ParserFromText takes it; "": none
  std::size_t batch = 0;    ///< rows of a batch; 0: blocks of records as they were framed
  BatchOptions batching;    ///< its other options
  std::size_t shuffle = 0;  ///< rows of the window or block
  /// kOfSize: not set; a window if there is a size, else none.
  ShuffleMode shuffle_mode = ShuffleMode::kOfSize;
  std::uint64_t seed = 0;
  std::uint64_t passes = 1;  ///< 0: without end
  PayloadHash hash = PayloadHash::kNone;
  /// The hashes are computed of rows as they arrived on a device, not of records as they are
  /// parsed: nothing else needs to read the records.
  bool hash_arrived = false;

  /// True if the chain delivers batches, not blocks of records.
  bool batched() const { return batch > 0; }
  /// The resulting mode.
  ShuffleMode mode() const {
    if (shuffle_mode != ShuffleMode::kOfSize) return shuffle_mode;
    return shuffle > 0 ? ShuffleMode::kWindow : ShuffleMode::kNone;
  }
};

/// The number of fields in a row of the plan, if they are its record's bytes, all of them and in
/// their order, and parsing need not read them; else 0. Throws Error as BuildChain.
std::size_t FieldsOfWholeRecords(const FeedPlan& plan);

/// The chain of `plan`. Throws Error if it cannot work.
Reader BuildChain(const FeedPlan& plan);

/// Rows of a batch if batches are needed and no size was given.
inline constexpr std::size_t kDefaultBatch = 64;

/// Adds FILE… and the options that describe a chain, with `plan` as their target.
void AddFeedOptions(CLI::App* app, FeedPlan* plan);

/// The options of streams, which only `feed` reads.
void AddStreamOptions(CLI::App* app, FeedPlan* plan);

/// The options of speed alone: `bench` and its recommendations have them, too.
struct SpeedOptions {
  std::size_t arena_bytes = 0;  ///< of an arena for this run; 0: the process's own
};
void AddSpeedOptions(CLI::App* app, FeedPlan* plan, SpeedOptions* speed);

/// Completes what targets alone cannot express, after all options are parsed. Throws Error.
void CompletePlan(const SpeedOptions& speed, FeedPlan* plan);

/// Which of several processes this one is, as far as the options say.
struct RankOptions {
  static constexpr int kNotSaid = -1;
  int rank = kNotSaid;
  int ranks = kNotSaid;
};
/// Adds --rank and --ranks.
void AddRankOptions(CLI::App* app, RankOptions* options);

/// Of this process's environment.
inline const char* ProcessVariable(const char* name) { return std::getenv(name); }

/// As the options say, else the launcher that `lookup` shows. Throws Error if they contradict
/// themselves, or one is missing.
Rank ChooseRank(const RankOptions& options, const EnvironmentLookup& lookup = ProcessVariable);

/// A name that all ranks of this launch share and no other launch has, if there is one:
/// RINGFEED_RUN_ID, else by the launcher that gave the rank.
std::string LaunchName(const Rank& rank, const EnvironmentLookup& lookup = ProcessVariable);

}  // namespace ringfeed::tools
