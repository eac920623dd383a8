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

/// The pause before a read is tried again, after so many tries.
std::chrono::microseconds BackOff(int tries);

/// One read of a file, through short results and errors: what to ask the system for next, and how
/// to treat its answer. The same for every engine.
class ReadProgress {
 public:
  enum class Next : std::uint8_t {
    kDone,     ///< what the request tells is final
    kReadOn,   ///< read bytes() at offset() into buffer()
    kBackOff,  ///< the same, after back_off()
  };

  ReadProgress() = default;
  /// `retries` counts errors of the medium; transient errors have a limit of their own. What comes
  /// of the read goes into `request`.
  ReadProgress(ReadRequest* request, int retries);

  /// What to do first: kDone at once if there is nothing to read.
  Next Begin() const { return expected_ == 0 ? Next::kDone : Next::kReadOn; }
  /// What to do after the system's answer: a number of bytes, or a negative errno.
  Next OnResult(std::int64_t result);

  /// Ends the read at its present place.
  void Abort(int error_number) { Failed(error_number); }
  /// The same if the engine cannot go on with any read: that is the system's refusal, and says
  /// nothing about the file.
  void Refuse(int error_number);

  ReadRequest* request() const { return request_; }
  std::uint64_t offset() const { return request_->offset + request_->got; }
  std::byte* buffer() const { return request_->buffer + request_->got; }
  std::uint32_t bytes() const { return request_->bytes - request_->got; }
  std::chrono::microseconds back_off() const { return BackOff(medium_tries_ + transient_tries_); }

  /// Once the read has ended: counts it.
  void AddTo(ReadEngineStats* stats) const;
  /// System calls of a read that blocks.
  std::uint32_t calls() const { return 1 + short_reads_ + retried_; }

 private:
  Next OnBytes(std::uint32_t bytes);
  Next OnError(int error_number);
  Next TryAgain(int error_number, int limit, int* tries);
  Next Truncated();
  Next Failed(int error_number);

  ReadRequest* request_ = nullptr;
  std::uint32_t expected_ = 0;  // of its bytes, those before the end of the file
  int retry_limit_ = 0;
  int medium_tries_ = 0;  // failed ones since the last byte
  int transient_tries_ = 0;
  std::uint32_t short_reads_ = 0;
  std::uint32_t retried_ = 0;
  bool tried_buffered_ = false;
};

/// Runs a read to its end in the caller's thread, by pread.
void ReadBlocking(ReadProgress* progress);

/// Serves one request in the caller's thread, for files and user's sources alike, and adds to
/// `stats`.
void ReadRequestBlocking(ReadRequest* request, int retries, ReadEngineStats* stats);

}  // namespace ringfeed
