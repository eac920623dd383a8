#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "readers/engine/files/file_table.h"
#include "readers/engine/sources/cache_room.h"

namespace ringfeed {

/// Brings the cold files of a table into the page cache, one after the other, while pieces of them
/// are read past it: each byte that is read brings kLoadedPerByte more. So most of a first pass in
/// any order comes from the cache already, and all of the later ones. Nothing is loaded if there is
/// no room for all files. Reading threads call it, any number of them: one at a time asks the
/// kernel for some, and none waits for another.
class CacheLoader {
 public:
  struct Loaded {
    std::uint64_t bytes = 0;           ///< what was asked for
    std::optional<std::size_t> whole;  ///< the file that this request completed
  };

  CacheLoader(std::shared_ptr<const FileTable> table, std::shared_ptr<CacheRoom> room);
  ~CacheLoader();
  CacheLoader(const CacheLoader&) = delete;
  CacheLoader& operator=(const CacheLoader&) = delete;

  /// So many bytes of the file are about to be read past the cache. If no other file is being
  /// loaded, this one is next.
  Loaded Load(std::size_t file, std::uint64_t bytes);

 private:
  static constexpr std::uint64_t kLoadedPerByte = 2;
  /// Most bytes that one call asks for. If the disk is busy, a call takes as long as the disk needs
  /// for them.
  static constexpr std::uint64_t kMostStepBytes = std::uint64_t{8} << 20;

  /// Whether a file is being loaded: the current one, or else the next cold one that was not.
  bool FindOne(std::size_t file);
  bool Begin(std::size_t file);
  void End();

  const std::shared_ptr<const FileTable> table_;
  const std::shared_ptr<CacheRoom> room_;
  const std::uint64_t step_bytes_;            ///< asked for in a call
  std::atomic<std::uint64_t> owed_bytes_{0};  ///< a sum alone
  std::atomic<bool> ended_{false};            ///< no more comes: a hint alone

  std::mutex mutex_;  ///< guards what follows
  std::vector<bool> begun_;
  std::size_t next_ = 0;  ///< all files before it were begun
  std::optional<std::size_t> file_;
  int descriptor_ = -1;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t asked_ = 0;  ///< up to there
};

}  // namespace ringfeed
