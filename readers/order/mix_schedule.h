#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringfeed {

/// What one set of a mixture has given.
struct MixCount {
  std::uint64_t before = 0;  ///< in earlier passes of the mixture; of a set without end alone
  std::uint64_t count = 0;   ///< in this pass
  std::uint64_t phase = 0;   ///< in this phase
  friend bool operator==(const MixCount&, const MixCount&) = default;
};

/// Integers in the proportions of `weights`, each at least 1: of the smallest sum up to 2^20 that
/// gives each set's share to 1e-9; else of a sum of about 2^32. Weights are finite and more than 0.
std::vector<std::uint64_t> IntegerWeights(std::span<const double> weights);

/// Which set of a mixture gives the next record: a pure function of the integer weights a_i and of
/// the ends of the sets.
///
/// At draw n (from 0) of a phase set i, which has given c_i in it, is eligible if floor(c_i * A /
/// a_i) <= n, A the sum of the weights of the sets that are not at their end. Of the eligible ones
/// that with the smallest deadline ceil((c_i + 1) * A / a_i) gives, the first of equal ones. So c_i
/// is less than one away from n * a_i / A. When a set ends a new phase begins, with n and all c_i
/// at 0. The mixture ends when all sets that have an end are at it.
class MixSchedule {
 public:
  struct Set {
    std::uint64_t weight = 1;  ///< at most 2^32
    std::uint64_t limit = 0;   ///< records in a pass of the mixture; kEndlessPlaces: no end
  };

  /// At the beginning of a pass.
  explicit MixSchedule(std::vector<Set> sets);

  /// Goes to the state in which the sets have given that, one count a set. Other weights than
  /// before may have led there if all `phase` are 0.
  void Start(std::span<const MixCount> counts);
  const std::vector<MixCount>& counts() const { return counts_; }

  bool at_end() const { return at_end_; }
  /// The set that gives the next record. Not at the end.
  std::size_t Next();
  /// Makes so many draws, whole rounds of the weights at once; ends early at the end.
  void Skip(std::uint64_t draws);
  bool endless() const { return endless_; }

 private:
  /// A set that gives, in this phase.
  struct Giver {
    std::size_t set = 0;
    std::uint64_t weight = 1;
    std::uint64_t release = 0;    ///< floor(c * A / a)
    std::uint64_t quotient = 0;   ///< floor((c + 1) * A / a)
    std::uint64_t rest = 0;       ///< (c + 1) * A mod a
    std::uint64_t step = 0;       ///< A / a
    std::uint64_t step_rest = 0;  ///< A mod a
    std::uint64_t deadline() const { return quotient + (rest > 0 ? 1 : 0); }
  };

  void BeginPhase();
  void Advance(Giver& giver);
  /// Makes whole rounds, as many as `draws` and the ends allow; returns the draws that are left.
  std::uint64_t SkipRounds(std::uint64_t draws);

  std::vector<Set> sets_;
  bool endless_ = false;  ///< no set has an end
  std::vector<MixCount> counts_;
  std::vector<Giver> givers_;
  std::uint64_t sum_ = 0;     ///< A
  std::uint64_t draw_ = 0;    ///< n
  std::uint64_t phases_ = 0;  ///< begun
  bool at_end_ = false;
};

}  // namespace ringfeed
