#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/file_state.h"
#include "ringfeed/io_options.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

class FileMapping;
class RemoteSource;

/// One opened input and the path by which its bytes come. Created by OpenInput, used by one lane
/// (thread safe for concurrent const calls). The destructor closes it and requires that no read is
/// in flight.
class InputFile {
 public:
  virtual ~InputFile();
  const std::string& name() const { return name_; }
  /// Bytes at opening.
  std::uint64_t size() const { return size_; }
  const IoChoice& choice() const { return choice_; }
  /// Of the file at opening; all zeros of a user's Source.
  const FileState& state() const { return state_; }

  /// The descriptor for engines; -1 for a user's Source and for files that are mapped only.
  int descriptor() const { return descriptor_; }
  /// The alignment that offset, length and address of a read must have; 1 if there is none.
  std::uint32_t alignment() const { return alignment_; }
  /// The whole file in memory if choice().path is kMmap, else empty. Valid until destruction, also
  /// after the file shrank: then pages beyond its end read as zeros, and damaged() turns true.
  std::span<const std::byte> mapping() const { return mapping_; }
  /// The owner of mapping(), to keep it beyond this input; null if there is none.
  virtual std::shared_ptr<const FileMapping> mapped() const { return nullptr; }
  /// True after the mapped file was found shorter than its mapping. False: what was read from the
  /// mapping before the call was the file's (see FileMapping).
  virtual bool damaged() const { return false; }
  /// Turns O_DIRECT off after the file system refused such a read; false if it was not on. Reads
  /// under way are not affected, and alignment() stays as it is.
  virtual bool LeaveDirect() { return false; }
  /// True after LeaveDirect took effect; choice().direct still tells what the input began with.
  virtual bool left_direct() const { return false; }
  /// Whether reads still go past the CPU: nothing of what they bring is in a cache.
  bool reads_direct() const { return choice_.direct && !left_direct(); }
  /// Keeps an object that was made from the descriptor, and destroys it before the descriptor is
  /// closed. Call it before other threads have the file.
  void Attach(std::shared_ptr<const void> what) { attached_ = std::move(what); }
  /// The attached object; null if there is none.
  const void* attached() const { return attached_.get(); }
  /// Opened by OpenCachedInput: reads ask for pieces as they are needed, with small gaps between
  /// them.
  bool cached() const { return cached_; }
  /// ReadAt brings the bytes that come next into the page cache: call it from the start to the end,
  /// in the thread that wants the bytes.
  bool loads_ahead() const { return loads_ahead_; }

  /// The object of a store that it is, which the engine of io/remote reads; else null.
  virtual const RemoteSource* remote() const { return nullptr; }

  /// Reads inline, in the caller's thread: the whole range unless the file ends. Retries EINTR and
  /// short reads. If the file is shorter than size(), returns the bytes that there are and
  /// kTruncated. Never call it for a mapped file.
  virtual Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                        std::size_t* bytes_read) = 0;

  /// For a damaged mapping: true if the file is shorter, or another one, so that nothing of the
  /// mapping can be trusted. False: the medium did not return some pages.
  virtual bool shrank() const { return false; }
  /// Whether some of these bytes of the mapping may be zeros in place of the file's.
  virtual bool DamagedAt(std::span<const std::byte> /*bytes*/) const { return false; }
  /// The pages of the mapping that the medium did not return, in no order.
  virtual std::vector<std::span<const std::byte>> unreadable() const { return {}; }

 protected:
  std::string name_;
  std::uint64_t size_ = 0;
  IoChoice choice_;
  bool cached_ = false;
  bool loads_ahead_ = false;
  int descriptor_ = -1;
  std::uint32_t alignment_ = 1;
  std::shared_ptr<const void> attached_;
  std::span<const std::byte> mapping_;
  FileState state_;
};

/// A source of the library's own.
class OwnSource : public Source {
 public:
  /// How its bytes come, for reports.
  virtual const char* origin() const = 0;
};

/// What is known about the later use of a file.
struct OpenRules {
  bool may_map = false;  ///< it was read before, and may be again
  /// Called with the bytes of a cold, large file whose path is not forced. True if the file should
  /// come into the page cache, because it will be read again. Empty: no.
  std::function<bool(std::uint64_t bytes)> may_load{};
};
/// Opens `name` and chooses its path. options.path if it is forced (an error if that cannot work).
/// A cold and large file: io_uring with O_DIRECT if there is io_uring; or, if it may be loaded,
/// inline reads with the page cache filled ahead of them. A file in the page cache: mapped, if it
/// may be mapped or is mapped already; else inline reads. The choice carries its reason in words.
/// Errors: kNotFound, kPermissionDenied, kInvalidArgument (a directory, a device), kUnsupported (of
/// /proc), kResourceExhausted (descriptors).
struct OpenInputResult {
  Status status;
  std::unique_ptr<InputFile> file;
};
OpenInputResult OpenInput(const std::string& name, const IoOptions& options,
                          const OpenRules& rules = {});
OpenInputResult OpenInput(std::shared_ptr<Source> source);
/// Opens `name` to be read through the page cache in small pieces in any order: mapped, or, if
/// another path is asked for, by that path without O_DIRECT. Requests at once the bytes that the
/// cache lacks, if they are not too many, and sets *loads to their number; `loads` is null if that
/// was done before. The caller has checked that the file fits into memory.
OpenInputResult OpenCachedInput(const std::string& name, const IoOptions& options,
                                std::uint64_t* loads);
/// Opens `name` to be read into a device's memory, by O_DIRECT if the options and the file system
/// allow it; never mapped. `reason` becomes the choice's. Errors as above.
OpenInputResult OpenDirectInput(const std::string& name, const IoOptions& options,
                                const std::string& reason);
/// Opens `name` to be read by ReadAt from its start to its end, whatever path is asked for;
/// `reason` becomes the choice's. Errors as above.
OpenInputResult OpenSequentialInput(const std::string& name, const IoOptions& options,
                                    const std::string& reason);

}  // namespace ringfeed
