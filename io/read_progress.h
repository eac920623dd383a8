#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "io/read_engine.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// In tests, sits between the system and every engine: it may replace the result of a read (by
/// fewer bytes, or a negative errno). Called from any thread that reads.
class ReadFaultHook {
 public:
  virtual ~ReadFaultHook() = default;
  /// Returns the result to use instead of `result`: never more than it if that is not negative.
  virtual std::int64_t OnResult(const InputFile& file, std::uint64_t offset, std::uint32_t bytes,
                                std::int64_t result) = 0;
};

/// Replaces the current hook; null for none. The hook must outlive every read in flight.
void SetReadFaultHook(ReadFaultHook* hook);
ReadFaultHook* GetReadFaultHook();

/// One read of a file, through short results and errors: what to ask the system for next, and how
/// to treat its answer. The same for every engine.
class ReadProgress {
 public:
  enum class Next : std::uint8_t {
    kDone,     ///< done() bytes and status() are final
    kReadOn,   ///< read bytes() at offset() into buffer()
    kBackOff,  ///< the same, after back_off()
  };

  ReadProgress() = default;
  /// `retries` counts errors of the medium; transient errors have a limit of their own.
  ReadProgress(InputFile* file, std::uint64_t offset, std::byte* buffer, std::uint32_t bytes,
               int retries);

  /// What to do first: kDone at once if there is nothing to read.
  Next Begin() const { return expected_ == 0 ? Next::kDone : Next::kReadOn; }
  /// What to do after the system's answer: a number of bytes, or a negative errno.
  Next OnResult(std::int64_t result);

  /// Ends the read at its present place.
  void Abort(int error_number) { Failed(error_number); }
  /// The same if the engine cannot go on with any read: that is the system's refusal, and says
  /// nothing about the file.
  void Refuse(int error_number);

  InputFile* file() const { return file_; }
  std::uint64_t offset() const { return offset_ + done_; }
  std::byte* buffer() const { return buffer_ + done_; }
  std::uint32_t bytes() const { return bytes_ - done_; }
  std::chrono::microseconds back_off() const;

  std::uint32_t done() const { return done_; }
  const Status& status() const { return status_; }
  std::uint32_t short_reads() const { return short_reads_; }
  std::uint32_t retries() const { return retried_; }

 private:
  Next OnBytes(std::uint32_t bytes);
  Next OnError(int error_number);
  Next TryAgain(int error_number, int limit, int* tries);
  Next Truncated();
  Next Failed(int error_number);

  InputFile* file_ = nullptr;
  std::uint64_t offset_ = 0;
  std::byte* buffer_ = nullptr;
  std::uint32_t bytes_ = 0;
  std::uint32_t expected_ = 0;  // those of bytes_ before the end of the file
  std::uint32_t done_ = 0;
  int retry_limit_ = 0;
  int medium_tries_ = 0;  // failed ones since the last byte
  int transient_tries_ = 0;
  std::uint32_t short_reads_ = 0;
  std::uint32_t retried_ = 0;
  bool tried_buffered_ = false;
  Status status_;
};

/// Runs a read to its end in the caller's thread, by pread.
void ReadBlocking(ReadProgress* progress);

/// Serves one request in the caller's thread, for files and user's sources alike, and adds to
/// `stats`.
ReadCompletion ReadRequestBlocking(const ReadRequest& request, int retries, ReadEngineStats* stats);

/// Adds a read that has ended to `stats`; returns its completion.
ReadCompletion FinishRead(std::uint64_t tag, const ReadProgress& progress, ReadEngineStats* stats);

}  // namespace ringfeed
