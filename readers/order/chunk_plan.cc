#include "readers/order/chunk_plan.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

namespace ringfeed {

namespace {

constexpr std::uint64_t kChunkBytes = 768 * 1024;
constexpr std::uint64_t kMostRows = 4096;
constexpr std::size_t kSpareChunks = 64;

}  // namespace

std::size_t RowsPerChunk(std::uint64_t mean_record_bytes) {
  const std::uint64_t rows = kChunkBytes / std::max<std::uint64_t>(1, mean_record_bytes);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(rows, 1, kMostRows));
}

ChunkPlan::ChunkPlan(std::size_t lanes, std::unique_ptr<ChunkMaker> maker)
    : maker_(std::move(maker)), queues_(lanes) {
  assert(lanes > 0);
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

ChunkPlan::Counts ChunkPlan::counts() const {
  return {{empty_records_.load(std::memory_order_relaxed),
           dropped_records_.load(std::memory_order_relaxed)},
          busy_ns_.load(std::memory_order_relaxed)};
}

void ChunkPlan::Make() {
  Chunk chunk;
  if (!spare_.empty()) {
    chunk.rows = std::move(spare_.back());
    spare_.pop_back();
  }
  const auto begin = std::chrono::steady_clock::now();
  maker_->Make(&chunk);
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - begin;
  busy_ns_.fetch_add(static_cast<std::uint64_t>(spent.count()), std::memory_order_relaxed);
  const LeftOutRecords left_out = maker_->left_out();
  empty_records_.store(left_out.empty, std::memory_order_relaxed);
  dropped_records_.store(left_out.dropped, std::memory_order_relaxed);
  pass_ = chunk.pass;
  switch (chunk.kind) {
    case Chunk::Kind::kRows:
      ended_ = !chunk.status.ok();
      queues_[turn_].push_back(std::move(chunk));
      turn_ = (turn_ + 1) % queues_.size();
      break;
    case Chunk::Kind::kPassEnd:
      rows_of_[chunk.pass] = chunk.pass_rows;
      for (std::deque<Chunk>& queue : queues_) {
        Chunk& end = queue.emplace_back();
        end.kind = chunk.kind;
        end.pass = chunk.pass;
        end.place = chunk.place;
      }
      turn_ = 0;
      break;
    case Chunk::Kind::kEnd:
      ended_ = true;
      break;
  }
}

}  // namespace ringfeed
