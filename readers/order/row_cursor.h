#pragma once

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
  friend bool operator==(const OrderPlace&, const OrderPlace&) = default;
};

/// One step of an order that is known without reading: gives the numbers of records in the order of
/// their delivery, from any place on. Cursors stand on cursors as decorators do. One thread at a
/// time.
class RowCursor {
 public:
  virtual ~RowCursor() = default;
  /// Places of that pass; kEndlessPlaces: it has no end. Never changes for the same pass.
  virtual std::uint64_t Places(std::uint64_t pass) = 0;
  /// Goes to `place` (at most Places(pass)) of `pass`. Costs no more than a window or block of
  /// draws, whatever the place; nothing of a data file is read.
  virtual Status Seek(std::uint64_t pass, std::uint64_t place) = 0;
  /// From where the cursor at the bottom of the chain is read after Seek(pass, place): its pass and
  /// place, never behind the place that is sought. Goes nowhere.
  virtual OrderPlace Origin(std::uint64_t pass, std::uint64_t place) { return {pass, place}; }
  /// Over which pass of the data itself a place is, where this cursor's passes are several of these
  /// that were joined, and up to which place. (Of places that a shuffle behind that exchanged: as
  /// if it had not.)
  struct DataPass {
    std::uint64_t pass = 0;
    std::uint64_t end = kEndlessPlaces;  ///< not of that pass any more; or later ones are of it too
  };
  virtual DataPass DataPassAt(std::uint64_t pass, std::uint64_t /*place*/) { return {pass}; }
  /// Fills `rows` with what stands at the next places of this pass; *count is less only at its end.
  virtual Status Next(std::span<RowNumber> rows, std::size_t* count) = 0;
  /// Whether Seek costs no more than a few dozen rows of Next: then who needs only some places
  /// seeks over the others, else he takes them and lets them fall.
  virtual bool SeeksAtOnce() const { return false; }
};

/// The order of a chain over files: the source's own, or that of a first stage kStripes or kGlobal,
/// then the stages behind it up to the first that looks into records (kContent). Draws of pass p of
/// a stage are those of epoch first_epoch + p, p counted behind the stages before it; the
/// permutation of the files too. kStripes with an amount is followed by a window of that amount.
/// `layout` must outlive the cursor, which has to be sought before it is read.
std::unique_ptr<RowCursor> MakeRowCursor(const RowLayout& layout, const OrderOptions& options,
                                         std::span<const OrderStage> stages);

/// The order of the files alone: the source's own, or that of `first` where it is kStripes or
/// kGlobal.
std::unique_ptr<RowCursor> MakeFileCursor(const RowLayout& layout, const OrderOptions& options,
                                          const OrderStage* first);

/// The same stages on an order that exists. `even`: all its passes have as many places.
std::unique_ptr<RowCursor> AddOrderStages(std::unique_ptr<RowCursor> cursor,
                                          std::uint32_t first_epoch, bool even,
                                          std::span<const OrderStage> stages);

/// Whether all passes over these files have as many rows: not where their list is permuted before
/// it is split.
bool HasEvenPasses(const FileOrder& files);

/// `passes` passes of its input as one, without a seam (MultiPass in front of a stage or of Batch);
/// 0: all of them as one that has no end.
class JoinCursor final : public RowCursor {
 public:
  /// `even`: all passes of the input have as many places. Else a place is found by going from pass
  /// to pass.
  JoinCursor(std::unique_ptr<RowCursor> input, std::uint64_t passes, bool even);

  std::uint64_t Places(std::uint64_t pass) override;
  /// Fails as Next where passes without end have no such place.
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  OrderPlace Origin(std::uint64_t pass, std::uint64_t place) override;
  DataPass DataPassAt(std::uint64_t pass, std::uint64_t place) override;
  /// Fails where passes without end hold nothing, so many in a row that nothing will come.
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;

  /// Whether even passes hold nothing.
  bool empty() const { return even_ && input_->Places(0) == 0; }

 private:
  /// Where in the input a place stands: within a pass, or at the end of the last. Behind the end of
  /// one where passes without end do not seem to have it.
  OrderPlace Find(std::uint64_t pass, std::uint64_t place);
  bool IsLast(std::uint64_t input_pass) const {
    return passes_ != 0 && (input_pass + 1) % passes_ == 0;
  }

  const std::unique_ptr<RowCursor> input_;
  const std::uint64_t passes_;
  const bool even_;
  std::uint64_t input_pass_ = 0;
  /// The input's pass that was found last, and the place of this cursor's pass where it begins.
  struct Found {
    std::uint64_t pass = 0;
    std::uint64_t place = 0;
    std::uint64_t input_pass = 0;
  };
  Found found_;  ///< of passes that are not even
};

}  // namespace ringfeed
