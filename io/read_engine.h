#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "io/input_file.h"
#include "ringfeed/io_options.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// One read that an engine is asked for, and what came of it. It stays where it is until Reap
/// returns it or the engine is destroyed, and so do its file and its buffer.
struct ReadRequest {
  InputFile* file = nullptr;
  std::uint64_t offset = 0;  ///< a multiple of file->alignment()
  std::byte* buffer =
      nullptr;              ///< aligned as the file asks; bytes past the result may be overwritten
  std::uint32_t bytes = 0;  ///< a multiple of file->alignment(); may reach past the end of the file
  /// Once Reap has returned it: how many bytes came. All, fewer only if the file ended, or those
  /// before a final failure after retries. A file shorter than its size() gives the bytes that
  /// there are and kTruncated.
  std::uint32_t got = 0;
  Status status{};
};

/// Counters since construction.
struct ReadEngineStats {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
  std::uint64_t enters = 0;       ///< system calls that submit or wait
  std::uint64_t short_reads = 0;  ///< continued after a short result
  std::uint64_t retries = 0;      ///< after EINTR, EAGAIN and their kin
  std::uint64_t failures = 0;
};

/// Asynchronous reads for one thread: created, used and destroyed by the same thread. Reads end in
/// any order. The destructor cancels what can be cancelled and waits until no buffer is
/// written to.
class ReadEngine {
 public:
  virtual ~ReadEngine() = default;
  /// "uring", "pool", "inline", …
  virtual std::string name() const = 0;
  /// How it runs, in words for the report: flags, registered buffers, threads.
  virtual std::string Describe() const { return {}; }
  /// Takes requests from the front of `requests`; returns how many were taken (fewer if the engine
  /// is full). Never blocks on the medium, except the inline engine, which reads here.
  virtual std::size_t Submit(std::span<ReadRequest* const> requests) = 0;
  /// Submit takes no more requests than this before the next Reap.
  virtual std::size_t room() const = 0;
  /// Returns up to finished.size() reads that have ended. Waits until at least one is there, the
  /// deadline passes or Wake is called; with a deadline in the past it only looks. Returns how
  /// many; 0 at once if nothing is in flight.
  virtual std::size_t Reap(std::span<ReadRequest*> finished,
                           std::chrono::steady_clock::time_point deadline) = 0;
  /// Ends a Reap that waits, from any thread; sticky until the next Reap returns.
  virtual void Wake() = 0;
  virtual std::size_t in_flight() const = 0;
  virtual ReadEngineStats stats() const = 0;
};

/// Why io_uring can or cannot be used here, by a real ring and a real read.
struct UringProbe {
  bool available = false;
  bool passes = false;  ///< refused for lack of descriptors or memory, which may pass
  std::string reason;   ///< errno, sysctl and seccomp line quoted if it is refused
  std::string flags;    ///< setup flags that were accepted
};
/// The result is kept for the process's life, except a refusal that may pass: then the next call
/// looks again. Thread safe.
UringProbe ProbeUring();

/// An io_uring of this thread over buffers in [arena_data, arena_data + arena_bytes), registered if
/// the memlock limit allows. Status kUnsupported / kPermissionDenied / kResourceExhausted with the
/// reason.
Status MakeUringEngine(const IoOptions& options, std::byte* arena_data, std::size_t arena_bytes,
                       std::unique_ptr<ReadEngine>* engine);
/// A pool of blocking readers shared by all its users in the process; each engine is a client of
/// it.
std::unique_ptr<ReadEngine> MakePoolEngine(const IoOptions& options);
/// Serves one request in a thread of the pool, which blocks meanwhile, with so many retries. Adds
/// to the counters.
using ServeRead = std::function<void(ReadRequest*, int, ReadEngineStats*)>;
/// The same with another function for reading, which must outlive the engine's reads.
std::unique_ptr<ReadEngine> MakePoolEngine(const IoOptions& options, ServeRead serve);
/// Reads in Submit, in the caller's thread.
std::unique_ptr<ReadEngine> MakeInlineEngine(const IoOptions& options);

}  // namespace ringfeed
