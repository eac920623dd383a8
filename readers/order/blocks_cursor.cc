#include "readers/order/blocks_cursor.h"

#include <algorithm>
#include <numeric>

#include "readers/order/file_schedule.h"

namespace ringfeed {

BlocksCursor::BlocksCursor(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed)
    : layout_(layout), options_(options), seed_(seed) {}

void BlocksCursor::Plan(std::uint64_t pass) {
  if (planned_pass_ == pass) return;
  const std::uint64_t number = options_.first_epoch + pass;
  // All files of a pass are in the list's order: the permutation of the stripes covers their own.
  if (!planned_pass_.has_value() || options_.files.ranks > 1) {
    files_ = FilesOfPass(layout_.files(), options_.files, number);
    std::sort(files_.begin(), files_.end());
    first_stripe_.assign(1, 0);
    places_ = 0;
    for (const std::size_t file : files_) {
      first_stripe_.push_back(first_stripe_.back() + layout_.stripes(file));
      places_ += layout_.FirstRow(file + 1) - layout_.FirstRow(file);
    }
  }
  order_.emplace(first_stripe_.back(), seed_, static_cast<std::uint32_t>(number),
                 DrawPurpose::kBlockOrder);
  rows_behind_.clear();
  planned_pass_ = pass;
}

std::uint64_t BlocksCursor::Places(std::uint64_t pass) {
  if (options_.files.ranks == 1) return layout_.rows();
  if (planned_pass_ == pass) return places_;
  std::uint64_t places = 0;
  const std::uint64_t number = options_.first_epoch + pass;
  for (const std::size_t file : FilesOfPass(layout_.files(), options_.files, number)) {
    places += layout_.FirstRow(file + 1) - layout_.FirstRow(file);
  }
  return places;
}

Status BlocksCursor::RowsOfTurn(std::uint64_t turn, RowNumber* first, RowNumber* end) const {
  const std::uint64_t stripe = order_->At(turn);
  const auto behind = std::upper_bound(first_stripe_.begin(), first_stripe_.end(), stripe);
  const auto at = static_cast<std::size_t>(behind - first_stripe_.begin()) - 1;
  const std::uint64_t of_file = stripe - first_stripe_[at];
  const Status status = layout_.FirstRowOfStripe(files_[at], of_file, first);
  if (!status.ok()) return status;
  return layout_.FirstRowOfStripe(files_[at], of_file + 1, end);
}

Status BlocksCursor::CountTurns() {
  const std::uint64_t turns = first_stripe_.back();
  rows_behind_.reserve(turns);
  std::uint64_t rows = 0;
  for (std::uint64_t turn = 0; turn < turns; ++turn) {
    RowNumber first = 0;
    RowNumber end = 0;
    const Status status = RowsOfTurn(turn, &first, &end);
    if (!status.ok()) {
      rows_behind_.clear();
      return status;
    }
    rows += end - first;
    rows_behind_.push_back(rows);
  }
  return {};
}

Status BlocksCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  Plan(pass);
  turn_ = 0;
  row_ = end_ = 0;
  if (place == 0) return {};
  if (rows_behind_.empty()) {
    const Status status = CountTurns();
    if (!status.ok()) return status;
  }
  const auto at = std::upper_bound(rows_behind_.begin(), rows_behind_.end(), place);
  turn_ = static_cast<std::uint64_t>(at - rows_behind_.begin());
  if (at == rows_behind_.end()) return {};
  const std::uint64_t before = at == rows_behind_.begin() ? 0 : *std::prev(at);
  const Status status = RowsOfTurn(turn_++, &row_, &end_);
  row_ += place - before;
  return status;
}

Status BlocksCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = 0;
  while (*count < rows.size()) {
    if (row_ == end_) {
      if (turn_ == first_stripe_.back()) break;
      const Status status = RowsOfTurn(turn_++, &row_, &end_);
      if (!status.ok()) return status;
    }
    const auto many =
        static_cast<std::size_t>(std::min<std::uint64_t>(end_ - row_, rows.size() - *count));
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(*count);
    std::iota(first, first + static_cast<std::ptrdiff_t>(many), row_);
    row_ += many;
    *count += many;
  }
  return {};
}

}  // namespace ringfeed
