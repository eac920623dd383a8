#include "gpu/feed/transfer_planner.h"

#include <algorithm>
#include <cmath>

namespace ringfeed {
namespace {

constexpr double kKiB = 1024;
/// After a shuffle, kAuto leaves a field only if that is so many times cheaper than the CPU's copy.
constexpr std::size_t kClearly = 2;

/// The fewest bytes that cost that much; at most more than there ever are.
std::size_t BytesFor(double ns, double ns_per_kib) {
  constexpr double kMost = 1ULL << 40;
  return static_cast<std::size_t>(std::clamp(std::ceil(kKiB * ns / ns_per_kib), 1.0, kMost));
}

double NsFor(std::size_t bytes, double ns_per_kib) {
  return static_cast<double>(bytes) / kKiB * ns_per_kib;
}

std::string FromOn(std::size_t bytes) { return "from " + std::to_string(bytes) + " bytes on"; }

}  // namespace

TransferPlanner::TransferPlanner(const TransferCosts& costs)
    : costs_(costs),
      alone_bytes_(BytesFor(costs.member_ns, costs.copy_ns_per_kib)),
      left_bytes_(BytesFor(costs.member_ns + costs.sum_ns, costs.copy_ns_per_kib)),
      neighbour_bytes_(
          std::min(BytesFor(costs.row_ns + costs.sum_ns, costs.copy_ns_per_kib), left_bytes_)),
      each_bytes_(std::max(BytesFor(2 * (costs.member_ns - costs.row_ns), costs.link_ns_per_kib),
                           kClearly * left_bytes_)),
      most_gap_bytes_(BytesFor(costs.member_ns, costs.link_ns_per_kib)) {}

LeftFieldRules TransferPlanner::RulesFor(TransferPlan plan, std::size_t asked_bytes) const {
  const auto from = [asked_bytes](std::size_t bytes) {
    return asked_bytes > 0 ? asked_bytes : bytes;
  };
  const bool only_cold = asked_bytes == 0;
  switch (plan) {
    case TransferPlan::kBatch:
      break;
    case TransferPlan::kAuto:
      return {from(kClearly * left_bytes_), from(neighbour_bytes_), true, only_cold};
    case TransferPlan::kMembers:
      return {from(left_bytes_), from(left_bytes_), false};
    case TransferPlan::kSlabs:
    case TransferPlan::kDirect:  // if that cannot be
      return {from(neighbour_bytes_), from(neighbour_bytes_), false};
  }
  return {};
}

std::string TransferPlanner::Reason(TransferPlan plan, std::size_t asked_bytes) const {
  const LeftFieldRules rules = RulesFor(plan, asked_bytes);
  if (!rules.any()) return "the CPU makes batches, as asked for";
  std::string text = rules.only_cold ? "fields of cold files were left " : "fields were left ";
  text += FromOn(rules.least_bytes);
  if (rules.least_neighbour_bytes != rules.least_bytes) {
    text += ", of neighbours " + FromOn(rules.least_neighbour_bytes);
  }
  if (asked_bytes > 0) {
    text += ", as asked for";
    if (plan != TransferPlan::kAuto) return text;
    text += ", and joined";
  }
  const bool defaults = costs_ == TransferCosts();
  return text + (defaults ? ", by costs of an H200 (defaults)" : ", by the costs given");
}

double TransferPlanner::AloneNs(std::size_t bytes) const {
  return std::min(costs_.member_ns, NsFor(bytes, costs_.copy_ns_per_kib));
}

bool TransferPlanner::Join(LeftRows how, std::size_t begin, std::size_t bytes, RowRun* run) const {
  if (how == LeftRows::kEach) return false;
  // Rows may overlap: two fields may want the same bytes.
  const std::size_t end = std::max(run->bytes, begin + bytes);
  const std::size_t gap = begin > run->bytes ? begin - run->bytes : 0;
  const std::size_t wanted = run->wanted + (end - run->bytes) - gap;
  if (!IsWorthCopyingTogether(wanted, end)) return false;
  if (how == LeftRows::kByCost) {
    const bool long_rows = bytes >= each_bytes_ || (run->rows == 1 && run->bytes >= each_bytes_);
    if (long_rows || gap > most_gap_bytes_) return false;
  }
  *run = {run->rows + 1, end, wanted, run->alone_ns + AloneNs(bytes)};
  return true;
}

bool TransferPlanner::GoesTogether(LeftRows how, const RowRun& run) const {
  if (run.rows < 2 || how == LeftRows::kEach) return false;
  if (how == LeftRows::kTogether) return true;
  const double together_ns = costs_.member_ns + static_cast<double>(run.rows) * costs_.row_ns +
                             NsFor(run.bytes - run.wanted, costs_.link_ns_per_kib);
  return together_ns <= run.alone_ns;
}

}  // namespace ringfeed
