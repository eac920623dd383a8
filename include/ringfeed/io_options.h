#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ringfeed {

/// The ways in which a file's bytes come into memory.
enum class IoPath : std::uint8_t {
  kAuto,   ///< chosen for each file by residency, size, passes to come and the system
  kUring,  ///< io_uring, O_DIRECT if the file system has it, in each pass
  kPread,  ///< read calls: inline for files in the page cache, a pool of threads for cold ones
  kMmap,   ///< mapped, and kept mapped across passes
  kHttp,   ///< ranges of a store's object. An object has no other path, and a file cannot have it
};

/// The path's name: "auto", "uring", "pread", "mmap", "http".
std::string_view IoPathName(IoPath path);

/// Speed, never order: how bytes are read. Every option has a default that suits most machines.
struct IoOptions {
  IoPath path = IoPath::kAuto;
  bool may_map = true;  ///< kAuto may map a file that is in the page cache; else it is read
  std::size_t block_bytes = 512 * 1024;           ///< size of one read; a multiple of 4096
  std::size_t in_flight_bytes = 4 * 1024 * 1024;  ///< per reader thread, io_uring and pool
  /// O_DIRECT for cold files. kAuto fills the page cache instead from those that two more passes
  /// are to read, if half of the memory has room for all of a chain's files.
  bool direct = true;
  int retries = 3;  ///< after transient errors, with growing pauses
  /// Not 0: a ReadAt of a Source that takes longer is kIoError, and so is tried again. It is called
  /// by threads of its own, and what it reads is copied. A thread whose call is given up ends when
  /// ReadAt returns, and holds the Source so long. For files throws Error.
  std::int64_t read_timeout_ms = 0;
  /// How long the store of an address may fail in ways that pass, such as no connection, before the
  /// read fails with the last of these failures: kResourceExhausted. At least 1.
  std::int64_t remote_patience_ms = 60'000;
};

/// The path that serves one file, and why, in words for the report.
struct IoChoice {
  std::string file;
  IoPath path = IoPath::kPread;
  bool direct = false;
  bool resident = false;  ///< found in the page cache: read inline by the reader thread itself
  std::string reason;
};

}  // namespace ringfeed
