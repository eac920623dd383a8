#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/memory/arena.h"
#include "io/direct_reads.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "io/remote/remote_engine.h"
#include "ringfeed/io_options.h"

namespace ringfeed {

/// One read that serves needed ranges which are close to each other, and how far it came.
struct MergedRead {
  std::uint32_t file = 0;   ///< its number in the table
  std::uint64_t begin = 0;  ///< aligned as the file asks, and so is the end
  std::uint64_t end = 0;
  std::size_t at = 0;           ///< place of `begin` in the memory of all reads, aligned too
  std::size_t first_range = 0;  ///< that it serves, in the sorted ranges
  std::size_t ranges = 0;
  InputFile* input = nullptr;
  ReadEngine* engine = nullptr;  ///< that the file's path asks for; null: inline
  std::uint64_t valid_end = 0;   ///< once read: up to here the bytes are the file's
  Status status{};
};

/// Pieces of files on their way into a slab run, in reads of one block each at most.
struct ReadBuffer {
  struct Part : ReadRequest {
    ReadBuffer* whole = nullptr;
    ReadEngine* engine = nullptr;
    std::uint32_t read = 0;  ///< index of the read that it is a part of
  };

  SlabRun run;
  // Of a contiguous piece of one file.
  std::uint64_t begin = 0;      ///< file offset of run.data[0]
  std::uint64_t end = 0;        ///< file offset of the end of the requested region
  std::uint64_t valid_end = 0;  ///< once complete: up to here the bytes are the file's
  std::vector<Part> parts;
  std::size_t parts_done = 0;
  std::size_t parts_submitted = 0;
  std::uint64_t bytes_read = 0;  ///< by the parts that are done; a read in flight writes its own
  Status status;
  // Of one that is not wanted any more, and is in WorkerIo's list.
  std::vector<std::shared_ptr<InputFile>> files;  ///< that its reads need; has room for one
  std::unique_ptr<ReadBuffer> next;

  bool complete() const { return parts_done == parts.size(); }
  bool in_flight() const { return parts_submitted > parts_done; }
  /// Once complete, by its parts: the end of the valid bytes, and the first failure.
  void Conclude();
};

/// Makes engines; tests put faulty ones in their place.
struct EngineFactory {
  std::function<Status(const IoOptions&, std::byte*, std::size_t, std::unique_ptr<ReadEngine>*)>
      uring = MakeUringEngine;
  std::function<std::unique_ptr<ReadEngine>(const IoOptions&)> pool = [](const IoOptions& options) {
    return MakePoolEngine(options);
  };
  std::function<std::unique_ptr<ReadEngine>()> remote = MakeRemoteEngine;
};

/// One reader thread's side of the medium: its engines, the bytes it has in flight and the buffers
/// that are not wanted any more but that the kernel may still write to. Used by its thread alone,
/// except Wake.
class WorkerIo {
 public:
  /// `direct`: does all reads, into its memory, which `arena` is of; null: none.
  WorkerIo(const IoOptions& options, std::shared_ptr<Arena> arena, const EngineFactory& factory,
           std::shared_ptr<DirectReads> direct = nullptr);
  /// Waits until the kernel writes to no buffer, then frees those that were abandoned.
  ~WorkerIo();
  WorkerIo(const WorkerIo&) = delete;
  WorkerIo& operator=(const WorkerIo&) = delete;

  /// The engine that `file`'s path asks for; null with a reason if it cannot be had.
  ReadEngine* EngineFor(const InputFile& file, Status* why_not);

  /// Requests [read_from, end) of `file` into `run`, whose first byte is the file's at `begin`, in
  /// reads of block_bytes, of an object of a store in larger ones. The bytes before read_from are
  /// there already. Both are aligned.
  std::unique_ptr<ReadBuffer> Request(InputFile* file, ReadEngine* engine, SlabRun run,
                                      std::uint64_t begin, std::uint64_t end,
                                      std::uint64_t read_from) const;
  /// Requests pieces of one or several files into `run`.
  std::unique_ptr<ReadBuffer> RequestScattered(SlabRun run,
                                               std::span<const MergedRead> reads) const;
  /// Submits what fits below the limit of bytes in flight; always the first read. The engine of
  /// stores has a limit of its own, which it finds.
  void Pump(ReadBuffer* buffer);
  /// Takes finished reads in, waiting for one until `deadline` if any is in flight.
  void Reap(std::chrono::steady_clock::time_point deadline);
  bool in_flight() const { return bytes_in_flight_ > 0; }
  /// How many reads of stores' objects suit this thread at a time, as its engine has found; 0
  /// before the first one ended, which shares the link with no more than it has to.
  std::size_t StoreReads() const {
    if (remote_ == nullptr || remote_->stats().reads == 0) return 0;
    return remote_->in_flight() + remote_->room();
  }
  /// Takes over a buffer that is no longer wanted, and the file that its reads need. Takes no
  /// memory.
  void Abandon(std::unique_ptr<ReadBuffer> buffer, std::shared_ptr<InputFile> file);
  void Abandon(std::unique_ptr<ReadBuffer> buffer, std::vector<std::shared_ptr<InputFile>> files);
  /// Ends a Reap that waits. Any thread.
  void Wake();

 private:
  /// Submits parts of one engine that follow each other. False if it has to wait.
  bool Submit(ReadBuffer* buffer);
  /// Has the thread's engine for it, made by `make` when it is asked for first.
  template <typename Make>
  ReadEngine* Made(std::unique_ptr<ReadEngine>* engine, const Make& make);
  void ReapFrom(ReadEngine* engine, std::chrono::steady_clock::time_point deadline);
  void FreeAbandoned();

  const IoOptions options_;
  const std::shared_ptr<Arena> arena_;
  const EngineFactory factory_;
  const std::shared_ptr<DirectReads> direct_;
  std::unique_ptr<ReadEngine> uring_;
  std::unique_ptr<ReadEngine> pool_;
  std::unique_ptr<ReadEngine> remote_;  ///< of the objects of stores
  Status uring_refused_;
  std::size_t bytes_in_flight_ = 0;
  std::vector<ReadRequest*> requests_;     ///< of one call
  std::unique_ptr<ReadBuffer> abandoned_;  ///< the first of those that are not wanted
  std::mutex wake_mutex_;                  ///< guards the engine pointers against Wake
};

}  // namespace ringfeed
