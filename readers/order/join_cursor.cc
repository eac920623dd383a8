#include "readers/order/join_cursor.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

namespace {

/// Passes without a row that may follow each other before no row is expected at all: with files
/// split between ranks some passes of a rank may be empty, and others not.
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
    // The end of the last pass, not the start of one behind it.
    if (passes_ != 0) whole = std::min(whole, passes_ - 1);
    return {at + whole, place - whole * each};
  }
  int empty = 0;
  for (std::uint64_t each = 0; !IsLast(at) && place >= (each = input_->Places(at)); ++at) {
    place -= each;
    empty = each == 0 ? empty + 1 : 0;
    if (empty == kMostEmptyPasses) break;
  }
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

}  // namespace ringfeed
