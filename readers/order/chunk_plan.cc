#include "readers/order/chunk_plan.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>
#include <utility>

namespace ringfeed {

namespace {

constexpr std::uint64_t kChunkBytes = 768 * 1024;
constexpr std::uint64_t kMostRows = 4096;
/// If fewer places than this are passed over, taking them is faster.
constexpr std::uint64_t kWorthASeek = 64;
constexpr std::size_t kSpareChunks = 64;

}  // namespace

std::size_t RowsPerChunk(std::uint64_t mean_record_bytes) {
  const std::uint64_t rows = kChunkBytes / std::max<std::uint64_t>(1, mean_record_bytes);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(rows, 1, kMostRows));
}

Status NoBatchInAPass(std::optional<std::uint64_t> rows, std::uint64_t batch) {
  return Status(StatusCode::kInvalidArgument,
                "passes without end without a single batch: one has " +
                    (rows ? std::to_string(*rows) : "too few") + " rows, a batch " +
                    std::to_string(batch) +
                    ", and what fills no batch is dropped; lower the batch size, keep the rest, or "
                    "put MultiPass in front of Batch");
}

ChunkPlan::ChunkPlan(std::unique_ptr<RowCursor> cursor, const Options& options)
    : cursor_(std::move(cursor)),
      options_(options),
      queues_(options.lanes),
      pass_(options.pass),
      next_place_(options.place) {
  assert(options_.lanes > 0 && options_.rows_per_chunk > 0);
  assert(options_.slice.ranks > 0 && options_.slice.rank < options_.slice.ranks);
  assert(options_.slice.batch % options_.slice.ranks == 0);
}

void ChunkPlan::Next(std::size_t lane, Chunk* chunk) {
  const std::lock_guard lock(mutex_);
  if (chunk->rows.capacity() > 0 && spare_.size() < kSpareChunks) {
    spare_.push_back(std::move(chunk->rows));
    spare_.back().clear();
  }
  while (queues_[lane].empty() && !ended_) Make();
  if (queues_[lane].empty()) {
    *chunk = Chunk();
    chunk->pass = pass_;
    return;
  }
  *chunk = std::move(queues_[lane].front());
  queues_[lane].pop_front();
}

std::uint64_t ChunkPlan::TakeRowsOf(std::uint64_t pass) {
  const std::lock_guard lock(mutex_);
  const auto found = rows_of_.find(pass);
  return found == rows_of_.end() ? 0 : rows_of_.extract(found).mapped();
}

std::uint64_t ChunkPlan::CountWanted(std::uint64_t begin) const {
  if (begin >= places_end_) return 0;
  const BatchSlice& slice = options_.slice;
  if (slice.batch == 0) return places_end_ - begin;
  const std::uint64_t share = slice.batch / slice.ranks;
  const std::uint64_t first = slice.rank * share;
  const auto before = [&](std::uint64_t place) {
    const std::uint64_t in_batch = std::max(place % slice.batch, first) - first;
    return place / slice.batch * share + std::min(in_batch, share);
  };
  const std::uint64_t rest = places_end_ % slice.batch;
  const bool ends_in_front = rest > 0 && rest <= first && !slice.drop_remainder;  // see NextWanted
  return before(places_end_) - before(begin) + (ends_in_front ? 1 : 0);
}

void ChunkPlan::Give(Chunk::Kind kind) {
  for (std::deque<Chunk>& queue : queues_) {
    Chunk& end = queue.emplace_back();
    end.kind = kind;
    end.pass = pass_;
    end.place = places_;
  }
}

void ChunkPlan::StartPass() {
  started_ = true;
  positioned_ = false;
  data_pass_ = {pass_, 0};
  turn_ = 0;
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

void ChunkPlan::Make() {
  if (options_.passes != 0 && pass_ >= options_.passes) {
    ended_ = true;
    return;
  }
  if (!started_) StartPass();
  Chunk chunk;
  if (!spare_.empty()) {
    chunk.rows = std::move(spare_.back());
    spare_.pop_back();
  }
  chunk.kind = Chunk::Kind::kRows;
  chunk.pass = pass_;
  chunk.status = FillChunk(&chunk);
  if (options_.passes == 0 && places_ == 0 && !options_.other_files) {
    chunk.status = Status(StatusCode::kInvalidArgument,
                          "passes without end over data without a single record");
  }
  const bool failed = !chunk.status.ok();
  if (!chunk.rows.empty() || failed) {
    queues_[turn_].push_back(std::move(chunk));
    turn_ = (turn_ + 1) % options_.lanes;
    ended_ = failed;
    return;
  }
  rows_of_[pass_] = CountWanted(pass_ == options_.pass ? options_.place : 0);
  Give(Chunk::Kind::kPassEnd);
  ++pass_;
  next_place_ = 0;
  started_ = false;
}

ChunkPlan::Wanted ChunkPlan::NextWanted(std::uint64_t at) const {
  const BatchSlice& slice = options_.slice;
  if (at >= places_end_) return {at, at};
  if (slice.batch == 0) return {at, places_end_};
  const std::uint64_t share = slice.batch / slice.ranks;
  std::uint64_t batch_begin = at / slice.batch * slice.batch;
  // After this rank's part of the batch: the next batch, if there is one.
  if (at - batch_begin >= (slice.rank + 1) * share) {
    if (places_end_ - batch_begin <= slice.batch) return {places_end_, places_end_};
    batch_begin += slice.batch;
  }
  const std::uint64_t left = places_end_ - batch_begin;
  // A short last batch that ends before this rank's part: its number is used all the same, unless
  // it is dropped.
  if (left <= slice.rank * share)
    return {places_end_, places_end_ + (slice.drop_remainder ? 0 : 1)};
  return {std::max(at, batch_begin + slice.rank * share),
          batch_begin + std::min(left, (slice.rank + 1) * share)};
}

Status ChunkPlan::FillChunk(Chunk* chunk) {
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

bool ChunkPlan::FindDataPass(std::uint64_t place, Chunk* chunk) {
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

Status ChunkPlan::Take(Wanted wanted, std::vector<RowNumber>* rows) {
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

Status ChunkPlan::MoveTo(std::uint64_t place) {
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
