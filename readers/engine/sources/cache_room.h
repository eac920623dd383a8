#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>

namespace ringfeed {

/// Chooses which of a chain's files are read through the page cache: those that will be read again,
/// if memory has room for them. Others are read past it: files that push each other out of the
/// cache cost its pages and give nothing. Thread safe.
class CacheRoom {
 public:
  enum class Taken : std::uint8_t {
    kNone,   ///< there is no room
    kNew,    ///< the file has room from now on
    kAgain,  ///< it has had since an earlier call
  };

  /// `bytes`: the room; by default half of the memory that is available at the first call.
  explicit CacheRoom(std::optional<std::uint64_t> bytes = std::nullopt) : bytes_(bytes) {}

  Taken Take(const std::string& name, std::uint64_t bytes);
  /// Whether there is room for all of so many files, by the sizes of some of them, if each of
  /// `ranks` has as many in the same memory. Only the first call looks at the files.
  bool HasRoomForAll(std::size_t files,
                     const std::function<const std::string&(std::size_t file)>& name,
                     std::size_t ranks = 1);

 private:
  std::uint64_t bytes();

  std::mutex mutex_;
  std::optional<std::uint64_t> bytes_;
  std::optional<bool> has_room_for_all_;
  std::uint64_t taken_bytes_ = 0;
  std::unordered_set<std::string> names_;
};

/// How often a chain's files are read, and what room they have meanwhile.
struct FileRereads {
  std::shared_ptr<CacheRoom> room;
  std::uint64_t passes = 1;  ///< of this run; 0: without end
  bool read_before = false;  ///< by a run of the same chain: there may be more
  std::size_t ranks = 1;     ///< whose files differ, on machines that may be this one

  /// Whether loading a file in that pass pays off. Loading costs more than reading past the cache:
  /// two later passes without the disk make up for it.
  bool PayFor(std::uint64_t pass) const { return passes == 0 || pass + 2 < passes || read_before; }
};

}  // namespace ringfeed
