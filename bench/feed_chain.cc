#include "bench/feed_chain.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <span>
#include <thread>
#include <utility>

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

Reader Open(const Source& source, const BenchFiles& files, const ChainOrder& order) {
  OpenOptions options;
  options.cycle = order.cycle;
  options.threads = order.threads;
  options.io.path = source.path;
  options.format = source.format;
  return OpenFiles(files.paths, options);
}

// Loops side by side, each over its share of the files on a thread of its own: what n threads of a
// chain are held against.
class SideBySide {
 public:
  // Shares that have no file have no loop.
  SideBySide(const BareLoopMaker& make, const std::vector<std::string>& files, int threads) {
    std::vector<std::vector<std::string>> shares(static_cast<std::size_t>(threads));
    for (std::size_t i = 0; i < files.size(); ++i) shares[i % shares.size()].push_back(files[i]);
    for (const auto& share : shares) {
      if (!share.empty()) loops_.push_back(make(share));
    }
  }

  // One pass of all of them. CPU seconds, records and bytes are those of all together; by the clock
  // it takes as long as the slowest.
  LoopResult Run(const LoopOptions& options) const {
    std::vector<LoopResult> results(loops_.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < loops_.size(); ++i) {
        threads.emplace_back([&, i] { results[i] = loops_[i](options); });
      }
      results[0] = loops_[0](options);
    }
    LoopResult sum;
    double slowest_s = 0;
    for (const LoopResult& result : results) {
      sum += result;
      slowest_s = std::max(slowest_s, result.wall_s);
    }
    sum.wall_s = slowest_s;
    return sum;
  }

 private:
  std::vector<BareLoop> loops_;
};

// A kind of work, set up and warm.
class WorkRun {
 public:
  explicit WorkRun(const FeedWork& work)
      : work_(work),
        files_(work.files()),
        chain_(work.chain(files_, work.order), files_.records, work.blocks),
        bare_(work.bare, files_.paths, work.order.threads) {
    BringIntoMemory(files_);
    chain_.ReadPass();
    Bare();
  }

  // The pass before takes what was prefetched while nobody looked, so that the timed one begins and
  // ends in full flow.
  LoopResult Ours() {
    chain_.ReadPass();
    LoopResult result = chain_.ReadPass();
    result.bytes = bare_bytes_;
    return result;
  }
  LoopResult Bare() {
    const LoopResult result = bare_.Run({.batch_rows = work_.batch_rows});
    bare_bytes_ = result.bytes;
    return result;
  }
  std::string Verify() {
    const BareLoop bare = work_.bare(files_.paths);
    FeedChain in_file_order(work_.chain(files_, {.cycle = 1}), files_.records, work_.blocks);
    std::uint64_t sum = 0;
    for (std::uint32_t pass = 0; pass < work_.verified_passes; ++pass) {
      const LoopResult theirs = bare({work_.batch_rows, true, pass});
      const LoopResult ours = in_file_order.DigestPass(&sum);
      if (ours.digest != theirs.digest || ours.records != theirs.records) {
        return "the batches of pass " + std::to_string(pass) + " are not those of the bare loop";
      }
    }
    std::uint64_t timed_sum = 0;
    chain_.DigestPass(&timed_sum);
    return timed_sum == sum ? "" : "the timed chain delivers other rows";
  }

 private:
  const FeedWork work_;
  const BenchFiles files_;
  FeedChain chain_;
  const SideBySide bare_;
  std::uint64_t bare_bytes_ = 0;
};

}  // namespace

FeedChain::FeedChain(Reader batches, std::uint64_t records, bool blocks)
    : reader_(std::move(batches)), records_(records), blocks_(blocks) {}

LoopResult FeedChain::Read(const std::function<void(const Instance&)>& on_batch,
                           const std::function<void(const RecordBlock&)>& on_block) {
  LoopResult result;
  const Timer timer(Timer::Of::kProcess);
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
  timer.Stop(&result);
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

Chain Blocks() {
  return [](const BenchFiles& files, const ChainOrder& order) {
    return MultiPass(Open({}, files, order), 0);
  };
}

Chain Batches(std::shared_ptr<const Parser> parser, std::size_t rows, const Source& source) {
  return [=](const BenchFiles& files, const ChainOrder& order) {
    Reader chain = Parse(Open(source, files, order), parser);
    if (order.window > 0) chain = Shuffle(chain, {.window = order.window, .block = 0, .seed = 7});
    if (source.global_seed > 0) {
      chain = Shuffle(chain, {.seed = source.global_seed, .mode = ShuffleMode::kGlobal});
    }
    return MultiPass(Batch(chain, {.size = rows}), 0);
  };
}

Pair FeedPair(const FeedWork& work) {
  const auto run = std::make_shared<WorkRun>(work);
  return {[run] { return run->Ours(); }, [run] { return run->Bare(); },
          [run] { return run->Verify(); }, false};
}

BareLoopMaker Opening(LoopResult (*loop)(const std::vector<std::string>& files,
                                         const LoopOptions& options)) {
  return [loop](const std::vector<std::string>& files) {
    return [=](const LoopOptions& options) { return loop(files, options); };
  };
}

}  // namespace ringfeed::bench
