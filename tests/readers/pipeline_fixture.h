#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "readers/chain/session.h"
#include "ringfeed/ringfeed.h"
#include "tests/support/drain.h"
#include "tests/support/fault_engine.h"
#include "tests/support/pattern_file.h"
#include "tests/support/record_data.h"

namespace ringfeed {

/// A test of whole chains: a directory, an arena of its own, files of numbered records.
class PipelineTest : public testing::Test {
 protected:
#if defined(__SANITIZE_THREAD__)
  /// A child of a process with threads cannot start threads of its own under this sanitizer.
  static constexpr bool kChildrenMayStartThreads = false;
#else
  static constexpr bool kChildrenMayStartThreads = true;
#endif
  static constexpr std::size_t kArenaBytes = std::size_t{128} << 20;

  OpenOptions Options() const {
    OpenOptions options;
    options.arena = arena_;
    options.threads = 2;
    options.stripe_bytes = 65536;
    options.io.block_bytes = 65536;
    return options;
  }

  /// Writes `count` files of `records` records each, sizes from least to most; numbers go on from
  /// file to file, from 0.
  std::vector<std::string> MakeFiles(std::size_t count, std::size_t records, std::size_t least,
                                     std::size_t most);
  /// Writes one file of records that go on with the next numbers.
  std::string MakeFile(std::span<const std::size_t> sizes);
  std::uint64_t records_made() const { return next_id_; }

  /// Parse(RawParser) and Batch.
  static Reader Batches(Reader records, std::size_t size, bool drop = false) {
    return Batch(Parse(std::move(records), RawParser()), {.size = size, .drop_remainder = drop});
  }
  /// Lets the chain's engines misbehave, by seed. Before the first read.
  static void Inject(const Reader& reader, std::uint64_t seed, const FaultPlan& plan);

  /// Whoever leaves wakes out says so: in every other test a late one is a failure.
  void ExpectLateWakes() { expects_late_wakes_ = true; }
  void TearDown() override;

  std::shared_ptr<PinnedArena> arena_ = std::make_shared<PinnedArena>(kArenaBytes);
  TempDir directory_;

 private:
  const std::uint64_t late_wakes_before_ = Run::LateWakesOfProcess();
  bool expects_late_wakes_ = false;
  std::uint64_t next_id_ = 0;
  std::size_t next_file_ = 0;
};

/// Writes a RecordIO file of chunks of ten records each, of the numbers [first_id, first_id +
/// count); returns its bytes.
std::vector<std::byte> MakeChunksOfTen(const std::string& path, std::uint64_t first_id,
                                       std::uint64_t count);

/// " FILE:FIRST+COUNT" for each.
std::string RangesText(const std::vector<RecordRange>& ranges);

/// 0, 1, …, count - 1.
std::vector<std::uint64_t> Numbers(std::uint64_t count);
std::vector<std::uint64_t> Sorted(std::vector<std::uint64_t> ids);

}  // namespace ringfeed
