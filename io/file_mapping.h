#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ringfeed/status.h"

namespace ringfeed {

/// Keeps the process alive when a mapped file is shorter than its mapping, or its medium fails: a
/// handler for SIGBUS puts a page of zeros in the place of the missing page and marks the mapping.
/// Other faults go to the handler that was installed before. The guard of a range must end before
/// the range is unmapped. A thread calls AwaitSigbus before it touches the range; the constructor
/// does so for its own thread.
class SigbusGuard {
 public:
  SigbusGuard(const void* data, std::size_t bytes);
  ~SigbusGuard();
  SigbusGuard(const SigbusGuard&) = delete;
  SigbusGuard& operator=(const SigbusGuard&) = delete;

  /// True after a page of the range was found missing.
  bool damaged() const;
  /// The first byte of each missing page, in no order. Empty if there are more than can be noted.
  std::vector<const std::byte*> missing() const;

  struct Slot;

 private:
  Slot* slot_;
};

/// Call it before the calling thread touches guarded ranges, once for each piece of work. It
/// unblocks SIGBUS in the thread, even if the program blocks it, since a blocked fault kills. It
/// also makes the guards' handler the current one; a handler that had replaced it gets the other
/// faults. What was checked less than 20 µs ago is not checked again. Costs next to nothing if
/// nothing is guarded.
void AwaitSigbus();

/// A whole file mapped for reading and guarded against its shrinking. All openers of a mapped file
/// share its mapping, whose page tables are filled in. The last owner to go unmaps it, so that
/// nothing of a deleted file stays. Thread safe.
class FileMapping {
 public:
  /// The mapping of an open file as `stat` describes it: an existing one if device, inode, size and
  /// time of change are the same, else a new one. Null, with `status` set, if it cannot be mapped.
  static std::shared_ptr<const FileMapping> Open(int descriptor, const struct stat& stat,
                                                 Status* status);
  /// True if Open would return an existing mapping.
  static bool IsMapped(const struct stat& stat);
  /// Mappings that the process has now.
  static std::size_t Count();
  /// At most so many are kept while they are not read: the system limits mappings, too
  /// (vm.max_map_count), and memory allocation needs some.
  static constexpr std::size_t kMostKept = 4096;

  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// True after the file was found shorter than the mapping: a touched page was missing, or the end
  /// has changed. If it is false, everything read before came from a file that had not been cut: a
  /// cut drops the last page or fills its end with zeros, even if the file has grown again since.
  /// (Bytes overwritten in place are not noticed.)
  bool damaged() const;
  /// For a damaged mapping: false if the file is as it was when it was mapped and still has the
  /// missing pages, so that its medium failed. `facts` describes the file now.
  bool Shrank(const struct stat& facts) const;
  /// The pages that the medium did not return, in no order.
  std::vector<std::span<const std::byte>> unreadable() const;

 private:
  friend class OpenMappings;
  FileMapping(std::span<const std::byte> bytes, const struct stat& facts);
  bool EndIsAsItWas() const;

  std::span<const std::byte> bytes_;
  std::optional<SigbusGuard> guard_;  // always set; destroyed before the mapping
  // The last byte of the last page that is not 0, or the very last one: a cut that changes any byte
  // changes this one, or takes its page away.
  const std::byte* probe_ = nullptr;
  std::byte probe_value_{};
  const struct stat facts_;  // of the file when it was mapped
};

}  // namespace ringfeed
