#include "readers/order/interleave_cursor.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "base/balanced_split.h"
#include "readers/order/file_schedule.h"

namespace ringfeed {

InterleaveCursor::InterleaveCursor(const RowLayout& layout, const OrderOptions& options)
    : layout_(layout), options_(options) {}

void InterleaveCursor::AddFile(std::size_t file, Lane* lane) const {
  const std::uint64_t stripes = layout_.stripes(file);
  lane->pieces.push_back({file, stripes, lane->turns, lane->rows});
  lane->turns += stripes;
  lane->rows += layout_.FirstRow(file + 1) - layout_.FirstRow(file);
}

void InterleaveCursor::Plan(std::uint64_t pass) {
  const std::uint64_t number = options_.first_epoch + pass;
  if (planned_ && (!options_.files.shuffle || planned_pass_ == number)) return;
  const std::vector<std::size_t> files = FilesOfPass(layout_.files(), options_.files, number);
  lanes_.assign(std::max<std::size_t>(1, std::min(options_.cycle, files.size())), {});
  // Fewest turns first, then the lowest number.
  using Free = std::pair<std::uint64_t, std::size_t>;
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (std::size_t i = 0; i < lanes_.size(); ++i) free.emplace(0, i);
  for (const std::size_t file : files) {
    if (layout_.stripes(file) == 0) continue;
    const std::size_t lane = free.top().second;
    free.pop();
    AddFile(file, &lanes_[lane]);
    free.emplace(lanes_[lane].turns, lane);
  }
  rounds_ = places_ = 0;
  for (const Lane& lane : lanes_) {
    rounds_ = std::max(rounds_, lane.turns);
    places_ += lane.rows;
  }
  planned_ = true;
  planned_pass_ = number;
}

std::uint64_t InterleaveCursor::Places(std::uint64_t pass) {
  if (options_.files.ranks == 1) return layout_.rows();
  const auto files = FilesOfPass(layout_.files(), options_.files, options_.first_epoch + pass);
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [this](std::uint64_t rows, std::size_t file) {
                           return rows + layout_.FirstRow(file + 1) - layout_.FirstRow(file);
                         });
}

Status InterleaveCursor::RowsBefore(const Lane& lane, std::uint64_t turns,
                                    std::uint64_t* rows) const {
  *rows = lane.rows;
  if (turns >= lane.turns) return {};
  const auto behind = std::upper_bound(
      lane.pieces.begin(), lane.pieces.end(), turns,
      [](std::uint64_t turn, const Piece& piece) { return turn < piece.first_turn; });
  const Piece& piece = *std::prev(behind);
  RowNumber first = 0;
  const Status status = layout_.FirstRowOfStripe(piece.file, turns - piece.first_turn, &first);
  if (!status.ok()) return status;
  *rows = piece.rows_before + first - layout_.FirstRow(piece.file);
  return {};
}

Status InterleaveCursor::RowsBefore(std::uint64_t turns, std::uint64_t* rows) const {
  *rows = 0;
  for (const Lane& lane : lanes_) {
    std::uint64_t of_lane = 0;
    const Status status = RowsBefore(lane, turns, &of_lane);
    if (!status.ok()) return status;
    *rows += of_lane;
  }
  return {};
}

Status InterleaveCursor::FindRound(std::uint64_t place, std::uint64_t* round,
                                   std::uint64_t* rows) const {
  *round = *rows = 0;
  std::uint64_t behind = rounds_ + 1;  // has more than `place` rows, or does not exist
  while (behind - *round > 1) {
    const std::uint64_t middle = *round + (behind - *round) / 2;
    std::uint64_t before = 0;
    const Status status = RowsBefore(middle, &before);
    if (!status.ok()) return status;
    if (before > place) {
      behind = middle;
    } else {
      *round = middle;
      *rows = before;
    }
  }
  return {};
}

Status InterleaveCursor::StartRound(std::uint64_t round) {
  turns_.clear();
  next_turn_ = 0;
  row_ = end_ = 0;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].turns <= round) continue;
    Turn turn{i, 0, round, 0};
    const std::vector<Piece>& pieces = lanes_[i].pieces;
    while (turn.piece + 1 < pieces.size() && pieces[turn.piece + 1].first_turn <= round) {
      ++turn.piece;
    }
    turn.stripe = round - pieces[turn.piece].first_turn;
    const Status status =
        layout_.FirstRowOfStripe(pieces[turn.piece].file, turn.stripe, &turn.first);
    if (!status.ok()) return status;
    turns_.push_back(turn);
  }
  return {};
}

Status InterleaveCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  Plan(pass);
  std::uint64_t round = 0;
  std::uint64_t rows = 0;
  Status status = FindRound(place, &round, &rows);
  if (status.ok()) status = StartRound(round);
  for (bool taken = true; status.ok() && taken && rows <= place;) {
    status = TakeTurn(&taken);
    const std::uint64_t skipped = std::min(place - rows, end_ - row_);
    row_ += skipped;
    rows += skipped;
    if (row_ < end_) break;
  }
  return status;
}

Status InterleaveCursor::TakeTurn(bool* taken) {
  if (next_turn_ == turns_.size()) {
    std::erase_if(
        turns_, [this](const Turn& turn) { return turn.piece == lanes_[turn.lane].pieces.size(); });
    next_turn_ = 0;
  }
  *taken = !turns_.empty();
  if (turns_.empty()) return {};
  Turn& turn = turns_[next_turn_++];
  const std::vector<Piece>& pieces = lanes_[turn.lane].pieces;
  const Piece& piece = pieces[turn.piece];
  row_ = turn.first;
  const Status status = layout_.FirstRowOfStripe(piece.file, ++turn.stripe, &end_);
  turn.first = end_;
  if (turn.stripe == piece.stripes) {
    turn.stripe = 0;
    if (++turn.piece < pieces.size()) turn.first = layout_.FirstRow(pieces[turn.piece].file);
  }
  return status;
}

Status InterleaveCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = 0;
  while (*count < rows.size()) {
    if (row_ == end_) {
      bool taken = false;
      const Status status = TakeTurn(&taken);
      if (!status.ok()) return status;
      if (!taken) break;
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
