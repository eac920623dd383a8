#include "tests/combinations/chain_space.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>
#include <tuple>

namespace ringfeed {

// NOLINTNEXTLINE(readability-function-size): a table.
const std::vector<OptionSpec>& ChainSpace() {
  static const std::vector<OptionSpec> kSpace = {
      // Files of a format; the user's own (a store, a data set, a reader); queues; streams.
      {Option::kSource,
       "source",
       {"tfrecord", "rows", "lines", "gzip", "examples", "memory", "dataset", "instances", "queue",
        "stream", "multiplex", "mix", "recordio", "pointed"}},
      {Option::kFiles, "files", {"3", "1", "8", "20"}},
      // How many in each file, and how large: see chain_data.cc.
      {Option::kRecords,
       "records",
       {"few", "none", "one", "gaps", "many", "wide", "large", "giant", "uneven"}},
      // Of one file; flipped: a bit of what is compressed; payloads: of its first two records, its
      // middle one and its last; every: of all.
      {Option::kDamage,
       "damage",
       {"none", "payload", "length", "torn", "missing", "foreign", "flipped", "payloads", "every"}},
      {Option::kPolicy, "policy", {"fail", "skip"}},
      {Option::kOrder,
       "order",
       {"files", "shuffled", "window", "block", "blocks", "global", "unordered"}},
      // Of orders that have a size.
      {Option::kWindow, "window", {"7", "1", "64", "1000", "100000", "4000000000"}},
      {Option::kCycle, "cycle", {"8", "1", "2", "100"}},
      {Option::kStripe, "stripe", {"1048576", "4096", "65536"}},
      {Option::kPasses, "passes", {"1", "2", "5", "0"}},
      // Where the passes are joined: in front of what shuffles, behind it, behind the batches.
      {Option::kJoin, "join", {"shuffled", "source", "batched"}},
      // One of so many records is kept; none.
      {Option::kFilter, "filter", {"1", "2", "20", "200", "2000", "none"}},
      // What becomes of a record: one ragged field, records as they are, a Map function's fields.
      {Option::kRow,
       "row",
       {"raw", "unparsed", "map", "map_ragged", "throw", "throw_ragged", "refuse", "refuse_ragged",
        "filter_throws", "misfit"}},
      // From first on planned: packed by first and by best fit, token batches, buckets, rows.
      {Option::kGather,
       "gather",
       {"batch", "none", "group", "bucket", "token", "pack", "first", "best", "greedy", "fitted",
        "padded", "buckets", "rows"}},
      // Of planned ones the shares of a step.
      {Option::kSize, "size", {"6", "1", "60", "600", "60000", "2", "5", "8", "12"}},
      {Option::kRest, "rest", {"keep", "drop", "pad", "repeat"}},
      // All: as many as a step has shares.
      {Option::kRanks, "ranks", {"1", "2", "3", "5", "all"}},
      // Whether each rank has files of its own, and whether batches without rows are handed out:
      // usual: it is not said.
      {Option::kSplit, "split", {"no", "yes"}},
      {Option::kEmpty, "empty", {"usual", "hidden", "shown"}},
      {Option::kThreads, "threads", {"1", "2", "3", "8"}},
      {Option::kBlock, "block", {"524288", "4096", "65536"}},
      // MiB; 0: the one that most chains share; fits: what the chains take when there is plenty.
      {Option::kArena, "arena", {"0", "64", "16", "4", "fits"}},
      {Option::kSlots, "slots", {"0", "2", "3", "16"}},
      // Deliveries that the consumer holds besides the last one; all: until it is refused.
      {Option::kHold, "hold", {"0", "1", "3", "all"}},
      {Option::kRead, "read", {"next", "peek", "poll", "stop", "blocks"}},
      {Option::kPace, "pace", {"fast", "slow"}},
      // How long user's functions take: slow ones a millisecond, a few hundred times.
      {Option::kCalls, "calls", {"fast", "slow"}},
      // What happens behind the delivery number `at`.
      {Option::kAct,
       "act",
       {"none", "leave", "close", "close_other", "reinit", "restore", "restore_here",
        "restore_ranks", "seek", "seek_new", "skip",
        // With other weights of a mixture; by another thread, while the consumer reads.
        "restore_weights", "reinit_other", "restore_other", "seek_other"}},
      {Option::kAt, "at", {"3", "0", "1", "20"}},
      // Ways to bytes; refused: io_uring is; faulty: reads are short and interrupted; late: they
      // come late and in another order; gives_up: io_uring takes no more entries after a few reads.
      {Option::kPath,
       "path",
       {"auto", "mmap", "pread", "uring", "refused", "faulty", "late", "gives_up"}},
      {Option::kIndex, "index", {"as_needed", "never"}},
      // Devices behind the chain; emu, one: in real time, else simulated.
      {Option::kFeed,
       "feed",
       {"none", "timed", "lazy", "random", "split", "emu", "one", "replicate"}},
      {Option::kTransfer, "transfer", {"batch", "auto", "members", "slabs", "direct"}},
      // What the devices do with each batch; makes: a field of all the others' bytes.
      {Option::kStage, "stage", {"none", "makes"}},
      // Which of a batch's fields stays in host memory.
      {Option::kHostField, "host_field", {"none", "first"}},
      // Of a file, behind the delivery number `at`.
      {Option::kChange, "change", {"none", "cut", "grown", "replaced", "removed"}},
      // Chains on one shared reader.
      {Option::kShare, "share", {"1", "2", "3"}},
      // Other chains of the process that were read from and are open.
      {Option::kBeside, "beside", {"0", "5"}},
      // Whether batches say which records they hold.
      {Option::kNote, "note", {"no", "yes"}},
      // Records that are taken from what is no list of files beyond what was handed out.
      {Option::kAhead, "ahead", {"0", "1", "7", "1000"}},
      // Of mapped files, which payloads have their checksums taken as they are written.
      {Option::kSums, "sums", {"long", "all"}},
      // Another thread, which looks ahead, or asks where the chain stands, all the time.
      {Option::kOther, "other", {"none", "looks", "asks"}},
      // So many Filters, one behind the other.
      {Option::kFilters, "filters", {"1", "2"}},
      // Turns: two threads read in turn, and hand on what they have read to the one that holds it.
      {Option::kReader, "reader", {"self", "turns"}},
      // A decorator of the user's behind the chain, which copies batches or holds them.
      {Option::kWrap, "wrap", {"none", "copy", "held"}},
      // Of the thread that opens and reads: blocked: all, before the first reader is opened.
      {Option::kSignals, "signals", {"open", "blocked"}},
      // What is planned: places of a segment, a multiple of the rows of a bucket.
      {Option::kSegment, "segment", {"40", "1", "7", "64", "1000", "65535"}},
      // Of packed rows and token batches: 256 and 1000 units, those of the longest record, half of
      // these; multiple: of packed rows, each record takes a multiple of 16.
      {Option::kLength, "length", {"usual", "longest", "less", "multiple"}},
      {Option::kBalance, "balance", {"off", "linear", "square"}},
      {Option::kAlike, "alike", {"1", "3", "16"}},
      {Option::kWeights, "weights", {"even", "uneven"}},
      // The state of the files in which their records were measured.
      {Option::kMeasured, "measured", {"as_read", "intact"}},
      // Where the files lie: web: behind a web server; cache: there, read by a cache; manifest:
      // there,
      // with a manifest.
      {Option::kPlace, "place", {"disk", "web", "cache", "manifest"}},
      {Option::kSeed, "seed", {"7", "0", "1099511627779"}},
  };
  return kSpace;
}

std::string_view Configuration::Get(Option option) const {
  return ChainSpace()[static_cast<std::size_t>(option)].values[value(option)];
}

bool Configuration::IsAnyOf(Option option, std::string_view values) const {
  std::istringstream words{std::string(values)};
  for (std::string word; words >> word;) {
    if (Get(option) == word) return true;
  }
  return false;
}

std::uint64_t Configuration::Number(Option option) const {
  const std::string_view text = Get(option);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool IsPlanned(const Configuration& configuration) {
  return PlansTokens(configuration) ||
         configuration.IsAnyOf(Option::kGather, "first best buckets rows");
}

bool PlansTokens(const Configuration& configuration) {
  return configuration.IsAnyOf(Option::kGather, "greedy fitted padded");
}

bool PlansByLengths(const Configuration& configuration) {
  return IsPlanned(configuration) &&
         (!configuration.Is(Option::kGather, "rows") || !configuration.Is(Option::kBalance, "off"));
}

std::uint64_t RanksOf(const Configuration& configuration) {
  return configuration.Number(configuration.Is(Option::kRanks, "all") ? Option::kSize
                                                                      : Option::kRanks);
}

std::string Configuration::ToString() const {
  std::string line;
  for (const OptionSpec& spec : ChainSpace()) {
    if (value(spec.option) == 0) continue;
    line +=
        (line.empty() ? "" : " ") + std::string(spec.name) + "=" + std::string(Get(spec.option));
  }
  return line.empty() ? "plain" : line;
}

std::vector<Setting> Configuration::Settings() const {
  std::vector<Setting> settings;
  for (const OptionSpec& spec : ChainSpace()) {
    if (value(spec.option) != 0) settings.emplace_back(spec.option, value(spec.option));
  }
  return settings;
}

std::optional<Configuration> Configuration::Parse(const std::string& line) {
  Configuration configuration;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word == "plain") continue;
    const std::size_t sign = word.find('=');
    bool known = false;
    for (const OptionSpec& spec : ChainSpace()) {
      if (sign == std::string::npos || word.substr(0, sign) != spec.name) continue;
      const std::string wanted = word.substr(sign + 1);
      const auto found = std::find(spec.values.begin(), spec.values.end(), wanted);
      if (found == spec.values.end()) return std::nullopt;
      configuration.Set(spec.option, static_cast<std::size_t>(found - spec.values.begin()));
      known = true;
    }
    if (!known) return std::nullopt;
  }
  return configuration;
}

namespace {

/// What does not go together: the options to make plain, the first one first.
struct Rule {
  std::vector<Option> blame;
  bool (*broken)(const Configuration& c);
};

bool ByNumber(const Configuration& c) {
  return c.IsAnyOf(Option::kOrder, "blocks global") || c.Is(Option::kSource, "mix") ||
         IsPlanned(c) || (RanksOf(c) > 1 && !c.Is(Option::kSplit, "yes"));
}
bool FromFiles(const Configuration& c) {
  return c.IsAnyOf(Option::kSource,
                   "tfrecord rows lines gzip examples memory mix recordio pointed");
}
bool OnDisk(const Configuration& c) {
  return c.IsAnyOf(Option::kSource, "tfrecord rows lines gzip examples recordio");
}
bool HasNoPosition(const Configuration& c) {
  return c.Is(Option::kOrder, "unordered") || c.IsAnyOf(Option::kSource, "multiplex queue") ||
         c.Number(Option::kShare) > 1;
}
bool MovesElsewhere(const Configuration& c) {
  return c.IsAnyOf(Option::kAct, "reinit_other restore_other seek_other");
}
bool Restarts(const Configuration& c) {
  return c.IsAnyOf(Option::kAct, "reinit restore_here seek skip") || MovesElsewhere(c);
}
bool Positions(const Configuration& c) {
  return c.IsAnyOf(Option::kAct,
                   "restore restore_here restore_ranks restore_weights restore_other seek seek_new "
                   "seek_other skip");
}
bool HasFeed(const Configuration& c) { return !c.Is(Option::kFeed, "none"); }
bool Throws(const Configuration& c) {
  return c.IsAnyOf(Option::kRow, "throw throw_ragged refuse refuse_ragged filter_throws");
}
bool Maps(const Configuration& c) {
  return c.IsAnyOf(Option::kRow, "map map_ragged throw throw_ragged refuse refuse_ragged");
}
bool Gathers(const Configuration& c) {
  return c.IsAnyOf(Option::kGather, "group bucket token pack");
}
bool Endless(const Configuration& c) { return c.Is(Option::kPasses, "0"); }
bool Changes(const Configuration& c) { return !c.Is(Option::kChange, "none"); }

using O = Option;

// NOLINTNEXTLINE(readability-function-size): a table.
std::vector<Rule> RulesOfSources() {
  return {
      // Damage that the source can have.
      {{O::kDamage, O::kSource},
       [](const Configuration& c) {
         return !c.Is(O::kDamage, "none") && c.IsAnyOf(O::kSource, "dataset instances queue mix");
       }},
      {{O::kDamage, O::kSource},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kDamage, "payload payloads every") &&
                c.IsAnyOf(O::kSource, "rows lines");
       }},
      {{O::kDamage, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kDamage, "length") && c.IsAnyOf(O::kSource, "rows lines gzip");
       }},
      {{O::kDamage, O::kSource},
       [](const Configuration& c) {
         return (c.IsAnyOf(O::kDamage, "torn foreign") && c.Is(O::kSource, "lines")) ||
                (c.Is(O::kDamage, "torn") && c.Is(O::kSource, "stream"));
       }},
      {{O::kDamage, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kDamage, "missing") && c.IsAnyOf(O::kSource, "memory stream multiplex");
       }},
      {{O::kDamage, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kDamage, "foreign") &&
                c.IsAnyOf(O::kSource, "rows stream multiplex pointed");
       }},
      {{O::kDamage, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kSource, "recordio") && !c.IsAnyOf(O::kDamage, "none missing");
       }},
      {{O::kDamage, O::kSource, O::kRecords},
       [](const Configuration& c) {
         return c.Is(O::kDamage, "flipped") &&
                (!c.Is(O::kSource, "gzip") || c.Is(O::kRecords, "none"));
       }},
      {{O::kDamage, O::kRecords},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kDamage, "payload payloads every length torn") &&
                c.Is(O::kRecords, "none");
       }},
      {{O::kAhead, O::kSource},
       [](const Configuration& c) {
         return !c.Is(O::kAhead, "0") &&
                !c.IsAnyOf(O::kSource, "dataset instances queue stream multiplex");
       }},
      // What the library refuses of sources that are no list of files.
      {{O::kOrder, O::kSource},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kOrder, "blocks global shuffled unordered") && !FromFiles(c);
       }},
      {{O::kOrder, O::kSource},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kOrder, "blocks global unordered") && c.Is(O::kSource, "mix");
       }},
      {{O::kRanks, O::kSource},
       [](const Configuration& c) { return RanksOf(c) > 1 && !FromFiles(c); }},
      {{O::kIndex, O::kOrder, O::kRanks, O::kSource},
       [](const Configuration& c) { return c.Is(O::kIndex, "never") && ByNumber(c); }},
      {{O::kPasses, O::kSource},
       [](const Configuration& c) {
         return !c.Is(O::kPasses, "1") && c.IsAnyOf(O::kSource, "stream multiplex queue");
       }},
      {{O::kAct, O::kSource},
       [](const Configuration& c) {
         return Restarts(c) && c.IsAnyOf(O::kSource, "stream multiplex queue");
       }},
      // A feed, and a thread that looks ahead, read as soon as they are there.
      {{O::kAct, O::kSource, O::kFeed, O::kOther},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kAct, "seek_new restore") && c.Is(O::kSource, "stream") &&
                (HasFeed(c) || c.Is(O::kOther, "looks"));
       }},
      {{O::kAct, O::kSource, O::kOrder, O::kShare},
       [](const Configuration& c) { return Positions(c) && HasNoPosition(c); }},
      // The bytes of a reader's instances are not there to be looked at.
      {{O::kFilter, O::kSource},
       [](const Configuration& c) {
         return !c.Is(O::kFilter, "1") && c.IsAnyOf(O::kSource, "instances queue");
       }},
      {{O::kGather, O::kSource},
       [](const Configuration& c) {
         return Gathers(c) && c.IsAnyOf(O::kSource, "instances queue");
       }},
      {{O::kRow, O::kSource},
       [](const Configuration& c) {
         return !c.IsAnyOf(O::kRow, "raw throw") && c.IsAnyOf(O::kSource, "instances queue");
       }},
      {{O::kRecords, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kRecords, "giant") && c.IsAnyOf(O::kSource, "examples");
       }},
      {{O::kFiles, O::kRecords},
       [](const Configuration& c) {
         return c.Is(O::kFiles, "20") && c.IsAnyOf(O::kRecords, "large giant");
       }},
      {{O::kFiles, O::kSource},
       [](const Configuration& c) { return c.Is(O::kSource, "mix") && c.Is(O::kFiles, "1"); }},
      {{O::kPath, O::kSource},
       [](const Configuration& c) { return !c.Is(O::kPath, "auto") && !OnDisk(c); }},
      {{O::kPlace, O::kSource},
       [](const Configuration& c) {
         return !c.Is(O::kPlace, "disk") && !OnDisk(c) && !c.Is(O::kSource, "mix");
       }},
      // A server tells a file's time in seconds, so some changes do not show.
      {{O::kPlace, O::kChange},
       [](const Configuration& c) {
         return !c.Is(O::kPlace, "disk") && !c.Is(O::kChange, "none");
       }},
      // What cannot be indexed is in no manifest.
      {{O::kPlace, O::kSource, O::kDamage},
       [](const Configuration& c) {
         return c.Is(O::kPlace, "manifest") &&
                (c.IsAnyOf(O::kSource, "mix gzip") || c.IsAnyOf(O::kDamage, "missing foreign"));
       }},
      {{O::kBlock, O::kRecords},
       [](const Configuration& c) {
         return c.Is(O::kBlock, "4096") && c.IsAnyOf(O::kRecords, "large giant");
       }},
  };
}

// NOLINTNEXTLINE(readability-function-size): a table.
std::vector<Rule> RulesOfChains() {
  return {
      {{O::kJoin, O::kPasses},
       [](const Configuration& c) { return !c.Is(O::kJoin, "shuffled") && c.Is(O::kPasses, "1"); }},
      {{O::kJoin, O::kOrder},
       [](const Configuration& c) {
         return c.Is(O::kJoin, "source") && !c.IsAnyOf(O::kOrder, "window block");
       }},
      {{O::kJoin, O::kGather},
       [](const Configuration& c) {
         return c.Is(O::kJoin, "batched") && c.Is(O::kGather, "none");
       }},
      {{O::kRow, O::kGather},
       [](const Configuration& c) {
         return c.Is(O::kRow, "unparsed") && c.IsAnyOf(O::kGather, "bucket pack token");
       }},
      {{O::kRow, O::kGather},
       [](const Configuration& c) {
         return Maps(c) && c.IsAnyOf(O::kGather, "bucket pack token");
       }},
      {{O::kRow, O::kSource},
       [](const Configuration& c) { return Maps(c) && c.Is(O::kSource, "examples"); }},
      {{O::kRow, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kRow, "unparsed") && c.Is(O::kSource, "examples");
       }},
      {{O::kRow, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kRow, "misfit") && !c.Is(O::kSource, "examples");
       }},
      {{O::kRow, O::kRecords},
       [](const Configuration& c) { return c.Is(O::kRow, "misfit") && c.Is(O::kRecords, "none"); }},
      {{O::kRow, O::kFilter, O::kDamage, O::kChange, O::kShare, O::kRanks, O::kAct},
       [](const Configuration& c) {
         return c.Is(O::kRow, "misfit") &&
                (!c.Is(O::kFilter, "1") || !c.Is(O::kDamage, "none") || Changes(c) ||
                 c.Number(O::kShare) > 1 || RanksOf(c) > 1 || !c.Is(O::kAct, "none"));
       }},
      {{O::kBeside, O::kArena},
       [](const Configuration& c) { return c.Is(O::kBeside, "5") && c.HasSmallArena(); }},
      {{O::kBeside, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kBeside, "5") && (!FromFiles(c) || c.Is(O::kPath, "refused"));
       }},
      {{O::kRest, O::kGather},
       [](const Configuration& c) {
         return !c.Is(O::kRest, "keep") && c.IsAnyOf(O::kGather, "none token");
       }},
      {{O::kRest, O::kGather},
       [](const Configuration& c) { return c.Is(O::kRest, "pad") && Gathers(c); }},
      // Batches without end of nothing.
      {{O::kPasses, O::kFilter},
       [](const Configuration& c) { return Endless(c) && c.IsAnyOf(O::kFilter, "2000 none"); }},
      {{O::kRest, O::kPasses, O::kFilter},
       [](const Configuration& c) {
         return Endless(c) && c.Is(O::kRest, "drop") && !c.Is(O::kFilter, "1");
       }},
      {{O::kRest, O::kPasses, O::kGather},
       [](const Configuration& c) { return Endless(c) && c.Is(O::kRest, "drop") && Gathers(c); }},
      // A single batch without end.
      {{O::kSize, O::kPasses},
       [](const Configuration& c) { return Endless(c) && c.IsAnyOf(O::kSize, "60000"); }},
      {{O::kSize, O::kFilter},
       [](const Configuration& c) {
         return Endless(c) && c.IsAnyOf(O::kSize, "600") && c.IsAnyOf(O::kFilter, "20 200");
       }},
      {{O::kWindow, O::kOrder},
       [](const Configuration& c) {
         return !c.Is(O::kWindow, "7") && !c.IsAnyOf(O::kOrder, "window block blocks");
       }},
      // A record that is taken ahead alone takes a block of its own: so many fill the arena.
      {{O::kWindow, O::kAhead, O::kPasses},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kWindow, "100000 4000000000") && c.Is(O::kAhead, "1") &&
                !c.Is(O::kPasses, "1");
       }},
      {{O::kWindow, O::kPasses},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kWindow, "100000 4000000000") && Endless(c);
       }},
      {{O::kRanks, O::kGather},
       [](const Configuration& c) {
         return RanksOf(c) > 1 && !c.Is(O::kGather, "batch") && !IsPlanned(c);
       }},
      {{O::kSize, O::kRanks},
       [](const Configuration& c) { return RanksOf(c) > 1 && c.Is(O::kSize, "1"); }},
      {{O::kAct, O::kGather},
       [](const Configuration& c) {
         return c.Is(O::kAct, "restore_ranks") && !c.Is(O::kGather, "batch") && !IsPlanned(c);
       }},
      {{O::kAct, O::kSource},
       [](const Configuration& c) { return c.Is(O::kAct, "restore_ranks") && !FromFiles(c); }},
      {{O::kAct, O::kIndex},
       [](const Configuration& c) {
         return c.Is(O::kAct, "restore_ranks") && c.Is(O::kIndex, "never");
       }},
      {{O::kAct, O::kSize},
       [](const Configuration& c) {
         return c.Is(O::kAct, "restore_ranks") && c.Is(O::kSize, "1");
       }},
      {{O::kSize, O::kPasses, O::kRecords},
       [](const Configuration& c) {
         return Endless(c) && c.IsAnyOf(O::kSize, "600") && c.Is(O::kRecords, "giant");
       }},
      {{O::kWindow, O::kOrder, O::kPasses, O::kRecords},
       [](const Configuration& c) {
         return Endless(c) && c.IsAnyOf(O::kOrder, "window block") && c.Is(O::kWindow, "1000") &&
                c.Is(O::kRecords, "giant");
       }},
      {{O::kSplit, O::kRanks, O::kFiles, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kSplit, "yes") &&
                (c.Is(O::kRanks, "1") || c.Is(O::kFiles, "1") || c.Is(O::kSource, "mix") ||
                 c.IsAnyOf(O::kDamage, "missing foreign flipped"));
       }},
      {{O::kSplit, O::kOrder, O::kAct, O::kPasses},
       [](const Configuration& c) {
         return c.Is(O::kSplit, "yes") &&
                (!c.IsAnyOf(O::kOrder, "files window block unordered") ||
                 !c.IsAnyOf(O::kAct, "none leave close reinit") || Endless(c));
       }},
      {{O::kEmpty, O::kGather, O::kFeed, O::kShare},
       [](const Configuration& c) {
         return c.Is(O::kEmpty, "shown") &&
                (!c.Is(O::kGather, "batch") || HasFeed(c) || c.Number(O::kShare) > 1);
       }},
      // Which ranks meet a function that throws depends on what filters leave.
      {{O::kRow, O::kFilter, O::kRanks, O::kAct},
       [](const Configuration& c) {
         return (RanksOf(c) > 1 || c.Is(O::kAct, "restore_ranks")) &&
                c.IsAnyOf(O::kRow, "throw throw_ragged refuse refuse_ragged") &&
                !c.Is(O::kFilter, "1");
       }},
      // What is written late leaves a batch of groups shorter, what is located early fills it.
      {{O::kRow, O::kGather},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kRow, "refuse refuse_ragged") && Gathers(c);
       }},
      // A function that refuses the only record, or the only one that a filter leaves, fits none.
      {{O::kRow, O::kRecords, O::kFiles},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kRow, "refuse refuse_ragged") && c.Is(O::kRecords, "one") &&
                c.Is(O::kFiles, "1");
       }},
      {{O::kRow, O::kFilter, O::kRecords},
       [](const Configuration& c) {
         return c.IsAnyOf(O::kRow, "refuse refuse_ragged") && !c.Is(O::kFilter, "1") &&
                (!c.IsAnyOf(O::kFilter, "2 20") || !c.IsAnyOf(O::kRecords, "many large"));
       }},
      {{O::kFilters, O::kFilter, O::kPasses},
       [](const Configuration& c) {
         return c.Is(O::kFilters, "2") && (c.Is(O::kFilter, "1") || Endless(c));
       }},
  };
}

bool Packs(const Configuration& c) { return c.IsAnyOf(Option::kGather, "first best"); }

// NOLINTNEXTLINE(readability-function-size): a table.
std::vector<Rule> RulesOfPlans() {
  return {
      {{O::kSegment, O::kLength, O::kBalance, O::kAlike, O::kWeights, O::kMeasured, O::kGather},
       [](const Configuration& c) {
         return !IsPlanned(c) && !(c.Is(O::kSegment, "40") && c.Is(O::kLength, "usual") &&
                                   c.Is(O::kBalance, "off") && c.Is(O::kAlike, "1") &&
                                   c.Is(O::kWeights, "even") && c.Is(O::kMeasured, "as_read"));
       }},
      {{O::kSize, O::kGather},
       [](const Configuration& c) { return !IsPlanned(c) && c.IsAnyOf(O::kSize, "2 5 8 12"); }},
      {{O::kSize, O::kGather},
       [](const Configuration& c) { return IsPlanned(c) && c.IsAnyOf(O::kSize, "600 60000"); }},
      {{O::kRanks, O::kGather},
       [](const Configuration& c) { return !IsPlanned(c) && c.IsAnyOf(O::kRanks, "5 all"); }},
      {{O::kRanks, O::kSize},
       [](const Configuration& c) {
         return IsPlanned(c) && (RanksOf(c) > c.Number(O::kSize) || RanksOf(c) == 60);
       }},
      // What the library refuses.
      {{O::kFilter, O::kGather},
       [](const Configuration& c) { return IsPlanned(c) && !c.Is(O::kFilter, "1"); }},
      {{O::kRest, O::kGather},
       [](const Configuration& c) { return c.Is(O::kRest, "repeat") && !IsPlanned(c); }},
      {{O::kRest, O::kSource},
       [](const Configuration& c) { return c.Is(O::kRest, "repeat") && c.Is(O::kSource, "mix"); }},
      // What is damaged in a repeated share is met twice.
      {{O::kRest, O::kDamage},
       [](const Configuration& c) {
         return c.Is(O::kRest, "repeat") && !c.Is(O::kDamage, "none");
       }},
      {{O::kSource, O::kGather},
       [](const Configuration& c) { return IsPlanned(c) && !FromFiles(c); }},
      {{O::kOrder, O::kGather},
       [](const Configuration& c) { return IsPlanned(c) && c.Is(O::kOrder, "unordered"); }},
      {{O::kShare, O::kGather},
       [](const Configuration& c) { return IsPlanned(c) && c.Number(O::kShare) > 1; }},
      {{O::kSplit, O::kEmpty, O::kGather},
       [](const Configuration& c) {
         return IsPlanned(c) && (c.Is(O::kSplit, "yes") || !c.Is(O::kEmpty, "usual"));
       }},
      {{O::kRow, O::kGather},
       [](const Configuration& c) {
         return IsPlanned(c) && !c.Is(O::kRow, "raw") &&
                (PlansByLengths(c) || !c.IsAnyOf(O::kRow, "unparsed map map_ragged"));
       }},
      {{O::kWeights, O::kGather, O::kRanks},
       [](const Configuration& c) {
         return c.Is(O::kWeights, "uneven") && (PlansTokens(c) || RanksOf(c) == 1);
       }},
      {{O::kAlike, O::kBalance},
       [](const Configuration& c) { return c.Is(O::kBalance, "off") && !c.Is(O::kAlike, "1"); }},
      {{O::kSegment, O::kGather},
       [](const Configuration& c) { return c.Is(O::kGather, "rows") && !c.Is(O::kSegment, "40"); }},
      {{O::kLength, O::kGather},
       [](const Configuration& c) {
         return (c.IsAnyOf(O::kGather, "rows buckets") && !c.Is(O::kLength, "usual")) ||
                (c.Is(O::kLength, "multiple") && !Packs(c));
       }},
      // The model knows whole segments alone, and so much is no test of a machine's memory.
      {{O::kSegment, O::kPasses},
       [](const Configuration& c) { return Endless(c) && c.Is(O::kSegment, "65535"); }},
      {{O::kRecords, O::kGather},
       [](const Configuration& c) { return Packs(c) && c.Is(O::kRecords, "giant"); }},
      // (A decorator of the user's does not make the index of what it reads.)
      {{O::kMeasured, O::kSource, O::kDamage, O::kWrap, O::kGather},
       [](const Configuration& c) {
         return c.Is(O::kMeasured, "intact") &&
                (!c.Is(O::kSource, "memory") || !c.Is(O::kWrap, "none") || !PlansByLengths(c) ||
                 !c.IsAnyOf(O::kDamage, "payload payloads every"));
       }},
      // Of a piece of a step no position says whether a failure cut it.
      {{O::kAct, O::kArena, O::kPath, O::kWindow, O::kMeasured, O::kGather},
       [](const Configuration& c) {
         return c.Is(O::kAct, "skip") && PlansTokens(c) &&
                (!c.Is(O::kArena, "0") || c.Is(O::kPath, "gives_up") ||
                 c.Is(O::kWindow, "4000000000") || c.Is(O::kMeasured, "intact"));
       }},
      // Some of them are empty: no row says which.
      {{O::kRecords, O::kGather, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kRecords, "uneven") && (!IsPlanned(c) || !c.Is(O::kSource, "examples"));
       }},
  };
}

// NOLINTNEXTLINE(readability-function-size): a table.
std::vector<Rule> RulesOfConsumers() {
  return {
      {{O::kRead, O::kGather, O::kRow},
       [](const Configuration& c) {
         return c.Is(O::kRead, "blocks") &&
                (!c.Is(O::kGather, "none") || !c.IsAnyOf(O::kRow, "unparsed filter_throws") ||
                 c.IsAnyOf(O::kSource, "instances queue examples"));
       }},
      {{O::kHold, O::kGather},
       [](const Configuration& c) {
         return !c.Is(O::kHold, "0") && c.Is(O::kGather, "none") && !c.Is(O::kRead, "blocks");
       }},
      {{O::kRead, O::kHold},
       [](const Configuration& c) { return c.Is(O::kHold, "all") && c.IsAnyOf(O::kRead, "stop"); }},
      {{O::kSlots, O::kGather},
       [](const Configuration& c) { return !c.Is(O::kSlots, "0") && c.Is(O::kGather, "none"); }},
      // They end by what is closed.
      {{O::kCalls, O::kAct},
       [](const Configuration& c) {
         return c.Is(O::kCalls, "slow") && !c.IsAnyOf(O::kAct, "close close_other leave");
       }},
      {{O::kPath, O::kShare, O::kBeside, O::kArena},
       [](const Configuration& c) {
         return c.Is(O::kPath, "gives_up") &&
                (c.Number(O::kShare) > 1 || !c.Is(O::kBeside, "0") || !c.Is(O::kArena, "0"));
       }},
      // Later they may take more.
      {{O::kArena, O::kOrder, O::kSlots, O::kHold, O::kGather},
       [](const Configuration& c) {
         return c.Is(O::kArena, "fits") &&
                (!c.IsAnyOf(O::kOrder, "files shuffled unordered global") ||
                 !c.Is(O::kSlots, "0") || !c.Is(O::kHold, "0") || Gathers(c) || IsPlanned(c));
       }},
      {{O::kArena, O::kShare, O::kFeed, O::kRanks, O::kAct},
       [](const Configuration& c) {
         return c.Is(O::kArena, "fits") &&
                (c.Number(O::kShare) > 1 || HasFeed(c) || RanksOf(c) > 1 ||
                 !c.IsAnyOf(O::kAct, "none leave close close_other"));
       }},
      // A batch of that size and more slots than a few are no test of a machine's memory.
      {{O::kArena, O::kRecords},
       [](const Configuration& c) { return !c.Is(O::kArena, "0") && c.Is(O::kRecords, "giant"); }},
      {{O::kHold, O::kSlots},
       [](const Configuration& c) { return c.Is(O::kHold, "3") && c.IsAnyOf(O::kSlots, "2 3"); }},
      {{O::kHold, O::kSlots},
       [](const Configuration& c) { return c.Is(O::kHold, "1") && c.Is(O::kSlots, "2"); }},
      {{O::kFeed, O::kGather},
       [](const Configuration& c) { return HasFeed(c) && c.Is(O::kGather, "none"); }},
      {{O::kTransfer, O::kFeed},
       [](const Configuration& c) { return !HasFeed(c) && !c.Is(O::kTransfer, "batch"); }},
      {{O::kStage, O::kFeed},
       [](const Configuration& c) { return !HasFeed(c) && !c.Is(O::kStage, "none"); }},
      {{O::kHostField, O::kFeed},
       [](const Configuration& c) { return !HasFeed(c) && !c.Is(O::kHostField, "none"); }},
      {{O::kHostField, O::kTransfer},
       [](const Configuration& c) {
         return !c.Is(O::kHostField, "none") && !c.IsAnyOf(O::kTransfer, "batch auto");
       }},
      {{O::kFeed, O::kShare},
       [](const Configuration& c) { return HasFeed(c) && c.Number(O::kShare) > 1; }},
      {{O::kRead, O::kFeed},
       [](const Configuration& c) { return HasFeed(c) && !c.IsAnyOf(O::kRead, "next poll"); }},
      {{O::kHold, O::kFeed},
       [](const Configuration& c) { return HasFeed(c) && c.IsAnyOf(O::kHold, "3"); }},
      {{O::kAct, O::kFeed},
       [](const Configuration& c) {
         return HasFeed(c) && c.IsAnyOf(O::kAct, "skip restore_ranks close_other");
       }},
      {{O::kFeed, O::kGather},
       [](const Configuration& c) {
         return c.Is(O::kFeed, "split") && !c.Is(O::kGather, "batch");
       }},
      // What the user's own instances join has no rows for those that are not there.
      {{O::kRest, O::kFeed, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kRest, "pad") && c.Is(O::kFeed, "split") &&
                c.IsAnyOf(O::kSource, "queue instances");
       }},
      {{O::kShare, O::kRanks},
       [](const Configuration& c) { return c.Number(O::kShare) > 1 && RanksOf(c) > 1; }},
      {{O::kShare, O::kAct},
       [](const Configuration& c) { return c.Number(O::kShare) > 1 && !c.Is(O::kAct, "none"); }},
      {{O::kShare, O::kPasses, O::kRest},
       [](const Configuration& c) {
         return c.Number(O::kShare) > 1 && (Endless(c) || c.Is(O::kRest, "drop"));
       }},
      {{O::kShare, O::kJoin},
       [](const Configuration& c) { return c.Number(O::kShare) > 1 && c.Is(O::kJoin, "batched"); }},
      {{O::kShare, O::kRow},
       [](const Configuration& c) {
         return c.Number(O::kShare) > 1 && (Throws(c) || c.Is(O::kHold, "all"));
       }},
      {{O::kShare, O::kDamage},
       [](const Configuration& c) {
         return c.Number(O::kShare) > 1 && !c.Is(O::kDamage, "none") && c.Is(O::kPolicy, "fail");
       }},
      {{O::kAct, O::kSource},
       [](const Configuration& c) {
         return c.Is(O::kAct, "restore_weights") && !c.Is(O::kSource, "mix");
       }},
      {{O::kAct, O::kFeed, O::kPasses},
       [](const Configuration& c) {
         return c.Is(O::kAct, "restore_weights") && (HasFeed(c) || Endless(c));
       }},
      // What a failure cuts depends on where the other thread comes.
      {{O::kAct, O::kDamage, O::kRow, O::kFeed, O::kPasses},
       [](const Configuration& c) {
         return MovesElsewhere(c) && (Throws(c) || c.Is(O::kRow, "misfit") || HasFeed(c) ||
                                      Endless(c) || !c.Is(O::kDamage, "none"));
       }},
      {{O::kAct, O::kRead, O::kArena, O::kHold, O::kWindow, O::kPath, O::kOrder},
       [](const Configuration& c) {
         return MovesElsewhere(c) && (c.IsAnyOf(O::kRead, "peek blocks") || !c.Is(O::kArena, "0") ||
                                      c.Is(O::kHold, "all") || c.Is(O::kWindow, "4000000000") ||
                                      c.Is(O::kPath, "gives_up") || c.Is(O::kOrder, "unordered"));
       }},
      {{O::kReader, O::kFeed, O::kShare, O::kRead},
       [](const Configuration& c) {
         return c.Is(O::kReader, "turns") &&
                (HasFeed(c) || c.Number(O::kShare) > 1 || c.Is(O::kRead, "blocks"));
       }},
      {{O::kWrap, O::kFeed, O::kShare, O::kRanks, O::kNote, O::kRead},
       [](const Configuration& c) {
         return !c.Is(O::kWrap, "none") &&
                (HasFeed(c) || c.Number(O::kShare) > 1 || RanksOf(c) > 1 || c.Is(O::kNote, "yes") ||
                 c.Is(O::kRead, "blocks"));
       }},
      // Its instances are numbered by themselves; passes that join them are its input's.
      {{O::kWrap, O::kPolicy, O::kAct, O::kGather, O::kChange, O::kCalls},
       [](const Configuration& c) {
         return !c.Is(O::kWrap, "none") &&
                (c.Is(O::kPolicy, "skip") || !c.IsAnyOf(O::kAct, "none leave close reinit") ||
                 c.Is(O::kGather, "none") || Changes(c) || c.Is(O::kCalls, "slow"));
       }},
      {{O::kWrap, O::kArena, O::kPath, O::kWindow},
       [](const Configuration& c) {
         return !c.Is(O::kWrap, "none") && (!c.Is(O::kArena, "0") || c.Is(O::kPath, "gives_up") ||
                                            c.Is(O::kWindow, "4000000000"));
       }},
      {{O::kChange, O::kSource},
       [](const Configuration& c) {
         return Changes(c) && !c.IsAnyOf(O::kSource, "tfrecord rows lines examples recordio");
       }},
      {{O::kChange, O::kDamage},
       [](const Configuration& c) { return Changes(c) && !c.Is(O::kDamage, "none"); }},
      {{O::kChange, O::kShare, O::kFeed, O::kRanks},
       [](const Configuration& c) {
         return Changes(c) && (HasFeed(c) || c.Number(O::kShare) > 1 || RanksOf(c) > 1);
       }},
      {{O::kChange, O::kRow}, [](const Configuration& c) { return Changes(c) && Throws(c); }},
      {{O::kChange, O::kAct},
       [](const Configuration& c) {
         return Changes(c) && (Positions(c) || c.IsAnyOf(O::kAct, "reinit reinit_other"));
       }},
  };
}

const std::vector<Rule>& Rules() {
  static const std::vector<Rule> kRules = [] {
    std::vector<Rule> rules = RulesOfSources();
    for (auto* more : {&RulesOfChains, &RulesOfPlans, &RulesOfConsumers}) {
      for (Rule& rule : more()) rules.push_back(std::move(rule));
    }
    return rules;
  }();
  return kRules;
}

bool IsPinned(const std::vector<Setting>& pinned, Option option) {
  return std::any_of(pinned.begin(), pinned.end(),
                     [&](const Setting& each) { return each.first == option; });
}

}  // namespace

bool IsPossible(const Configuration& configuration) {
  return std::none_of(Rules().begin(), Rules().end(),
                      [&](const Rule& rule) { return rule.broken(configuration); });
}

bool Mend(const std::vector<Setting>& pinned, Configuration* configuration) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Rule& rule : Rules()) {
      for (const Option option : rule.blame) {
        if (!rule.broken(*configuration)) break;
        if (IsPinned(pinned, option) || configuration->value(option) == 0) continue;
        configuration->Set(option, 0);
        changed = true;
      }
    }
  }
  if (IsPossible(*configuration)) return true;
  // What no rule blames may stand in the way: everything else plain.
  for (const OptionSpec& spec : ChainSpace()) {
    if (!IsPinned(pinned, spec.option)) configuration->Set(spec.option, 0);
  }
  return IsPossible(*configuration);
}

Configuration RandomConfiguration(std::mt19937_64& random, const std::vector<Setting>& with) {
  Configuration configuration;
  std::vector<Setting> pinned = with;
  for (const OptionSpec& spec : ChainSpace()) {
    if (random() % 2 == 0) continue;
    configuration.Set(spec.option, random() % spec.values.size());
  }
  for (const auto& [option, value] : with) configuration.Set(option, value);
  // What two of the settings want is kept, so that rules do not always favour the same.
  const auto count = ChainSpace().size();
  for (int i = 0; i < 2; ++i) {
    const auto option = static_cast<Option>(random() % count);
    pinned.emplace_back(option, configuration.value(option));
  }
  if (!Mend(pinned, &configuration)) (void)Mend(with, &configuration);
  return configuration;
}

namespace {

using Pair = std::tuple<Option, std::size_t, Option, std::size_t>;

std::set<Pair> AllPairs() {
  std::set<Pair> pairs;
  for (const OptionSpec& a : ChainSpace()) {
    for (const OptionSpec& b : ChainSpace()) {
      if (a.option >= b.option) continue;
      for (std::size_t i = 0; i < a.values.size(); ++i) {
        for (std::size_t j = 0; j < b.values.size(); ++j) pairs.emplace(a.option, i, b.option, j);
      }
    }
  }
  return pairs;
}

void RemoveCovered(const Configuration& configuration, std::set<Pair>* pairs) {
  for (std::size_t a = 0; a < kOptions; ++a) {
    for (std::size_t b = a + 1; b < kOptions; ++b) {
      const auto first = static_cast<Option>(a);
      const auto second = static_cast<Option>(b);
      pairs->erase({first, configuration.value(first), second, configuration.value(second)});
    }
  }
}

std::size_t CountCovered(const Configuration& configuration, const std::set<Pair>& pairs) {
  std::size_t count = 0;
  for (std::size_t a = 0; a < kOptions; ++a) {
    for (std::size_t b = a + 1; b < kOptions; ++b) {
      const auto first = static_cast<Option>(a);
      const auto second = static_cast<Option>(b);
      count +=
          pairs.count({first, configuration.value(first), second, configuration.value(second)});
    }
  }
  return count;
}

}  // namespace

std::vector<Configuration> PairCover(std::mt19937_64& random) {
  std::set<Pair> left = AllPairs();
  std::vector<Configuration> cover;
  while (!left.empty()) {
    const auto [a, i, b, j] = *left.begin();
    const std::vector<Setting> pinned = {{a, i}, {b, j}};
    std::optional<Configuration> best;
    std::size_t most = 0;
    for (int attempt = 0; attempt < 20; ++attempt) {
      Configuration candidate;
      for (const OptionSpec& spec : ChainSpace()) {
        candidate.Set(spec.option, random() % spec.values.size());
      }
      candidate.Set(a, i);
      candidate.Set(b, j);
      if (!Mend(pinned, &candidate)) break;
      const std::size_t covered = CountCovered(candidate, left);
      if (covered <= most) continue;
      most = covered;
      best = candidate;
    }
    left.erase(left.begin());
    if (!best) continue;  // the two do not go together
    RemoveCovered(*best, &left);
    cover.push_back(*best);
  }
  return cover;
}

}  // namespace ringfeed
