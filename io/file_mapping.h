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
/// handler for SIGBUS puts a page of zeros in the place of the missing one and marks the mapping.
/// Faults elsewhere go to the handler that was there before. The guard of a range must end before
/// the range is unmapped. Who touches the range calls AwaitSigbus before, as the constructor does.
class SigbusGuard {
 public:
  SigbusGuard(const void* data, std::size_t bytes);
  ~SigbusGuard();
  SigbusGuard(const SigbusGuard&) = delete;
  SigbusGuard& operator=(const SigbusGuard&) = delete;

  /// True once a page of the range was found missing.
  bool damaged() const;
  /// Which ones, in no order: the first byte of each. None where they are more than can be noted.
  std::vector<const std::byte*> missing() const;

  struct Slot;

 private:
  Slot* slot_;
};

/// Before the calling thread touches guarded ranges, once for each piece of work: its signal mask
/// lets SIGBUS through from now on, also where the program blocks it, since a fault that is blocked
/// kills. And the handler is the guards' own: one that took its place since gets the faults
/// elsewhere. What was seen in order 20 µs ago is not looked at again. Costs next to nothing where
/// nothing is guarded.
void AwaitSigbus();

/// A whole file mapped for reading and guarded against its shrinking. Whoever opens a file that
/// somebody has mapped gets that mapping, whose page tables are filled in; the last owner to go
/// unmaps it, so that nothing of a deleted file stays. Thread safe.
class FileMapping {
 public:
  /// The mapping of an open file as `stat` describes it: the one that somebody has where device,
  /// inode, size and time of change are the same, else a new one. Null, with `status` set, where it
  /// cannot be mapped.
  static std::shared_ptr<const FileMapping> Open(int descriptor, const struct stat& stat,
                                                 Status* status);
  /// True where Open would return a mapping that somebody has.
  static bool IsMapped(const struct stat& stat);
  /// Mappings that the process has now.
  static std::size_t Count();
  /// So many are kept while nobody reads them: the system limits mappings, too (vm.max_map_count),
  /// and whoever allocates memory needs some.
  static constexpr std::size_t kMostKept = 4096;

  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  /// True once the file was found shorter than the mapping: a page was missing that somebody
  /// touched, or the end is not what it was. Where it is false, what was read before came from a
  /// file that had not been cut: a cut drops the last page or fills its end with zeros, also where
  /// the file has grown again since. (Bytes that were written over in place are not noticed.)
  bool damaged() const;
  /// Of a mapping that is damaged: false where it lacks pages that the file, which is as it was
  /// when it was mapped, still has: its medium did not give them. `facts`: of the file now.
  bool Shrank(const struct stat& facts) const;
  /// The pages that the medium did not give, in no order.
  std::vector<std::span<const std::byte>> unreadable() const;

 private:
  friend class OpenMappings;
  FileMapping(std::span<const std::byte> bytes, const struct stat& facts);
  bool EndIsAsItWas() const;

  std::span<const std::byte> bytes_;
  std::optional<SigbusGuard> guard_;  // always there, but ends before the mapping
  // The last byte of the last page that is not 0, or the very last one: a cut that changes any byte
  // changes this one, or takes its page away.
  const std::byte* probe_ = nullptr;
  std::byte probe_value_{};
  const struct stat facts_;  // of the file when it was mapped
};

}  // namespace ringfeed
