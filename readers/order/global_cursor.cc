#include "readers/order/global_cursor.h"

#include <algorithm>

#include "readers/order/file_schedule.h"

namespace ringfeed {

GlobalCursor::GlobalCursor(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed)
    : layout_(layout), options_(options), seed_(seed) {}

std::vector<GlobalCursor::Stretch> GlobalCursor::StretchesOf(std::uint64_t pass) const {
  if (options_.files.ranks == 1) return {{layout_.rows(), layout_.rows()}};
  std::vector<std::size_t> files =
      FilesOfPass(layout_.files(), options_.files, options_.first_epoch + pass);
  std::sort(files.begin(), files.end());
  std::vector<Stretch> stretches;
  std::uint64_t rows = 0;
  for (const std::size_t file : files) {
    const RowNumber first = layout_.FirstRow(file);
    const RowNumber end = layout_.FirstRow(file + 1);
    if (first == end) continue;
    rows += end - first;
    if (!stretches.empty() && stretches.back().end == first) stretches.pop_back();
    stretches.push_back({rows, end});
  }
  if (stretches.empty()) stretches.push_back({});
  return stretches;
}

void GlobalCursor::Plan(std::uint64_t pass) {
  if (planned_pass_ == pass) return;
  stretches_ = StretchesOf(pass);
  order_.emplace(stretches_.back().behind, seed_,
                 static_cast<std::uint32_t>(options_.first_epoch + pass),
                 DrawPurpose::kGlobalOrder);
  planned_pass_ = pass;
}

std::uint64_t GlobalCursor::Places(std::uint64_t pass) {
  if (planned_pass_ == pass) return stretches_.back().behind;
  return StretchesOf(pass).back().behind;
}

Status GlobalCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  Plan(pass);
  place_ = place;
  return {};
}

Status GlobalCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  const std::uint64_t left = stretches_.back().behind - place_;
  rows = rows.first(static_cast<std::size_t>(std::min<std::uint64_t>(left, rows.size())));
  order_->Range(place_, rows);
  place_ += rows.size();
  *count = rows.size();
  if (stretches_.size() == 1) {
    const RowNumber shift = stretches_.front().end - stretches_.front().behind;
    if (shift == 0) return {};
    for (RowNumber& row : rows) row += shift;
    return {};
  }
  for (RowNumber& row : rows) {
    const auto stretch = std::upper_bound(
        stretches_.begin(), stretches_.end(), row,
        [](std::uint64_t number, const Stretch& each) { return number < each.behind; });
    row += stretch->end - stretch->behind;
  }
  return {};
}

}  // namespace ringfeed
