#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/philox.h"
#include "readers/order/row_cursor.h"
#include "readers/order/window_buckets.h"

namespace ringfeed {

/// The window shuffle (WindowShuffleStage) by numbers. To start at place p it takes the rows from p
/// - W on, since all before left before p, and drops what leaves before p; that is done by the next
/// call of Next. Row numbers are less than 2^58.
class WindowCursor final : public RowCursor {
 public:
  WindowCursor(std::unique_ptr<RowCursor> input, std::uint64_t window, std::uint64_t seed,
               std::uint32_t first_epoch);

  std::uint64_t Places(std::uint64_t pass) override { return input_->Places(pass); }
  Status Seek(std::uint64_t pass, std::uint64_t place) override;
  OrderPlace Origin(std::uint64_t pass, std::uint64_t place) override;
  Status Next(std::span<RowNumber> rows, std::size_t* count) override;

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

  /// The input's place from which place `place` is known.
  std::uint64_t FirstArrival(std::uint64_t place) const;
  /// Takes up to 64 rows of the input.
  Status TakeInput();
  void TakeBucket();
  /// Goes on until rows are ready, or until there are none.
  Status Fill();

  const std::unique_ptr<RowCursor> input_;
  const std::uint64_t window_;
  const std::uint64_t seed_;
  const std::uint32_t first_epoch_;

  DrawSequence draws_;
  WindowBuckets<Held> buckets_;
  bool ended_ = false;      ///< the input gave its last row
  std::uint64_t skip_ = 0;  ///< rows that leave before the place that was sought
  std::array<RowNumber, kTogether> arrivals_;
  std::vector<RowNumber> out_;
  std::size_t at_ = 0;  ///< in out_
};

}  // namespace ringfeed
