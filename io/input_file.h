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

/// One opened input and the path by which its bytes come. Created by OpenInput, used by one lane
/// (thread safe for concurrent const calls), closed by the destructor, which requires that no read
/// is in flight.
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
  /// Alignment that offset, length and address of a read must have; 1 where there is none.
  std::uint32_t alignment() const { return alignment_; }
  /// The whole file in memory where choice().path is kMmap, else empty. Stays valid until
  /// destruction; also after the file shrank: then touched pages read as zeros and damaged() turns
  /// true.
  std::span<const std::byte> mapping() const { return mapping_; }
  /// What owns mapping(), for those who keep it beyond this input; null where there is none.
  virtual std::shared_ptr<const FileMapping> mapped() const { return nullptr; }
  /// True once the mapped file was found shorter than its mapping. False: what was read from the
  /// mapping before the call was the file's (see FileMapping).
  virtual bool damaged() const { return false; }
  /// Turns O_DIRECT off after the file system refused such a read; false where it was not on. Reads
  /// under way are not affected, and alignment() stays as it is.
  virtual bool LeaveDirect() { return false; }
  /// True once LeaveDirect took effect: then choice().direct tells what was begun with.
  virtual bool left_direct() const { return false; }
  /// Keeps something that was made of the descriptor: it goes before that is closed. Before others
  /// have the file.
  void Attach(std::shared_ptr<const void> what) { attached_ = std::move(what); }
  /// What was attached; null without that.
  const void* attached() const { return attached_.get(); }
  /// Opened by OpenCachedInput: pieces are asked for as they are needed, with little between them.
  bool cached() const { return cached_; }
  /// ReadAt brings what comes next into the page cache: it is to be called from the start to the
  /// end, by the thread that wants the bytes.
  bool loads_ahead() const { return loads_ahead_; }

  /// Reads inline, in the caller's thread: whole range unless the file ends. Retries EINTR and
  /// short reads. Where the file is found shorter than size(), the bytes that there are and
  /// kTruncated. Never call with a mapped file.
  virtual Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                        std::size_t* bytes_read) = 0;

  /// Of a mapping that is damaged: whether the file is shorter, or another, so that nothing of the
  /// mapping is to be trusted any more. Else there are pages that the medium did not give.
  virtual bool shrank() const { return false; }
  /// Whether bytes of the mapping may be zeros in place of the file's.
  virtual bool DamagedAt(std::span<const std::byte> /*bytes*/) const { return false; }
  /// The pages of the mapping that the medium did not give, in no order.
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

/// What is known of a file's further use.
struct OpenRules {
  bool may_map = false;  ///< it was read before, and may be again
  /// Asked of a cold, large file whose path is not forced, with its bytes: whether it is to come
  /// into the page cache, since it will be read again. Empty: no.
  std::function<bool(std::uint64_t bytes)> may_load{};
};
/// Opens `name` and chooses its path: by options.path if forced (an error where that cannot work),
/// else cold and large: io_uring with O_DIRECT where there is io_uring, or, if it may be loaded,
/// inline reads with the page cache filled ahead of them; resident in the page cache: inline reads,
/// or, where it may be mapped or somebody has it mapped, mapped. The choice carries its reason in
/// words. Errors: kNotFound, kPermissionDenied,
/// kInvalidArgument (a directory, a device), kUnsupported (of /proc), kResourceExhausted
/// (descriptors).
struct OpenInputResult {
  Status status;
  std::unique_ptr<InputFile> file;
};
OpenInputResult OpenInput(const std::string& name, const IoOptions& options,
                          const OpenRules& rules = {});
OpenInputResult OpenInput(std::shared_ptr<Source> source);
/// Opens `name` to be read through the page cache in small pieces in any order: mapped, or, where
/// another path is asked for, by that path without O_DIRECT. What the cache lacks of it is asked
/// for at once where it is not too large for that: *loads says how many bytes; null where that was
/// done before. The caller has seen that it fits into memory.
OpenInputResult OpenCachedInput(const std::string& name, const IoOptions& options,
                                std::uint64_t* loads);
/// Opens `name` to be read into a device's memory, by O_DIRECT where the options and the file
/// system allow it; never mapped. `reason` is the choice's. Errors as above.
OpenInputResult OpenDirectInput(const std::string& name, const IoOptions& options,
                                const std::string& reason);
/// Opens `name` to be read by ReadAt from its start to its end, whatever path is asked for;
/// `reason` is the choice's. Errors as above.
OpenInputResult OpenSequentialInput(const std::string& name, const IoOptions& options,
                                    const std::string& reason);

}  // namespace ringfeed
