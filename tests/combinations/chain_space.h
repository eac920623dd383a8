#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringfeed {

/// What a chain, its data and its consumer are chosen by. Each has a few named values, of which the
/// first one is the plain one (chain_space.cc).
enum class Option : std::uint8_t {
  kSource,
  kFiles,
  kRecords,
  kDamage,
  kPolicy,
  kOrder,
  kWindow,
  kCycle,
  kStripe,
  kPasses,
  kJoin,
  kFilter,
  kRow,
  kGather,
  kSize,
  kRest,
  kRanks,
  kSplit,
  kEmpty,
  kThreads,
  kBlock,
  kArena,
  kSlots,
  kHold,
  kRead,
  kPace,
  kCalls,
  kAct,
  kAt,
  kPath,
  kIndex,
  kFeed,
  kTransfer,
  kStage,
  kHostField,
  kChange,
  kShare,
  kBeside,
  kNote,
  kAhead,
  kSums,
  kOther,
  kFilters,
  kReader,
  kWrap,
  kSignals,
  kSegment,
  kLength,
  kBalance,
  kAlike,
  kWeights,
  kMeasured,
  kPlace,
  kSeed,
};
inline constexpr std::size_t kOptions = static_cast<std::size_t>(Option::kSeed) + 1;

struct OptionSpec {
  Option option;
  const char* name;
  std::vector<const char*> values;
};
/// All options, in the order of the enumeration.
const std::vector<OptionSpec>& ChainSpace();

/// An option and the number of one of its values.
using Setting = std::pair<Option, std::size_t>;

/// One value for each option.
class Configuration {
 public:
  std::size_t value(Option option) const { return values_[static_cast<std::size_t>(option)]; }
  void Set(Option option, std::size_t value) {
    values_[static_cast<std::size_t>(option)] = static_cast<std::uint8_t>(value);
  }
  std::string_view Get(Option option) const;
  bool Is(Option option, std::string_view value) const { return Get(option) == value; }
  /// Whether it is one of these, separated by blanks.
  bool IsAnyOf(Option option, std::string_view values) const;
  std::uint64_t Number(Option option) const;
  /// Whether its arena may be too small for what is asked for.
  bool HasSmallArena() const { return IsAnyOf(Option::kArena, "64 16 4"); }
  /// The settings that are not plain: "source=rows threads=8"; "plain" without any.
  std::string ToString() const;
  /// What ToString gave; none where a name or a value does not exist.
  static std::optional<Configuration> Parse(const std::string& line);
  /// Those that are not plain.
  std::vector<Setting> Settings() const;
  friend bool operator==(const Configuration&, const Configuration&) = default;

 private:
  std::array<std::uint8_t, kOptions> values_{};
};

/// Whether its batches are planned from lengths (StepOptions).
bool IsPlanned(const Configuration& configuration);
/// Whether each of its shares is a batch.
bool PlansTokens(const Configuration& configuration);
/// Whether it plans by units of a field, which are measured.
bool PlansByLengths(const Configuration& configuration);
/// The ranks of one that is not read anew.
std::uint64_t RanksOf(const Configuration& configuration);

/// Whether its settings go together: what the library refuses by design is not in the space.
bool IsPossible(const Configuration& configuration);
/// Makes settings plain until it is possible, but those of `pinned`; false where that fails.
bool Mend(const std::vector<Setting>& pinned, Configuration* configuration);
/// A possible one with these settings; plain ones are as likely as all the others of an option
/// together.
Configuration RandomConfiguration(std::mt19937_64& random, const std::vector<Setting>& with = {});
/// A set in which every pair of values that go together occurs.
std::vector<Configuration> PairCover(std::mt19937_64& random);

}  // namespace ringfeed
