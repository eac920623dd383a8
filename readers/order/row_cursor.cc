#include "readers/order/row_cursor.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "readers/order/window_buckets.h"

namespace ringfeed {

namespace {

/// After so many passes in a row without a row, none is expected at all: if files are split between
/// ranks, some passes of a rank may be empty and others not.
constexpr int kMostEmptyPasses = 10000;

Status NoRecords() {
  return Status(StatusCode::kInvalidArgument,
                "passes without end over files that have no record: give files with records, or a "
                "number of passes");
}

}  // namespace

JoinCursor::JoinCursor(std::unique_ptr<RowCursor> input, std::uint64_t passes, bool even)
    : input_(std::move(input)), passes_(passes), even_(even) {}

std::uint64_t JoinCursor::Places(std::uint64_t pass) {
  if (passes_ == 0) return kEndlessPlaces;
  std::uint64_t places = 0;
  if (even_) {
    const bool too_many = __builtin_mul_overflow(input_->Places(0), passes_, &places);
    return too_many ? kEndlessPlaces : std::min(places, kEndlessPlaces);
  }
  for (std::uint64_t i = 0; i < passes_ && places < kEndlessPlaces; ++i) {
    places += input_->Places(pass * passes_ + i);
  }
  return std::min(places, kEndlessPlaces);
}

OrderPlace JoinCursor::Find(std::uint64_t pass, std::uint64_t place) {
  std::uint64_t at = pass * passes_;
  if (even_) {
    const std::uint64_t each = input_->Places(0);
    std::uint64_t whole = each == 0 ? 0 : place / each;
    // The end of the last pass, not the start of a later one.
    if (passes_ != 0) whole = std::min(whole, passes_ - 1);
    return {at + whole, place - whole * each};
  }
  // From the last place that was found: callers usually go on from there.
  if (found_.pass == pass && found_.place <= place && found_.input_pass >= at) {
    at = found_.input_pass;
    place -= found_.place;
  } else {
    found_ = {pass, 0, at};
  }
  int empty = 0;
  for (std::uint64_t each = 0; !IsLast(at) && place >= (each = input_->Places(at)); ++at) {
    place -= each;
    found_.place += each;
    empty = each == 0 ? empty + 1 : 0;
    if (empty == kMostEmptyPasses) break;
  }
  found_.input_pass = at;
  return {at, place};
}

Status JoinCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  const OrderPlace at = Find(pass, place);
  input_pass_ = at.pass;
  if (passes_ == 0 && at.place > 0 && at.place >= input_->Places(at.pass)) return NoRecords();
  return input_->Seek(at.pass, at.place);
}

OrderPlace JoinCursor::Origin(std::uint64_t pass, std::uint64_t place) {
  const OrderPlace at = Find(pass, place);
  return input_->Origin(at.pass, at.place);
}

RowCursor::DataPass JoinCursor::DataPassAt(std::uint64_t pass, std::uint64_t place) {
  const OrderPlace at = Find(pass, place);
  DataPass found = input_->DataPassAt(at.pass, at.place);
  const std::uint64_t end = std::min(found.end, input_->Places(at.pass));
  found.end = place + std::max<std::uint64_t>(1, end - std::min(end, at.place));
  return found;
}

Status JoinCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = 0;
  for (int empty = 0; *count < rows.size(); ++empty) {
    std::size_t some = 0;
    Status status = input_->Next(rows.subspan(*count), &some);
    if (!status.ok()) return status;
    if (some > 0) empty = 0;
    *count += some;
    if (*count == rows.size() || IsLast(input_pass_)) break;
    if (empty == kMostEmptyPasses) return NoRecords();
    status = input_->Seek(++input_pass_, 0);
    if (!status.ok()) return status;
  }
  return {};
}

namespace {

/// A shuffle by numbers: rows leave a buffer, which is filled from the input.
class ShuffleCursor : public RowCursor {
 public:
  std::uint64_t Places(std::uint64_t pass) final { return input_->Places(pass); }
  DataPass DataPassAt(std::uint64_t pass, std::uint64_t place) final {
    return input_->DataPassAt(pass, place);
  }
  Status Next(std::span<RowNumber> rows, std::size_t* count) final;

 protected:
  /// `stage` has the window or the rows of a block.
  ShuffleCursor(std::unique_ptr<RowCursor> input, const OrderStage& stage,
                std::uint32_t first_epoch)
      : input_(std::move(input)),
        amount_(stage.amount),
        seed_(stage.seed),
        first_epoch_(first_epoch) {}

  /// Goes on until rows are ready, or until there are none.
  virtual Status Fill() = 0;
  DrawSequence DrawsOf(std::uint64_t pass, DrawPurpose purpose) const {
    return {seed_, static_cast<std::uint32_t>(first_epoch_ + pass), purpose};
  }
  void DropReady() {
    ready_.clear();
    at_ = 0;
  }

  const std::unique_ptr<RowCursor> input_;
  const std::uint64_t amount_;
  std::vector<RowNumber> ready_;
  std::size_t at_ = 0;  ///< of the next one in ready_

 private:
  const std::uint64_t seed_;
  const std::uint32_t first_epoch_;
};

Status ShuffleCursor::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = 0;
  while (*count < rows.size()) {
    const Status status = Fill();
    if (!status.ok()) return status;
    const std::size_t many = std::min(ready_.size() - at_, rows.size() - *count);
    if (many == 0) break;
    std::copy_n(ready_.begin() + static_cast<std::ptrdiff_t>(at_), many,
                rows.begin() + static_cast<std::ptrdiff_t>(*count));
    at_ += many;
    *count += many;
  }
  return {};
}

/// The block shuffle (BlockShuffleStage). Starts at the start of the block that holds the place, at
/// the next call of Next.
class BlockCursor final : public ShuffleCursor {
 public:
  BlockCursor(std::unique_ptr<RowCursor> input, const OrderStage& stage, std::uint32_t first_epoch)
      : ShuffleCursor(std::move(input), stage, first_epoch) {}

  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  OrderPlace Origin(std::uint64_t pass, std::uint64_t place) override {
    return input_->Origin(pass, place - place % amount_);
  }

 private:
  Status Fill() override;

  std::uint64_t pass_ = 0;
  std::uint64_t places_ = 0;  ///< of this pass
  std::uint64_t next_block_ = 0;
  std::uint64_t skipped_ = 0;  ///< rows of the next block that were delivered before
};

Status BlockCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  pass_ = pass;
  places_ = input_->Places(pass);
  next_block_ = place / amount_;
  skipped_ = place % amount_;
  DropReady();
  return input_->Seek(pass, place - skipped_);
}

Status BlockCursor::Fill() {
  while (at_ == ready_.size() && next_block_ * amount_ < places_) {
    const std::uint64_t base = next_block_++ * amount_;
    ready_.resize(std::min(amount_, places_ - base));
    std::size_t count = 0;
    const Status status = input_->Next(ready_, &count);
    ready_.resize(status.ok() ? count : 0);
    DrawSequence draws = DrawsOf(pass_, DrawPurpose::kBlockShuffle);
    for (std::uint64_t j = ready_.size(); j-- > 1;) {
      std::swap(ready_[j], ready_[(std::uint64_t{draws.At(base + j)} * (j + 1)) >> 32]);
    }
    at_ = std::min<std::size_t>(std::exchange(skipped_, 0), ready_.size());
    if (!status.ok()) return status;
  }
  return {};
}

/// The window shuffle (WindowShuffleStage). To start at place p it takes the rows from p - W on,
/// since all earlier ones left before p, and drops what leaves before p; the next call of Next does
/// that. Row numbers are less than 2^58.
class WindowCursor final : public ShuffleCursor {
 public:
  WindowCursor(std::unique_ptr<RowCursor> input, const OrderStage& stage, std::uint32_t first_epoch)
      : ShuffleCursor(std::move(input), stage, first_epoch),
        draws_(DrawsOf(0, DrawPurpose::kWindowShuffle)),
        buckets_(stage.amount) {}

  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  OrderPlace Origin(std::uint64_t pass, std::uint64_t place) override {
    return input_->Origin(pass, FirstArrival(place));
  }

 private:
  struct Held {
    std::uint32_t fraction;
    std::uint32_t low;    ///< of the row number
    std::uint32_t place;  ///< position in its bucket in the low 6 bits, the row number's rest above
    std::uint32_t within() const { return place % kTogether; }
    RowNumber row() const { return std::uint64_t{place / kTogether} << 32 | low; }
  };
  static constexpr std::uint32_t kTogether = 64;
  static_assert(kTogether == WindowBuckets<Held>::kBucketPositions);

  /// The input's place from which on rows must be taken to know place `place`.
  std::uint64_t FirstArrival(std::uint64_t place) const;
  /// Takes up to 64 rows of the input.
  Status TakeInput();
  void TakeBucket();
  Status Fill() override;

  DrawSequence draws_;
  WindowBuckets<Held> buckets_;
  bool ended_ = false;      ///< the input gave its last row
  std::uint64_t skip_ = 0;  ///< rows that leave before the place that was sought
  std::array<RowNumber, kTogether> arrivals_;
};

std::uint64_t WindowCursor::FirstArrival(std::uint64_t place) const {
  const std::uint64_t first = place > amount_ ? place - amount_ : 0;
  return first - first % kTogether;
}

Status WindowCursor::Seek(std::uint64_t pass, std::uint64_t place) {
  const std::uint64_t first = FirstArrival(place);
  draws_ = DrawsOf(pass, DrawPurpose::kWindowShuffle);
  buckets_.Restart(first);
  ended_ = false;
  skip_ = place - first;
  DropReady();
  return input_->Seek(pass, first);
}

Status WindowCursor::TakeInput() {
  std::size_t count = 0;
  const Status status = input_->Next(arrivals_, &count);
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < count; ++i) {
    const RowNumber row = arrivals_[i];
    const auto target = buckets_.At(draws_.At(buckets_.arrived()));
    const auto high = static_cast<std::uint32_t>(row >> 32);
    buckets_.Put(target, {target.fraction, static_cast<std::uint32_t>(row),
                          high * kTogether + target.within});
    buckets_.Arrive();
  }
  if (count < kTogether) {
    ended_ = true;
    buckets_.Close();
  }
  return {};
}

void WindowCursor::TakeBucket() {
  if (skip_ >= buckets_.oldest()) {
    skip_ -= buckets_.oldest();
    buckets_.Drop();
    return;
  }
  const std::span<const Held> bucket = buckets_.Take().subspan(std::exchange(skip_, 0));
  ready_.resize(bucket.size());
  std::transform(bucket.begin(), bucket.end(), ready_.begin(),
                 [](const Held& held) { return held.row(); });
  at_ = 0;
}

Status WindowCursor::Fill() {
  while (at_ == ready_.size() && (buckets_.due() || !ended_ || buckets_.holds())) {
    if (buckets_.due() || ended_) {
      TakeBucket();
      continue;
    }
    const Status status = TakeInput();
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

bool HasEvenPasses(const FileOrder& files) { return files.ranks == 1 || !files.shuffle; }

std::unique_ptr<RowCursor> AddOrderStages(std::unique_ptr<RowCursor> cursor,
                                          std::uint32_t first_epoch, bool even,
                                          std::span<const OrderStage> stages) {
  using Kind = OrderStage::Kind;
  for (const OrderStage& stage : stages) {
    switch (stage.kind) {
      case Kind::kWindow:
        cursor = std::make_unique<WindowCursor>(std::move(cursor), stage, first_epoch);
        break;
      case Kind::kBlock:
        cursor = std::make_unique<BlockCursor>(std::move(cursor), stage, first_epoch);
        break;
      case Kind::kMultiPass:
        if (stage.amount == 1) break;  // each pass is one
        cursor = std::make_unique<JoinCursor>(std::move(cursor), stage.amount, even);
        break;
      case Kind::kStripes:
      case Kind::kGlobal:
        assert(false && "stands on files alone");
        break;
    }
  }
  return cursor;
}

std::unique_ptr<RowCursor> MakeRowCursor(const RowLayout& layout, const OrderOptions& options,
                                         std::span<const OrderStage> stages) {
  const OrderStage* const first = stages.empty() ? nullptr : &stages.front();
  auto cursor = MakeFileCursor(layout, options, first);
  if (first != nullptr && first->kind == OrderStage::Kind::kStripes && first->amount != 0) {
    cursor = std::make_unique<WindowCursor>(std::move(cursor), *first, options.first_epoch);
  }
  const bool on_files = first != nullptr && (first->kind == OrderStage::Kind::kGlobal ||
                                             first->kind == OrderStage::Kind::kStripes);
  return AddOrderStages(std::move(cursor), options.first_epoch, HasEvenPasses(options.files),
                        on_files ? stages.subspan(1) : stages);
}

}  // namespace ringfeed
