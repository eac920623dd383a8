#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/file_state.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The indexes of a folder's small files, in one file: 16 bytes of magic, then entries,
/// little-endian:
///   u32 CRC-32C of the next 24 bytes; u32 bytes of the name, u32 bytes of the index, u32 CRC-32C
///   of these two, u32 zero, i64 time of writing in ns; the name; the index.
/// Of two entries of one name the later one holds. Writers append under a lock (flock), and write
/// the file anew if more than half of it no longer holds. What a killed writer left at the end is
/// cut off by the next one.
///
/// An object remembers what files it looked at have, and looks again only at what was appended.
/// Thread safe.
class FolderIndexes {
 public:
  static constexpr std::string_view kMagic{"ringfeed indexes", 16};
  static constexpr std::size_t kMostBytes = std::size_t{1} << 15;  ///< of one index
  static constexpr std::size_t kMostNameBytes = 4096;

  struct Entry {
    std::vector<std::byte> index;
    std::int64_t written_ns = 0;
  };

  /// The entry of that name in the file `path`. kNotFound if there is none, kDamaged if its bytes
  /// are not those that were written. Blocks.
  Status Read(const std::string& path, const std::string& name, Entry* entry);
  /// Appends it. Replaces a link of that name, and does not follow it. kUnsupported if the file
  /// system has no locks, or if another writer has it for 2 s. Blocks.
  Status Append(const std::string& path, const std::string& name, std::span<const std::byte> index);

 private:
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  ///< with its head
  };
  struct Folder {
    std::mutex mutex;  ///< guards the rest
    FileState state;   ///< of the file, when it was looked at last
    std::uint64_t end = 0;
    std::uint64_t holding_bytes = 0;  ///< of the entries in `places`
    std::unordered_map<std::string, Place> places;
  };

  std::shared_ptr<Folder> FolderOf(const std::string& path);
  /// Looks at what was appended, or at all of it if it is another file.
  static Status CatchUp(int descriptor, Folder* folder);
  static Status AppendLocked(int descriptor, const std::string& path, const std::string& name,
                             std::span<const std::byte> index, Folder* folder);
  static Status WriteAnew(int descriptor, const std::string& path, Folder* folder);

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Folder>> folders_;  ///< by path; guarded by mutex_
};

}  // namespace ringfeed
