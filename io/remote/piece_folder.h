#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/scoped_descriptor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The files of a cache: whose they are, how many bytes they have, which one goes first.
///
/// Whatever adds or removes a file holds the folder's lock: flock on a description of its own,
/// which the system gives back if its holder dies. It is held for some system calls, or for one
/// look at the whole folder. A process that is stopped while it holds the lock makes others fail
/// after ten seconds.
///
/// How many bytes there are stands in the file ".total". Bytes are added to it before their file
/// is there, and taken off it after that is gone, so a killed process leaves it too large, never
/// too small. Open counts anew.
///
/// A file that is being written has its whole size from the start, an own name (kPartEnding) and
/// an exclusive flock of its writer. Without that lock its writer is dead, and it is removed.
///
/// Which file was used last is told by the files' times of modification: no journal that could
/// disagree with the files, no lock for a reader, one cheap call per use.
///
/// The system's failures are kResourceExhausted if they pass (no descriptor, no memory), else
/// kIoError. Thread safe. Not for use in a child of fork.
class PieceFolder {
 public:
  struct File {
    std::string name;
    std::uint64_t bytes = 0;
    std::int64_t used_ns = 0;  ///< since 1970
  };

  /// Opens it, after making it if `make`. Looks at owner and mode. kInvalidArgument, with what to
  /// do, if others could change it, or if `path` is no folder.
  static Status Open(const std::string& path, bool make, std::unique_ptr<PieceFolder>* folder);

  /// Counts the files, removes what killed writers left, and then the least recently used pieces
  /// as long as there are more than `most_bytes`. Those that stay, the oldest first, are what
  /// Reserve removes later on; nothing that is used or comes afterwards.
  Status CountAndTrim(std::uint64_t most_bytes, std::uint64_t* removed);

  /// All pieces and those that are being written, in no order. Changes nothing.
  Status List(std::vector<File>* files) const;

  /// A failure of writing, by its error number.
  static Status Failure(int error_number, const std::string& what);

  /// What Reserve did.
  struct Reservation {
    int descriptor = -1;        ///< to write to, the caller's; -1: not to be written
    std::uint64_t removed = 0;  ///< pieces that made room
  };
  /// Begins the file of a piece, of `bytes` bytes with all that will be in it. Removes the least
  /// recently used of the pieces that CountAndTrim saw, so that all files have at most
  /// `most_bytes`. OK without a descriptor: the piece is there, another writer has begun it, or
  /// there is no room.
  Status Reserve(const std::string& name, std::uint64_t bytes, std::uint64_t most_bytes,
                 Reservation* reservation);
  /// The file counts from now on.
  Status Publish(const std::string& name, int descriptor);
  /// Removes the file instead.
  Status Abandon(const std::string& name, int descriptor);

  /// Opens a piece for reading and notes its use if `use`. -1 sets errno.
  int OpenPiece(const std::string& name, bool use) const;
  /// Whether there is a file of that name.
  bool HasPiece(const std::string& name) const;
  /// Whether it is a file that only this user, or root, could have written; and its size.
  bool IsSafe(int descriptor, std::uint64_t* bytes) const;
  /// Removes that file, unless another one has its name by now.
  Status Remove(const std::string& name, int descriptor);

  /// The files' bytes as the total says, without a lock; 0 if there is none.
  std::uint64_t bytes() const;
  const std::string& path() const { return path_; }

 private:
  class Lock;

  PieceFolder(std::string path, int descriptor) : path_(std::move(path)), folder_(descriptor) {}

  Status Examine() const;
  Status Visit(const std::function<void(const char* name)>& visit) const;
  Status CountAll(std::vector<File>* pieces, std::uint64_t* total);
  bool RemoveIfDead(const char* part);
  Status RemoveOldest(std::uint64_t most_bytes, std::uint64_t* total, std::uint64_t* removed);
  Status MakePart(const std::string& part, std::uint64_t bytes, int* descriptor);
  Status Unlink(const std::string& name) const;
  bool IsNamed(const std::string& name, int descriptor, std::uint64_t* bytes) const;
  Status LoadTotal(std::uint64_t* total);
  Status StoreTotal(std::uint64_t total) const;

  const std::string path_;
  const ScopedDescriptor folder_;
  mutable std::mutex mutex_;  // taken before the folder's lock, by those that take that
  std::vector<File> oldest_;  // may be removed; the oldest last
};

}  // namespace ringfeed
