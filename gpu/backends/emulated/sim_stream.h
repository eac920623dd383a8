#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/backends/emulated/executor.h"

namespace ringfeed {

struct SimStream;

/// What an event stands for between two calls of Record. Shared by the event, by the record in its
/// stream and by those that wait for it.
struct SimPoint {
  SimStream* stream = nullptr;
  bool done = false;
  std::int64_t at_ns = 0;
  int late_queries = 0;  ///< so many still say false when it is done
};

struct SimEvent : ExecutorEvent {
  std::shared_ptr<SimPoint> point;  ///< null: never recorded
};

/// An entry of a stream.
struct SimStep {
  enum class Kind : std::uint8_t { kWork, kRecord, kWait };
  /// A piece of a copy, and when it is there after the start, in timed runs.
  struct Chunk {
    CopyPiece piece;
    std::int64_t after_ns = 0;
  };

  Kind kind = Kind::kWork;
  std::shared_ptr<SimPoint> point;  ///< of kRecord, kWait
  Work work;                        ///< of kWork
  std::optional<std::uint64_t> source_hash;

  std::uint64_t ready_order = 0;  ///< 0: not first in its stream yet
  bool started = false;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::vector<Chunk> chunks;  ///< of a split copy
  std::size_t next_chunk = 0;

  std::int64_t NextNanos() const {
    return next_chunk < chunks.size() ? start_ns + chunks[next_chunk].after_ns : end_ns;
  }
};

struct SimStream : ExecutorStream {
  std::deque<SimStep> steps;
  std::uint64_t rank = 0;  ///< of SchedulePolicy::kPriorities; higher goes first
};

}  // namespace ringfeed
