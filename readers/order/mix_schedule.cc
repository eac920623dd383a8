#include "readers/order/mix_schedule.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <utility>

#include "readers/order/row_cursor.h"

namespace ringfeed {

namespace {

using Wide = unsigned __int128;

constexpr std::uint64_t kMostExactSum = std::uint64_t{1} << 20;
constexpr double kLargeSum = 4294967296.0;
constexpr double kExact = 1e-9;

bool Fits(std::span<const double> shares, double sum) {
  return std::all_of(shares.begin(), shares.end(), [sum](double share) {
    const double rounded = std::round(share * sum);
    return rounded >= 1 && std::abs(rounded / sum - share) <= kExact;
  });
}

}  // namespace

std::vector<std::uint64_t> IntegerWeights(std::span<const double> weights) {
  // Divides by the largest first: the sum of weights near the largest double overflows.
  const double largest = *std::max_element(weights.begin(), weights.end());
  std::vector<double> shares(weights.begin(), weights.end());
  for (double& share : shares) share /= largest;
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= all;
  double sum = kLargeSum;
  for (std::uint64_t exact = weights.size(); exact <= kMostExactSum; ++exact) {
    if (!Fits(shares, static_cast<double>(exact))) continue;
    sum = static_cast<double>(exact);
    break;
  }
  std::vector<std::uint64_t> integers;
  for (const double share : shares) {
    integers.push_back(static_cast<std::uint64_t>(std::max(1.0, std::round(share * sum))));
  }
  return integers;
}

MixSchedule::MixSchedule(std::vector<Set> sets)
    : sets_(std::move(sets)),
      endless_(std::all_of(sets_.begin(), sets_.end(),
                           [](const Set& set) { return set.limit >= kEndlessPlaces; })),
      counts_(sets_.size()) {
  BeginPhase();
}

void MixSchedule::Start(std::span<const MixCount> counts) {
  assert(counts.size() == sets_.size());
  counts_.assign(counts.begin(), counts.end());
  BeginPhase();
}

void MixSchedule::BeginPhase() {
  givers_.clear();
  sum_ = draw_ = 0;
  ++phases_;
  at_end_ = !endless_;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    if (counts_[i].count >= sets_[i].limit) continue;
    if (sets_[i].limit < kEndlessPlaces) at_end_ = false;
    sum_ += sets_[i].weight;
    draw_ += counts_[i].phase;
    givers_.push_back({.set = i, .weight = sets_[i].weight});
  }
  for (Giver& giver : givers_) {
    const Wide given = Wide{counts_[giver.set].phase} * sum_;
    giver.release = static_cast<std::uint64_t>(given / giver.weight);
    giver.quotient = static_cast<std::uint64_t>((given + sum_) / giver.weight);
    giver.rest = static_cast<std::uint64_t>((given + sum_) % giver.weight);
    giver.step = sum_ / giver.weight;
    giver.step_rest = sum_ % giver.weight;
  }
}

void MixSchedule::Advance(Giver& giver) {
  giver.release = giver.quotient;
  giver.quotient += giver.step;
  giver.rest += giver.step_rest;
  if (giver.rest >= giver.weight) {
    giver.rest -= giver.weight;
    ++giver.quotient;
  }
}

std::size_t MixSchedule::Next() {
  assert(!at_end_);
  // One is always eligible, unless no schedule led to these counts: then the most urgent one gives.
  Giver* best = nullptr;
  bool best_eligible = false;
  std::uint64_t best_deadline = 0;
  for (Giver& giver : givers_) {
    const bool eligible = giver.release <= draw_;
    const std::uint64_t deadline = giver.deadline();
    if (best != nullptr && (eligible == best_eligible ? deadline >= best_deadline : !eligible)) {
      continue;
    }
    best = &giver;
    best_eligible = eligible;
    best_deadline = deadline;
  }
  const std::size_t set = best->set;
  ++draw_;
  ++counts_[set].phase;
  if (++counts_[set].count == sets_[set].limit) {
    for (MixCount& count : counts_) count.phase = 0;
    BeginPhase();
  } else {
    Advance(*best);
  }
  return set;
}

std::uint64_t MixSchedule::SkipRounds(std::uint64_t draws) {
  std::uint64_t rounds = draws / sum_;
  for (const Giver& giver : givers_) {
    const std::uint64_t limit = sets_[giver.set].limit;
    if (limit >= kEndlessPlaces) continue;
    rounds = std::min(rounds, (limit - counts_[giver.set].count - 1) / giver.weight);
  }
  // The schedule repeats itself every A draws, in which each set gives as often as its weight says.
  for (Giver& giver : givers_) {
    counts_[giver.set].count += rounds * giver.weight;
    counts_[giver.set].phase += rounds * giver.weight;
    giver.release += rounds * sum_;
    giver.quotient += rounds * sum_;
  }
  draw_ += rounds * sum_;
  return draws - rounds * sum_;
}

void MixSchedule::Skip(std::uint64_t draws) {
  while (draws > 0 && !at_end_) {
    draws = SkipRounds(draws);
    for (const std::uint64_t phase = phases_; draws > 0 && phases_ == phase; --draws) Next();
  }
}

}  // namespace ringfeed
