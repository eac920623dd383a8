#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "readers/order/row_cursor.h"

namespace ringfeed {

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
};

}  // namespace ringfeed
