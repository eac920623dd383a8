#include "readers/order/place_chunks.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace ringfeed {

namespace {

/// If fewer places than this are passed over, taking them is faster.
constexpr std::uint64_t kWorthASeek = 64;

}  // namespace

Status NoBatchInAPass(std::optional<std::uint64_t> rows, std::uint64_t batch) {
  return Status(StatusCode::kInvalidArgument,
                "passes without end without a single batch: one has " +
                    (rows ? std::to_string(*rows) : "too few") + " rows, a batch " +
                    std::to_string(batch) +
                    ", and what fills no batch is dropped; lower the batch size, keep the rest, or "
                    "put MultiPass in front of Batch");
}

PlaceChunks::PlaceChunks(std::unique_ptr<RowCursor> cursor, const Options& options)
    : cursor_(std::move(cursor)),
      options_(options),
      pass_(options.pass),
      next_place_(options.place) {
  assert(options_.rows_per_chunk > 0);
  assert(options_.slice.ranks > 0 && options_.slice.rank < options_.slice.ranks);
  assert(options_.slice.batch == 0 || options_.slice.batch >= options_.slice.ranks);
}

std::uint64_t PlaceChunks::CountWanted(std::uint64_t begin) const {
  if (begin >= places_end_) return 0;
  const BatchSlice& slice = options_.slice;
  if (slice.batch == 0) return places_end_ - begin;
  const std::uint64_t first = slice.begin();
  const std::uint64_t share = slice.end() - first;
  const auto before = [&](std::uint64_t place) {
    const std::uint64_t in_batch = std::max(place % slice.batch, first) - first;
    return place / slice.batch * share + std::min(in_batch, share);
  };
  const std::uint64_t rest = places_end_ % slice.batch;
  const bool ends_in_front = rest > 0 && rest <= first && !slice.drop_remainder;  // see NextWanted
  return before(places_end_) - before(begin) + (ends_in_front ? 1 : 0);
}

void PlaceChunks::StartPass() {
  started_ = true;
  positioned_ = false;
  data_pass_ = {pass_, 0};
  places_ = places_end_ = rest_begin_ = cursor_->Places(pass_);
  const BatchSlice& slice = options_.slice;
  const std::uint64_t rest = slice.batch == 0 ? 0 : places_ % slice.batch;
  if (rest == 0) return;
  if (slice.drop_remainder) {
    rest_begin_ = places_ - rest;
  } else if (slice.pad && places_ <= std::numeric_limits<std::uint64_t>::max() - slice.batch) {
    places_end_ = rest_begin_ = places_ - rest + slice.batch;
  }
}

void PlaceChunks::Make(Chunk* chunk) {
  chunk->pass = pass_;
  if (options_.passes != 0 && pass_ >= options_.passes) {
    chunk->kind = Chunk::Kind::kEnd;
    return;
  }
  if (!started_) StartPass();
  chunk->kind = Chunk::Kind::kRows;
  chunk->status = FillChunk(chunk);
  if (options_.passes == 0 && places_ == 0 && !options_.other_files) {
    chunk->status = Status(StatusCode::kInvalidArgument,
                           "passes without end over data without a single record");
  }
  if (!chunk->rows.empty() || !chunk->status.ok()) return;
  chunk->kind = Chunk::Kind::kPassEnd;
  chunk->place = places_;
  chunk->pass_rows = CountWanted(pass_ == options_.pass ? options_.place : 0);
  ++pass_;
  next_place_ = 0;
  started_ = false;
}

PlaceChunks::Wanted PlaceChunks::NextWanted(std::uint64_t at) const {
  const BatchSlice& slice = options_.slice;
  if (at >= places_end_) return {at, at};
  if (slice.batch == 0) return {at, places_end_};
  std::uint64_t batch_begin = at / slice.batch * slice.batch;
  // After this rank's part of the batch: the next batch, if there is one.
  if (at - batch_begin >= slice.end()) {
    if (places_end_ - batch_begin <= slice.batch) return {places_end_, places_end_};
    batch_begin += slice.batch;
  }
  const std::uint64_t left = places_end_ - batch_begin;
  // A short last batch that ends before this rank's part: its number is used all the same, unless
  // it is dropped.
  if (left <= slice.begin()) return {places_end_, places_end_ + (slice.drop_remainder ? 0 : 1)};
  return {std::max(at, batch_begin + slice.begin()), batch_begin + std::min(left, slice.end())};
}

Status PlaceChunks::FillChunk(Chunk* chunk) {
  chunk->place = next_place_;
  while (chunk->rows.size() < options_.rows_per_chunk) {
    Wanted wanted = NextWanted(next_place_);
    if (wanted.begin == wanted.end) break;
    const bool of_rest = wanted.begin >= rest_begin_ && wanted.begin < places_;
    if (!chunk->rows.empty() && of_rest != chunk->of_dropped_rest) break;
    chunk->of_dropped_rest = of_rest;
    if (!FindDataPass(wanted.begin, chunk)) break;
    const std::size_t room = options_.rows_per_chunk - chunk->rows.size();
    wanted.end = std::min<std::uint64_t>(wanted.end, wanted.begin + room);
    if (options_.slice.batch == 0) wanted.end = std::min(wanted.end, data_pass_.end);
    if (chunk->rows.empty()) chunk->place = wanted.begin;
    const Status status = Take(wanted, &chunk->rows);
    if (!status.ok()) return status;
    next_place_ = wanted.end;
  }
  return {};
}

bool PlaceChunks::FindDataPass(std::uint64_t place, Chunk* chunk) {
  const std::uint64_t batch = options_.slice.batch;
  if (batch != 0) place -= place % batch;  // all ranks give a batch the pass of its first place
  const std::uint64_t at = std::min(place, std::max<std::uint64_t>(1, places_) - 1);
  if (data_pass_.end <= at) {
    if (!chunk->rows.empty()) return false;
    data_pass_ = cursor_->DataPassAt(pass_, at);
  }
  chunk->data_pass = data_pass_.pass;
  return true;
}

Status PlaceChunks::Take(Wanted wanted, std::vector<RowNumber>* rows) {
  const std::uint64_t end = std::min(wanted.end, places_);
  if (wanted.begin < end) {
    const Status status = MoveTo(wanted.begin);
    if (!status.ok()) return status;
    const std::size_t already = rows->size();
    rows->resize(already + static_cast<std::size_t>(end - wanted.begin));
    const std::span<RowNumber> places = std::span(*rows).subspan(already);
    std::size_t count = 0;
    const Status given = cursor_->Next(places, &count);
    rows->resize(already + count);
    if (!given.ok()) return given;
    assert(count == places.size());
    cursor_at_ = end;
  }
  const std::uint64_t missing = wanted.end - std::max(wanted.begin, end);
  rows->insert(rows->end(), static_cast<std::size_t>(missing), kNoRow);
  return {};
}

Status PlaceChunks::MoveTo(std::uint64_t place) {
  if (positioned_ && place == cursor_at_) return {};
  if (!positioned_ || (cursor_->SeeksAtOnce() && place - cursor_at_ >= kWorthASeek)) {
    const Status status = cursor_->Seek(pass_, place);
    if (!status.ok()) return status;
    positioned_ = true;
    cursor_at_ = place;
    return {};
  }
  passed_over_.resize(options_.rows_per_chunk);
  while (cursor_at_ < place) {
    const std::uint64_t ask = std::min<std::uint64_t>(passed_over_.size(), place - cursor_at_);
    std::size_t count = 0;
    const Status status =
        cursor_->Next(std::span(passed_over_).first(static_cast<std::size_t>(ask)), &count);
    if (!status.ok()) return status;
    assert(count == ask);
    cursor_at_ += ask;
  }
  return {};
}

}  // namespace ringfeed
