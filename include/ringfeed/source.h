#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "ringfeed/status.h"

namespace ringfeed {

/// Bytes that can be read at any place: a file in a store of your own. Implementations must allow
/// ReadAt from several threads at once; a call may block. What a function throws is a failure,
/// kUserError, after the records before it. So is a read of more bytes than it was asked for.
class Source {
 public:
  virtual ~Source() = default;
  /// Shown in reports and errors, and what a format is detected by ("train.tfrecord").
  virtual std::string name() const = 0;
  /// Bytes in all; does not change while it is read.
  virtual std::uint64_t Size() const = 0;
  /// Reads up to buffer.size() bytes at `offset` into `buffer`; *bytes_read falls short of that
  /// only at the end. kIoError is tried again (IoOptions::retries); any other failure is permanent
  /// for this range. IoOptions::read_timeout_ms is how long a call may take.
  virtual Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                        std::size_t* bytes_read) = 0;
  /// Names the state of its bytes: an ETag, a generation, a checksum. Sources of one name, size and
  /// version have the same bytes, so an index of them is kept in OpenOptions::index_folder. Empty:
  /// the state is not known, and each process makes the index anew. Asked once.
  virtual std::string Version() const { return {}; }
};

/// Stands for all that follows.
inline constexpr std::uint64_t kToEnd = ~std::uint64_t{0};

/// `bytes` of a file from `offset` on (kToEnd: to its end), read by pread. Offsets in reports count
/// from there; the name tells that offset. Thread safe. Throws Error if the file cannot be opened
/// or does not have them.
std::unique_ptr<Source> OpenFileRange(const std::string& path, std::uint64_t offset,
                                      std::uint64_t bytes);

/// Bytes that come once, in order: a pipe, a socket, a decoder. One thread at a time calls it. What
/// a function throws is a failure, as of a Source.
class StreamSource {
 public:
  virtual ~StreamSource() = default;
  /// Shown in reports and errors.
  virtual std::string name() const = 0;
  /// Reads at least one byte, blocking until there is one; *bytes_read == 0 is the end. Returns
  /// kCancelled soon after `stop` is requested.
  virtual Status Read(std::span<std::byte> buffer, std::size_t* bytes_read,
                      std::stop_token stop) = 0;
  /// Opens it again after its end, for the bytes of the next writer. Waits until they can be read,
  /// or `stop` is requested (kCancelled). kUnsupported if it comes just once.
  virtual Status Reopen(std::stop_token stop);
  /// Gives back its resources, such as a descriptor. The reader was closed: no Read or Reopen
  /// follows. Exceptions are dropped.
  virtual void Close() {}
  /// Whether it is known that Reopen cannot work. Then reopen_limit and reopen_until are refused.
  virtual bool ComesOnce() const { return false; }
};

/// A descriptor that the caller owns (a pipe, a socket, stdin) as a stream; closes it at the end if
/// `owns` is set. Short reads are passed on at once.
std::unique_ptr<StreamSource> OpenDescriptor(int descriptor, std::string name, bool owns);

/// stdin ("-", "/dev/stdin"), a FIFO, "unix:PATH" or "tcp:HOST:PORT" as a stream; waits for a
/// FIFO's writer when first read. All but stdin can be opened again, a socket by trying to connect
/// until a server listens. Throws Error if the name cannot be opened.
std::unique_ptr<StreamSource> OpenStream(const std::string& name);

/// True if OpenStream, not a file, is the way to read `name`.
bool IsStreamName(const std::string& name);

}  // namespace ringfeed
