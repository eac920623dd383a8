#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/scoped_descriptor.h"
#include "io/remote/piece_file.h"
#include "io/remote/piece_folder.h"
#include "ringfeed/status.h"

namespace ringfeed {

class CachedPiece;
class PieceWriter;

/// The bytes of a piece in memory, of which a process has at most kMost at a time.
class PieceBuffer {
 public:
  static constexpr int kMost = 16;

  /// Null if there are too many, or no memory.
  static std::shared_ptr<PieceBuffer> Take(std::uint32_t bytes);
  explicit PieceBuffer(std::uint32_t bytes) : bytes_(bytes) {}
  ~PieceBuffer();
  PieceBuffer(const PieceBuffer&) = delete;
  PieceBuffer& operator=(const PieceBuffer&) = delete;

  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// What a cache did for this process.
struct PieceCacheStats {
  std::uint64_t hits = 0;           ///< pieces that were found
  std::uint64_t misses = 0;         ///< pieces that were not
  std::uint64_t written = 0;        ///< pieces that were added,
  std::uint64_t written_bytes = 0;  ///< and their bytes
  std::uint64_t declined = 0;       ///< pieces that were not: no room, there already, off
  std::uint64_t bad = 0;            ///< pieces that were damaged, and removed
  std::uint64_t removed = 0;        ///< pieces that made room for others
  std::string off_reason;           ///< why nothing is added any more; "": it is
};

/// Pieces of remote objects in a folder of the local disk, for this process, others of its user and
/// later ones. There is no server and no thread: processes share the folder by its lock, and
/// whoever adds a piece removes others.
///
/// - A piece counts when its file has its name, which it gets when all its bytes and checksums are
///   there: a process may be killed at any moment. It is not forced to the medium: what a power
///   failure spoils, its checksums tell.
/// - All files together, those being written among them, have at most the bytes that the process
///   which adds to them was given. A process removes the least recently used of the pieces that
///   were there when it opened the cache and that nobody used since. It never removes what a run
///   has used or added after it began: a pass over more data than the cache holds would remove
///   each piece just before it is needed, and find nothing.
/// - Bytes from it are checked wherever they are read. A bad piece is removed and counted, and is a
///   miss.
/// - A failure that lasts, such as a full disk, turns the cache off: this process adds nothing
///   more, still reads what is there, and has the reason in its stats. No call fails a run.
/// - The folder and its files are this user's or root's, and only they may write to them: else Open
///   fails, and a file is a bad piece.
///
/// Thread safe. A child of fork opens its own.
class PieceCache : public std::enable_shared_from_this<PieceCache> {
 public:
  /// Opens the cache in `folder`, which is made (with mode 0700) if only it is missing. Looks at
  /// all files there, a second for 500,000. Removes what killed writers left and what is more than
  /// `most_bytes`. kInvalidArgument, with the remedy, if the folder is not safe, or if no piece
  /// would fit.
  static Status Open(const std::string& folder, std::uint64_t most_bytes,
                     std::shared_ptr<PieceCache>* cache);
  /// Opens one that is there, to look at or to trim. Changes nothing.
  static Status OpenExisting(const std::string& folder, std::shared_ptr<PieceCache>* cache);

  /// A piece to read from; null: it is not there, and is to be fetched. One that this process is
  /// writing is read from memory (PieceWriter::Announce). Notes its use. Takes no lock of the
  /// folder: opens a file, reads its footer of at most 16 KiB.
  std::unique_ptr<CachedPiece> Find(const CachedObject& object, std::uint64_t number);

  /// Whether each piece of the object has a file: reading may still find a bad one, or none. Looks
  /// at the names of all, a millisecond for 1,000. Notes no use.
  bool HasAll(const CachedObject& object) const;

  /// Begins to add a piece; null: it is not to be added, as it is there, another thread or process
  /// adds it, there is no room, or the cache is off. Takes the folder's lock, as Finish and the
  /// end of a writer without it do: some 50 µs, and at most ten seconds if a holder is stopped.
  std::unique_ptr<PieceWriter> Begin(const CachedObject& object, std::uint64_t number);
  /// Adds a whole piece. False if it is not to be added, or if it could not be. Blocks.
  bool Add(const CachedObject& object, std::uint64_t number, std::span<const std::byte> bytes);

  PieceCacheStats Stats() const;
  std::uint64_t bytes() const { return folder_->bytes(); }  ///< of all files, other processes' too

  /// A piece as Examine finds it.
  struct Examined {
    std::string file;                   ///< its name in the folder
    std::uint64_t file_bytes = 0;       ///< with its footer
    std::int64_t used_ns = 0;           ///< since 1970
    std::optional<PieceFooter> footer;  ///< none: it has none
    bool bad = false;                   ///< it has none, or what was read is damaged
  };
  /// Hands out every piece that is there. If `all` its bytes are read and checked, and bad ones
  /// are removed. No use is noted. Blocks.
  Status Examine(bool all, const std::function<void(const Examined&)>& take);
  /// Removes leftovers, and the least recently used pieces as long as all files have more bytes.
  Status Trim(std::uint64_t most_bytes);

 private:
  friend class CachedPiece;
  friend class PieceWriter;

  PieceCache(std::unique_ptr<PieceFolder> folder, std::uint64_t most_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes) {}

  template <typename Change>
  void Count(const Change& change) const {
    const std::lock_guard lock(mutex_);
    change(&stats_);
  }
  bool IsOff() const;
  void Note(const Status& failure);  // of adding
  void RemoveBad(const std::string& file, int descriptor);

  const std::unique_ptr<PieceFolder> folder_;
  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;
  mutable PieceCacheStats stats_;  // guarded by mutex_
  /// Pieces that are being written, by the names of their files; guarded by mutex_.
  std::map<std::string, std::shared_ptr<const PieceBuffer>> announced_;
};

/// A piece that is read from: a file whose first bytes() bytes are the piece's. It stays readable
/// when others remove it; until it is closed the disk keeps its bytes. Read it by any means that
/// reports a failure (a mapping does not), and Check what was read before using it. Thread safe.
class CachedPiece {
 public:
  CachedPiece(std::shared_ptr<PieceCache> cache, std::string file, int descriptor,
              PieceFooter footer)
      : cache_(std::move(cache)),
        file_(std::move(file)),
        descriptor_(descriptor),
        footer_(std::move(footer)) {}

  /// A piece that is being written.
  CachedPiece(std::shared_ptr<PieceCache> cache, std::shared_ptr<const PieceBuffer> buffer)
      : cache_(std::move(cache)), descriptor_(-1), buffer_(std::move(buffer)) {}

  /// -1: it is in memory.
  int descriptor() const { return descriptor_.get(); }
  std::uint32_t bytes() const {
    return is_in_memory() ? static_cast<std::uint32_t>(buffer_->bytes().size())
                          : footer_.piece_bytes();
  }
  /// It is read from memory, which it holds: to be used and let go.
  bool is_in_memory() const { return buffer_ != nullptr; }

  /// Whether bytes that were read from `offset` on are as they were fetched. Offset and size are
  /// multiples of kPieceBlockBytes, but for the piece's end. If not, Discard was called.
  bool Check(std::uint32_t offset, std::span<const std::byte> blocks) const;
  /// Reads and checks any bytes of the piece. False: they are to be fetched, as after Check.
  /// Blocks.
  bool Read(std::uint32_t offset, std::span<std::byte> into) const;
  /// Removes the piece and counts it as bad, once: it could not be read.
  void Discard() const;

 private:
  const std::shared_ptr<PieceCache> cache_;
  const std::string file_;
  const ScopedDescriptor descriptor_;
  const PieceFooter footer_;
  const std::shared_ptr<const PieceBuffer> buffer_;
  mutable std::atomic<bool> discarded_{false};
};

/// A piece that is being added. Without Finish nothing is. One thread at a time.
class PieceWriter {
 public:
  PieceWriter(std::shared_ptr<PieceCache> cache, std::string file, int descriptor,
              PieceFooter footer);
  ~PieceWriter();

  std::uint32_t bytes() const { return footer_.piece_bytes(); }
  /// To write the piece's bytes to by the caller's own I/O, at their offsets.
  int descriptor() const { return descriptor_.get(); }

  /// All bytes of the piece, before they are written: PieceCache::Find gives them until the writer
  /// is done.
  void Announce(std::shared_ptr<const PieceBuffer> buffer);
  /// Notes bytes that the caller writes to the descriptor, before or after. Parts come once, in any
  /// order; offset and size are multiples of kPieceBlockBytes, but for the piece's end.
  void Note(std::uint32_t offset, std::span<const std::byte> bytes);
  /// Notes them and writes them. Blocks. After a failure nothing more is written.
  void Write(std::uint32_t offset, std::span<const std::byte> bytes);
  /// The caller's own write failed with this error number: the piece will not count, and the cache
  /// is off if the failure lasts.
  void Fail(int error_number);
  /// All bytes are noted and written: the piece counts from now on. False if it does not, after a
  /// failure or if bytes are missing. Takes the folder's lock.
  bool Finish();

 private:
  void Withdraw();

  const std::shared_ptr<PieceCache> cache_;
  const std::string file_;
  const ScopedDescriptor descriptor_;
  PieceFooter footer_;
  std::size_t noted_blocks_ = 0;
  bool is_announced_ = false;
  bool done_ = false;  // finished or failed
};

}  // namespace ringfeed
