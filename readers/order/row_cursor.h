#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "readers/order/row_layout.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Places of a pass that has no end.
inline constexpr std::uint64_t kEndlessPlaces = std::uint64_t{1} << 62;

/// A place of one pass.
struct OrderPlace {
  std::uint64_t pass = 0;
  std::uint64_t place = 0;
  friend auto operator<=>(const OrderPlace&, const OrderPlace&) = default;
};

/// One step of an order that is known without reading: gives the numbers of records in the order of
/// their delivery, from any place on. A cursor may read another one, as decorators do. One thread
/// at a time.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  /// Places of that pass; kEndlessPlaces: it has no end. Never changes for the same pass.
  virtual std::uint64_t Places(std::uint64_t pass) = 0;
  /// Goes to `place` (at most Places(pass)) of `pass`. Costs no more than a window or block of
  /// draws, whatever the place; nothing of a data file is read.
  virtual Status Seek(std::uint64_t pass, std::uint64_t place) = 0;
  /// The place from which the cursor at the bottom of the chain is read after Seek(pass, place):
  /// its pass and place, at or before the place that is sought. Moves nothing.
  virtual OrderPlace Origin(std::uint64_t pass, std::uint64_t place) { return {pass, place}; }
  /// The pass of the data itself that a place is of, if this cursor's passes join several of these,
  /// and the place up to which it is. (If a shuffle on top exchanged places: as if it had not.)
  struct DataPass {
    std::uint64_t pass = 0;
    std::uint64_t end = kEndlessPlaces;  ///< not of that pass any more; or later ones are of it too
  };
  virtual DataPass DataPassAt(std::uint64_t pass, std::uint64_t /*place*/) { return {pass}; }
  /// Fills `rows` with the rows at the next places of this pass; *count is less only at its end.
  virtual Status Next(std::span<RowNumber> rows, std::size_t* count) = 0;
  /// Whether Seek costs no more than a few dozen rows of Next. Then a caller that needs only some
  /// places seeks over the others; else it takes them and drops them.
  virtual bool SeeksAtOnce() const { return false; }
};

/// The order of a chain over files: the source's own, or that of a first stage kStripes or kGlobal,
/// then the later stages. Draws of pass p of a
/// stage are those of epoch first_epoch + p, p counted after the stages before it; the
/// permutation of the files too. kStripes with an amount is followed by a window of that amount.
/// `layout` must outlive the cursor, which has to be sought before it is read.
std::unique_ptr<RowCursor> MakeRowCursor(const RowLayout& layout, const OrderOptions& options,
                                         std::span<const OrderStage> stages);

/// The order of the files alone: the source's own, or that of `first` if it is kStripes or kGlobal.
std::unique_ptr<RowCursor> MakeFileCursor(const RowLayout& layout, const OrderOptions& options,
                                          const OrderStage* first);

/// The same stages on an order that exists. `even`: all its passes have as many places.
std::unique_ptr<RowCursor> AddOrderStages(std::unique_ptr<RowCursor> cursor,
                                          std::uint32_t first_epoch, bool even,
                                          std::span<const OrderStage> stages);

/// Whether all passes over these files have as many rows: not if their list is permuted before it
/// is split.
bool HasEvenPasses(const FileOrder& files);

/// `passes` passes of its input as one, without a seam (MultiPass in front of a stage or of Batch);
/// 0: all of them as one that has no end.
class JoinCursor final : public RowCursor {
 public:
  /// `even`: all passes of the input have as many places. Else a place is found by going from pass
  /// to pass.
  JoinCursor(std::unique_ptr<RowCursor> input, std::uint64_t passes, bool even);

  std::uint64_t Places(std::uint64_t pass) override;
  /// Fails as Next if endless passes have no such place.
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  OrderPlace Origin(std::uint64_t pass, std::uint64_t place) override;
  DataPass DataPassAt(std::uint64_t pass, std::uint64_t place) override;
  /// Fails if so many endless passes in a row hold nothing that nothing will come.
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;

  /// Whether even passes hold nothing.
  bool empty() const { return even_ && input_->Places(0) == 0; }

 private:
  /// The place in the input: within a pass, or at the end of the last. Past the end of a pass if
  /// endless passes do not seem to have it.
  OrderPlace Find(std::uint64_t pass, std::uint64_t place);
  bool IsLast(std::uint64_t input_pass) const {
    return passes_ != 0 && (input_pass + 1) % passes_ == 0;
  }

  const std::unique_ptr<RowCursor> input_;
  const std::uint64_t passes_;
  const bool even_;
  std::uint64_t input_pass_ = 0;
  /// The input's pass that was found last, and its first place in this cursor's pass.
  struct Found {
    std::uint64_t pass = 0;
    std::uint64_t place = 0;
    std::uint64_t input_pass = 0;
  };
  Found found_;  ///< of passes that are not even
};

}  // namespace ringfeed
