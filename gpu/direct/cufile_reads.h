#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/memory/arena.h"
#include "gpu/direct/cufile_library.h"
#include "io/direct_reads.h"
#include "ringfeed/devices/device_backend.h"

namespace ringfeed {

/// Reads files into one device's memory by cuFile. The host reads what cuFile cannot, and the last
/// page of each file, and copies it there: the results and the failures are those of pread,
/// whatever cuFile says.
///
/// The last page is left to the host because cuFile's compatibility mode was seen to write up to 1
/// MiB beyond a read that ends at the file's end. So no cuFile read ends there.
///
/// Lifetime: memory that Begin gave keeps alive what it needs of this object.
class CuFileReads final : public DirectReads {
 public:
  struct Options {
    std::shared_ptr<DeviceBackend> backend;
    int device = 0;
    /// Use it only if it is GPUDirect, and records are long enough to gain by it.
    bool only_where_it_pays = false;
    std::shared_ptr<CuFileLibrary>
        library;  ///< null: CuFileLibrary::Of(), loaded when it is needed
  };
  /// For shorter records, cuFile's own time for each read is more than a copy's.
  static constexpr std::uint64_t kShortRecordBytes = std::uint64_t{16} << 10;

  explicit CuFileReads(const Options& options);
  ~CuFileReads() override;
  CuFileReads(const CuFileReads&) = delete;
  CuFileReads& operator=(const CuFileReads&) = delete;

  std::shared_ptr<Arena> Begin(const DirectNeed& need) override;
  void NoteUnfit(const std::string& why) override;
  void Open(InputFile* file) override;
  void Read(ReadRequest* request, int retries, ReadEngineStats* stats) override;
  Status CopyToHost(std::byte* to, const std::byte* from, std::size_t bytes) override;

  /// No run begins after it. Frees memory that no run uses.
  void Close();
  /// Which path bytes took, or why none came directly.
  std::string Describe() const;

 private:
  struct Memory;
  struct File;

  Status TryBegin(const DirectNeed& need, std::shared_ptr<Arena>* arena);
  /// Loads the library last of all checks.
  std::string WhyNotHere(const DirectNeed& need);
  Status TakeMemory(std::size_t bytes, std::shared_ptr<Memory>* memory);
  Status MakeBounce();
  Status RegisterFile(int descriptor, std::shared_ptr<const File>* file) const;
  /// A read of the file's first bytes, of the same kind as all later reads.
  Status TryRead(int descriptor, Arena* arena) const;
  /// The number of bytes, or a negative errno, as from pread. Sets *failure if the device takes no
  /// more.
  std::int64_t ReadSome(const ReadRequest& request, std::uint64_t offset, std::byte* to,
                        std::size_t bytes, Status* failure);
  std::int64_t ReadByHost(int descriptor, std::uint64_t offset, std::byte* to, std::size_t bytes,
                          Status* failure);
  void NoteRefused(const Status& why);
  void NoteRefusedRead() { refused_reads_.fetch_add(1, std::memory_order_relaxed); }
  /// The start of the memory that contains an address.
  std::byte* BaseOf(const std::byte* address) const;

  const std::shared_ptr<DeviceBackend> backend_;
  const int device_;
  const bool only_where_it_pays_;
  std::shared_ptr<CuFileLibrary> library_;  ///< from the first Begin on that needs it

  mutable std::mutex mutex_;  ///< guards what follows
  bool closed_ = false;
  std::string why_not_ = "nothing was read yet";
  std::string refused_;  ///< the first failed read of cuFile
  std::vector<std::weak_ptr<Arena>> arenas_;
  std::vector<std::shared_ptr<Memory>> memories_;  ///< a run takes memory of finished runs

  std::mutex bounce_mutex_;  ///< guards what follows, and the stream's use
  DeviceStream stream_;
  std::shared_ptr<Arena> bounce_arena_;
  SlabRun bounce_;
  bool registered_ = false;

  // Counters: read only to stop asking cuFile for ever.
  std::atomic<std::uint64_t> reads_{0};
  std::atomic<std::uint64_t> refused_reads_{0};
  std::atomic<int> refused_in_a_row_{0};
};

}  // namespace ringfeed
