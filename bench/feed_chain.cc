#include "bench/feed_chain.h"

#include <xxhash.h>

#include <span>
#include <utility>

#include "base/machine/cpu_time.h"

namespace ringfeed::bench {
namespace {

// The bytes of row `row` in a column.
std::span<const std::byte> RowBytes(const Tensor& column, std::size_t row, std::size_t rows) {
  if (column.lod.empty()) {
    const std::size_t bytes = column.bytes / rows;
    return {column.data + row * bytes, bytes};
  }
  const std::size_t unit = DTypeBytes(column.dtype);
  const auto begin = static_cast<std::size_t>(column.lod[0][row]) * unit;
  const auto end = static_cast<std::size_t>(column.lod[0][row + 1]) * unit;
  return {column.data + begin, end - begin};
}

std::uint64_t SumOfRows(const Instance& batch) {
  const auto rows = static_cast<std::size_t>(batch.Rows());
  std::uint64_t sum = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    std::uint64_t hash = 0;
    for (const Tensor& column : batch) {
      const std::span<const std::byte> bytes = RowBytes(column, row, rows);
      hash = XXH3_64bits_withSeed(bytes.data(), bytes.size(), hash);
    }
    sum += hash;
  }
  return sum;
}

void AddColumns(const Instance& batch, BatchDigest* digest) {
  for (const Tensor& column : batch) {
    digest->Add({column.data, column.bytes});
    if (!column.lod.empty()) digest->Add(std::as_bytes(column.lod[0]));
  }
}

[[noreturn]] void Fail(const std::string& why) {
  throw Error(Status(StatusCode::kInternal, "in a pass of a chain: " + why));
}

}  // namespace

FeedChain::FeedChain(Reader batches, std::uint64_t records, bool blocks)
    : reader_(std::move(batches)), records_(records), blocks_(blocks) {}

LoopResult FeedChain::Read(const std::function<void(const Instance&)>& on_batch,
                           const std::function<void(const RecordBlock&)>& on_block) {
  LoopResult result;
  const double cpu_begin = ProcessCpuSeconds();
  const double wall_begin = NowSeconds();
  Instance batch;
  RecordBlock block;
  while (result.records < records_) {
    const ReadResult read = blocks_ ? reader_.TryReadBlock(&block) : reader_.TryReadNext(&batch);
    if (read == ReadResult::kFailed) Fail(reader_.status().ToString());
    if (read == ReadResult::kEnd) Fail("the data ended in the middle of a pass");
    result.records += blocks_ ? block.size() : static_cast<std::uint64_t>(batch.Rows());
    if (blocks_ && on_block) on_block(block);
    if (!blocks_ && on_batch) on_batch(batch);
  }
  result.wall_s = NowSeconds() - wall_begin;
  result.cpu_s = ProcessCpuSeconds() - cpu_begin;
  if (result.records != records_) Fail("a pass delivered another number of records than the files");
  return result;
}

LoopResult FeedChain::ReadPass() { return Read(nullptr, nullptr); }

LoopResult FeedChain::DigestPass(std::uint64_t* row_sum) {
  BatchDigest digest;
  *row_sum = 0;
  LoopResult result = Read(
      [&](const Instance& batch) {
        AddColumns(batch, &digest);
        *row_sum += SumOfRows(batch);
      },
      [&](const RecordBlock& block) {
        for (const RecordSpan& record : block.records()) {
          digest.Add(record.bytes());
          *row_sum += XXH3_64bits(record.data, record.size);
        }
      });
  result.digest = digest.value();
  return result;
}

}  // namespace ringfeed::bench
