#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "base/balanced_split.h"
#include "base/keyed_permutation.h"
#include "readers/order/files_of_pass.h"
#include "readers/order/row_cursor.h"
#include "readers/order/row_layout.h"

namespace ringfeed {

namespace {

// Another program may have written the index.
Status NoOrder() {
  return Status(StatusCode::kDamaged,
                "a stripe ends before it begins, by its file's index: build that anew (ringfeed "
                "index --rebuild)");
}

/// Rows of the files of a pass.
std::uint64_t RowsOfPass(const RowLayout& layout, const OrderOptions& options, std::uint64_t pass) {
  if (options.files.ranks == 1) return layout.rows();
  std::uint64_t rows = 0;
  for (const std::size_t file :
       FilesOfPass(layout.files(), options.files, options.first_epoch + pass)) {
    rows += layout.FirstRow(file + 1) - layout.FirstRow(file);
  }
  return rows;
}

/// An order of stripes, whose rows come in their own order.
class StripesCursor : public RowCursor {
 public:
  Status Next(std::span<RowNumber> rows, std::size_t* count) final;

 protected:
  /// `layout` must outlive the cursor.
  StripesCursor(const RowLayout& layout, const OrderOptions& options)
      : layout_(layout), options_(options) {}

  /// Takes the next stripe of the pass; false at its end.
  virtual Status TakeTurn(bool* taken) = 0;

  const RowLayout& layout_;
  const OrderOptions options_;
  RowNumber row_ = 0;  ///< the rest of the stripe that was taken
  RowNumber end_ = 0;
};

Status StripesCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
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

/// The order of files that take turns, as FileSchedule assigns them to lanes (docs/ORDER.md,
/// "Files, stripes, interleave"). To find a place it compares the rows that all lanes give in a
/// number of turns, which the layout knows: a logarithm of the turns, not their number.
class InterleaveCursor final : public StripesCursor {
 public:
  InterleaveCursor(const RowLayout& layout, const OrderOptions& options)
      : StripesCursor(layout, options) {}

  std::uint64_t Places(std::uint64_t pass) override { return RowsOfPass(layout_, options_, pass); }
  Status Seek(std::uint64_t pass, std::uint64_t place) override;

 private:
  /// A file in a lane.
  struct Piece {
    std::size_t file = 0;
    std::uint64_t stripes = 0;
    std::uint64_t first_turn = 0;   ///< of the lane
    std::uint64_t rows_before = 0;  ///< of the lane
  };
  struct Lane {
    std::vector<Piece> pieces;
    std::uint64_t turns = 0;
    std::uint64_t rows = 0;
  };
  /// A lane that has turns left.
  struct Turn {
    std::size_t lane = 0;
    std::size_t piece = 0;
    std::uint64_t stripe = 0;
    RowNumber first = 0;  ///< of the stripe
  };

  void Plan(std::uint64_t pass);
  void AddFile(std::size_t file, Lane* lane) const;
  Status RowsBefore(const Lane& lane, std::uint64_t turns, std::uint64_t* rows) const;
  /// Of all lanes.
  Status RowsBefore(std::uint64_t turns, std::uint64_t* rows) const;
  /// The most turns of each lane that hold `place` rows or fewer.
  Status FindRound(std::uint64_t place, std::uint64_t* round, std::uint64_t* rows) const;
  Status StartRound(std::uint64_t round);
  Status TakeTurn(bool* taken) override;

  std::optional<std::uint64_t> planned_pass_;
  std::vector<Lane> lanes_;
  std::uint64_t rounds_ = 0;  ///< turns of the lane that has most
  std::uint64_t places_ = 0;

  std::vector<Turn> turns_;  ///< lanes that are in use, in their order
  std::size_t next_turn_ = 0;
};

void InterleaveCursor::AddFile(std::size_t file, Lane* lane) const {
  const std::uint64_t stripes = layout_.stripes(file);
  lane->pieces.push_back({file, stripes, lane->turns, lane->rows});
  lane->turns += stripes;
  lane->rows += layout_.FirstRow(file + 1) - layout_.FirstRow(file);
}

void InterleaveCursor::Plan(std::uint64_t pass) {
  const std::uint64_t number = options_.first_epoch + pass;
  if (planned_pass_ && (!options_.files.shuffle || planned_pass_ == number)) return;
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
  planned_pass_ = number;
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
  if (status.ok() && end_ < row_) {
    end_ = row_;
    return NoOrder();
  }
  turn.first = end_;
  if (turn.stripe == piece.stripes) {
    turn.stripe = 0;
    if (++turn.piece < pieces.size()) turn.first = layout_.FirstRow(pieces[turn.piece].file);
  }
  return status;
}

/// The stripes of all files of a pass, numbered in the order of the list, in the order of a keyed
/// permutation of (seed, epoch, kBlockOrder); the rows of a stripe in their own. A pass from its
/// beginning needs no table. To start within one it counts the rows of the stripes, once for each
/// pass: eight bytes each.
class BlocksCursor final : public StripesCursor {
 public:
  BlocksCursor(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed)
      : StripesCursor(layout, options), seed_(seed) {}

  std::uint64_t Places(std::uint64_t pass) override {
    return planned_pass_ == pass ? places_ : RowsOfPass(layout_, options_, pass);
  }
  Status Seek(std::uint64_t pass, std::uint64_t place) override;

 private:
  void Plan(std::uint64_t pass);
  /// The rows of the stripe that turn `turn` reads.
  Status RowsOfTurn(std::uint64_t turn, RowNumber* first, RowNumber* end) const;
  Status CountTurns();
  Status TakeTurn(bool* taken) override {
    *taken = turn_ < first_stripe_.back();
    return *taken ? RowsOfTurn(turn_++, &row_, &end_) : Status();
  }

  const std::uint64_t seed_;

  std::optional<std::uint64_t> planned_pass_;
  std::vector<std::size_t> files_;           ///< in the order of the list
  std::vector<std::uint64_t> first_stripe_;  ///< of each, and the number of all
  std::uint64_t places_ = 0;
  std::optional<KeyedPermutation> order_;
  std::vector<std::uint64_t> rows_behind_;  ///< rows of the turns up to each; empty: not counted

  std::uint64_t turn_ = 0;
};

void BlocksCursor::Plan(std::uint64_t pass) {
  if (planned_pass_ == pass) return;
  const std::uint64_t number = options_.first_epoch + pass;
  // All files of a pass are in the list's order: the permutation of the stripes replaces theirs.
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

Status BlocksCursor::RowsOfTurn(std::uint64_t turn, RowNumber* first, RowNumber* end) const {
  const std::uint64_t stripe = order_->At(turn);
  const auto behind = std::upper_bound(first_stripe_.begin(), first_stripe_.end(), stripe);
  const auto at = static_cast<std::size_t>(behind - first_stripe_.begin()) - 1;
  const std::uint64_t of_file = stripe - first_stripe_[at];
  Status status = layout_.FirstRowOfStripe(files_[at], of_file, first);
  if (!status.ok()) return status;
  status = layout_.FirstRowOfStripe(files_[at], of_file + 1, end);
  return status.ok() && *end < *first ? NoOrder() : status;
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

/// All rows of the files of a pass, numbered in the order of the list, in the order of a keyed
/// permutation of (seed, epoch, kGlobalOrder): a place is a row without a table.
class GlobalCursor final : public RowCursor {
 public:
  /// `layout` must outlive the cursor.
  GlobalCursor(const RowLayout& layout, const OrderOptions& options, std::uint64_t seed)
      : layout_(layout), options_(options), seed_(seed) {}

  std::uint64_t Places(std::uint64_t pass) override;
  Status Seek(std::uint64_t pass, std::uint64_t place) override {
    Plan(pass);
    place_ = place;
    return {};
  }
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;
  bool SeeksAtOnce() const override { return true; }

 private:
  /// Files of a pass that follow each other in the list.
  struct Stretch {
    std::uint64_t behind = 0;  ///< rows of the pass up to its end
    RowNumber end = 0;         ///< number of its last row + 1
  };

  void Plan(std::uint64_t pass);
  std::vector<Stretch> StretchesOf(std::uint64_t pass) const;

  const RowLayout& layout_;
  const OrderOptions options_;
  const std::uint64_t seed_;

  std::optional<std::uint64_t> planned_pass_;
  std::vector<Stretch> stretches_;
  std::optional<KeyedPermutation> order_;
  std::uint64_t place_ = 0;
};

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

/// The rows of the data set that the numbers of another cursor stand for.
class KeptCursor final : public RowCursor {
 public:
  KeptCursor(std::unique_ptr<RowCursor> input, const KeptRows& kept)
      : input_(std::move(input)), kept_(kept) {}

  std::uint64_t Places(std::uint64_t pass) override { return input_->Places(pass); }
  Status Seek(std::uint64_t pass, std::uint64_t place) override {
    return input_->Seek(pass, place);
  }
  Status Next(std::span<RowNumber> rows, std::size_t* count) override {
    const Status status = input_->Next(rows, count);
    return status.ok() ? kept_.ToRows(rows.first(*count)) : status;
  }
  bool SeeksAtOnce() const override { return input_->SeeksAtOnce(); }

 private:
  const std::unique_ptr<RowCursor> input_;
  const KeptRows& kept_;
};

std::unique_ptr<RowCursor> MakeCursor(const RowLayout& layout, const OrderOptions& options,
                                      const OrderStage* first) {
  using Kind = OrderStage::Kind;
  if (first != nullptr && first->kind == Kind::kGlobal) {
    return std::make_unique<GlobalCursor>(layout, options, first->seed);
  }
  if (first != nullptr && first->kind == Kind::kStripes) {
    return std::make_unique<BlocksCursor>(layout, options, first->seed);
  }
  return std::make_unique<InterleaveCursor>(layout, options);
}

}  // namespace

std::unique_ptr<RowCursor> MakeFileCursor(const RowLayout& layout, const OrderOptions& options,
                                          const OrderStage* first) {
  auto cursor = MakeCursor(layout, options, first);
  if (layout.kept() == nullptr) return cursor;
  return std::make_unique<KeptCursor>(std::move(cursor), *layout.kept());
}

}  // namespace ringfeed
