#include "io/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "base/refusal.h"
#include "io/data_file.h"
#include "io/file_mapping.h"
#include "io/page_cache.h"
#include "io/read_engine.h"
#include "io/read_progress.h"
#include "ringfeed/io_options.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

InputFile::~InputFile() = default;

namespace {

/// Files up to this many blocks are not worth a ring or O_DIRECT: the kernel's read-ahead has them
/// in memory by the time they are asked for.
constexpr std::uint64_t kSmallFileBlocks = 2;
/// Larger files come into the page cache as they are touched: to ask for all of one may take
/// longer than the first batch may wait.
constexpr std::uint64_t kMostLoaded = std::uint64_t{1} << 30;
/// So much of a file that is loaded into the page cache is requested ahead of the reader. Files
/// that are read in turn so keep a disk busy together, and a single file does alone.
constexpr std::uint64_t kLoadedAhead = std::uint64_t{8} << 20;
/// Of one read() call; Linux transfers at most 2 GiB less a page.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
/// What every file system with direct I/O accepts, for those that do not say what they need.
constexpr std::uint32_t kSafeAlignment = 4096;

/// Turns O_DIRECT on for an open file. Returns the alignment that offsets, lengths and addresses
/// need from now on. Returns 0, with `why_not` filled in, if the file system does not support it.
std::uint32_t EnableDirect(int descriptor, std::string* why_not) {
  std::uint32_t alignment = kSafeAlignment;
#ifdef STATX_DIOALIGN
  struct statx stat {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stat) == 0 &&
      (stat.stx_mask & STATX_DIOALIGN) != 0) {
    if (stat.stx_dio_offset_align == 0) {
      *why_not = "the file system has no O_DIRECT for it";
      return 0;
    }
    alignment = std::max({stat.stx_dio_mem_align, stat.stx_dio_offset_align, 512u});
  }
#endif
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0) {
    *why_not = StatusFromErrno(errno, "O_DIRECT").message();
    return 0;
  }
  return alignment;
}

/// Turns O_DIRECT off again; reads that are under way are not affected. False if it was not on.
bool DisableDirect(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || (flags & O_DIRECT) == 0) return false;
  return fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) == 0;
}

/// How a file is read through its descriptor.
struct ReadManner {
  std::uint32_t alignment = 1;  ///< of offsets, sizes and memory
  bool cached = false;          ///< through the page cache: see InputFile
};

/// A file that is read through its descriptor.
class DescriptorInput : public InputFile {
 public:
  DescriptorInput(const std::string& name, const FileState& state, int descriptor, int retries)
      : retries_(retries) {
    name_ = name;
    size_ = state.bytes;
    state_ = state;
    descriptor_ = descriptor;
  }
  ~DescriptorInput() override {
    attached_.reset();
    close(descriptor_);
  }

  void Choose(IoChoice choice, ReadManner manner) {
    choice_ = std::move(choice);
    alignment_ = manner.alignment;
    cached_ = manner.cached;
  }

  bool LeaveDirect() override {
    if (!DisableDirect(descriptor_)) return false;
    left_direct_.store(true, std::memory_order_relaxed);
    return true;
  }
  bool left_direct() const override { return left_direct_.load(std::memory_order_relaxed); }

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override;

 private:
  const int retries_;
  std::atomic<bool> left_direct_{false};  // a fact for reports: orders nothing
};

Status DescriptorInput::ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                               std::size_t* bytes_read) {
  *bytes_read = 0;
  while (!buffer.empty()) {
    const std::size_t bytes = std::min(buffer.size(), kMostAtOnce);
    ReadRequest request{this, offset, buffer.data(), static_cast<std::uint32_t>(bytes)};
    ReadProgress progress(&request, retries_);
    ReadBlocking(&progress);
    *bytes_read += request.got;
    if (!request.status.ok()) return request.status;
    if (request.got < bytes) break;
    offset += bytes;
    buffer = buffer.subspan(bytes);
  }
  return {};
}

/// A file that comes into the page cache while it is read: its next kLoadedAhead bytes are
/// requested, half of them at a time.
class LoadedInput final : public DescriptorInput {
 public:
  LoadedInput(const std::string& name, const FileState& state, int descriptor, int retries)
      : DescriptorInput(name, state, descriptor, retries) {
    loads_ahead_ = true;
  }

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    Ask(offset, offset + buffer.size() + kLoadedAhead);
    return DescriptorInput::ReadAt(offset, buffer, bytes_read);
  }

 private:
  void Ask(std::uint64_t begin, std::uint64_t end) {
    begin = std::max(begin, asked_);
    end = std::min(end, size_);
    if (begin >= end || (end < size_ && end - begin < kLoadedAhead / 2)) return;
    posix_fadvise(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                  POSIX_FADV_WILLNEED);
    asked_ = end;
  }

  std::uint64_t asked_ = 0;  ///< the end of the bytes requested so far
};

/// A file that is in memory as a whole.
class MappedInput final : public InputFile {
 public:
  MappedInput(const std::string& name, const FileState& state,
              std::shared_ptr<const FileMapping> mapped)
      : mapped_(std::move(mapped)) {
    name_ = name;
    size_ = state.bytes;
    state_ = state;
    if (mapped_ != nullptr) mapping_ = mapped_->bytes();
  }
  void Choose(IoChoice choice) { choice_ = std::move(choice); }

  std::shared_ptr<const FileMapping> mapped() const override { return mapped_; }
  bool damaged() const override { return mapped_ != nullptr && mapped_->damaged(); }
  bool shrank() const override;
  bool DamagedAt(std::span<const std::byte> bytes) const override;
  std::vector<std::span<const std::byte>> unreadable() const override {
    return mapped_ != nullptr ? mapped_->unreadable() : std::vector<std::span<const std::byte>>();
  }

  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    const std::uint64_t left = size_ > offset ? size_ - offset : 0;
    *bytes_read = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left));
    if (*bytes_read > 0) std::memcpy(buffer.data(), mapping_.data() + offset, *bytes_read);
    return {};
  }

 private:
  const std::shared_ptr<const FileMapping> mapped_;  // null for an empty file
};

bool MappedInput::shrank() const {
  if (!damaged()) return false;
  struct stat facts {};
  return stat(name_.c_str(), &facts) != 0 || mapped_->Shrank(facts);
}

bool MappedInput::DamagedAt(std::span<const std::byte> bytes) const {
  if (!damaged()) return false;
  // Takes the pages first: a page that is touched later is noted before it can be read.
  const auto pages = unreadable();
  return std::any_of(pages.begin(), pages.end(),
                     [bytes](const std::span<const std::byte>& page) {
                       return std::less<>()(page.data(), bytes.data() + bytes.size()) &&
                              std::less<>()(bytes.data(), page.data() + page.size());
                     }) ||
         shrank();
}

/// A Source of the user's as an input: read by ReadAt, in a thread that may block.
class SourceInput final : public InputFile {
 public:
  explicit SourceInput(std::shared_ptr<Source> source);
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override;

 private:
  const std::shared_ptr<Source> source_;
};

SourceInput::SourceInput(std::shared_ptr<Source> source) : source_(std::move(source)) {
  name_ = source_->name();
  size_ = source_->Size();
  const auto* const own = dynamic_cast<const OwnSource*>(source_.get());
  choice_ = {name_, IoPath::kPread, false, false,
             own != nullptr ? own->origin() : "a source of the program's own"};
}

Status SourceInput::ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                           std::size_t* bytes_read) {
  *bytes_read = 0;
  const std::uint64_t left = size_ > offset ? size_ - offset : 0;
  buffer = buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left)));
  while (*bytes_read < buffer.size()) {
    const DataPlace place{name_, static_cast<std::int64_t>(offset + *bytes_read), -1};
    std::size_t got = 0;
    const Status status = source_->ReadAt(offset + *bytes_read, buffer.subspan(*bytes_read), &got);
    if (!status.ok()) return status.WithPlace(place);
    if (got == 0) {
      return Status(
          StatusCode::kTruncated,
          "the source says that it has " + std::to_string(size_) + " bytes, but a read here gave 0",
          place);
    }
    *bytes_read += got;
  }
  return {};
}

/// An opened regular file on its way to an input: closes the descriptor unless it is handed over.
class Opening {
 public:
  Opening(const std::string& name, const IoOptions& options) : name_(name), options_(options) {}
  ~Opening() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  Status Open() { return OpenDataFile(name_, &descriptor_, &stat_); }
  OpenInputResult Choose(const OpenRules& rules);
  OpenInputResult Sequential(const std::string& reason);
  OpenInputResult Direct(const std::string& reason) { return Cold(IoPath::kPread, reason); }
  OpenInputResult Cached(std::uint64_t* loads);

 private:
  OpenInputResult ChooseAuto(const OpenRules& rules);
  OpenInputResult ChoosePread();
  OpenInputResult ChooseUring();
  OpenInputResult ChooseMapped();
  OpenInputResult Mapped(std::string reason);
  OpenInputResult Inline(std::string reason, ReadManner manner = {});
  OpenInputResult Cold(IoPath path, std::string reason);
  OpenInputResult Loaded();

  bool IsResident() const { return ResidentShare(descriptor_, size()) >= kResidentFrom; }
  bool IsSmall() const { return size() <= kSmallFileBlocks * options_.block_bytes; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(stat_.st_size); }
  std::unique_ptr<DescriptorInput> HandOver() {
    return std::make_unique<DescriptorInput>(name_, FileState::Of(stat_),
                                             std::exchange(descriptor_, -1), options_.retries);
  }
  Status Refused(StatusCode code, const std::string& why) const {
    return Status(code, why, {name_, -1, -1});
  }

  const std::string& name_;
  const IoOptions& options_;
  int descriptor_ = -1;
  struct stat stat_ {};
};

OpenInputResult Opening::Choose(const OpenRules& rules) {
  switch (options_.path) {
    case IoPath::kAuto:
      return ChooseAuto(rules);
    case IoPath::kUring:
      return ChooseUring();
    case IoPath::kPread:
      return ChoosePread();
    case IoPath::kMmap:
      return ChooseMapped();
    case IoPath::kHttp:
      break;
  }
  return {Refused(StatusCode::kInvalidArgument, "no such I/O path"), nullptr};
}

OpenInputResult Opening::Sequential(const std::string& reason) {
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_SEQUENTIAL);
  return Inline(reason);
}

OpenInputResult Opening::Cached(std::uint64_t* loads) {
  const bool is_forced = options_.path == IoPath::kUring || options_.path == IoPath::kPread;
  const std::string reason =
      std::string(is_forced ? "asked for; " : "") +
      "small pieces in another order than the file's: " + "through the page cache";
  if (loads != nullptr) {
    *loads = size() <= kMostLoaded && !IsResident() ? size() : 0;
    if (*loads > 0) posix_fadvise(descriptor_, 0, 0, POSIX_FADV_WILLNEED);
  }
  if (options_.path == IoPath::kUring) {
    std::unique_ptr<DescriptorInput> file = HandOver();
    file->Choose({.file = name_, .path = IoPath::kUring, .reason = reason}, {.cached = true});
    return {{}, std::move(file)};
  }
  const bool is_read = options_.path == IoPath::kAuto && !options_.may_map;
  if (is_read || options_.path == IoPath::kPread) return Inline(reason, {.cached = true});
  OpenInputResult mapped = Mapped(reason);
  if (mapped.status.ok()) return mapped;
  return Inline(reason + "; " + mapped.status.message(), {.cached = true});
}

OpenInputResult Opening::ChooseAuto(const OpenRules& rules) {
  if (IsResident()) {
    if (!options_.may_map) return Inline("in the page cache: read inline, not to be mapped");
    const bool is_mapped = FileMapping::IsMapped(stat_);
    if (!rules.may_map && !is_mapped) return Inline("in the page cache: read inline");
    OpenInputResult mapped =
        Mapped(is_mapped ? "in the page cache: mapped, as in the pass before"
                         : "in the page cache, and will be read again: mapped");
    if (mapped.status.ok()) return mapped;
    return Inline("in the page cache: read inline; " + mapped.status.message());
  }
  if (IsSmall()) {
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_WILLNEED);
    return Inline("cold, but small: read ahead by the kernel, then inline");
  }
  if (rules.may_load && rules.may_load(size())) return Loaded();
  const UringProbe probe = ProbeUring();
  if (probe.available) return Cold(IoPath::kUring, "cold: io_uring");
  Tell(LogLevel::kWarn, "io_uring",
       "cold files are read by a pool of threads, which takes more CPU time than io_uring: " +
           probe.reason);
  return Cold(IoPath::kPread, "cold: a pool of reading threads, because " + probe.reason);
}

OpenInputResult Opening::ChoosePread() {
  if (IsResident()) return Inline("asked for; in the page cache: read inline");
  return Cold(IoPath::kPread, "asked for; cold: a pool of reading threads");
}

OpenInputResult Opening::ChooseUring() {
  const UringProbe probe = ProbeUring();
  if (!probe.available) {
    const StatusCode code =
        probe.passes ? StatusCode::kResourceExhausted : StatusCode::kUnsupported;
    return {Refused(code, "io_uring was asked for, but " + probe.reason), nullptr};
  }
  return Cold(IoPath::kUring, "asked for: io_uring");
}

OpenInputResult Opening::ChooseMapped() {
  OpenInputResult mapped = Mapped("asked for");
  if (mapped.status.ok() || IsRefusal(mapped.status)) return mapped;
  return {
      Refused(StatusCode::kUnsupported, "a mapping was asked for, but " + mapped.status.message()),
      nullptr};
}

OpenInputResult Opening::Mapped(std::string reason) {
  Status status;
  std::shared_ptr<const FileMapping> mapping;
  if (size() > 0) {
    mapping = FileMapping::Open(descriptor_, stat_, &status);
    if (mapping == nullptr) return {status.WithPlace({name_, -1, -1}), nullptr};
  }
  auto file = std::make_unique<MappedInput>(name_, FileState::Of(stat_), std::move(mapping));
  file->Choose(
      {.file = name_, .path = IoPath::kMmap, .resident = true, .reason = std::move(reason)});
  return {{}, std::move(file)};
}

OpenInputResult Opening::Inline(std::string reason, ReadManner manner) {
  std::unique_ptr<DescriptorInput> file = HandOver();
  file->Choose(
      {.file = name_, .path = IoPath::kPread, .resident = true, .reason = std::move(reason)},
      manner);
  return {{}, std::move(file)};
}

OpenInputResult Opening::Loaded() {
  // LoadedInput reads ahead enough; the kernel's own read-ahead would only add to it.
  posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
  auto file = std::make_unique<LoadedInput>(name_, FileState::Of(stat_),
                                            std::exchange(descriptor_, -1), options_.retries);
  file->Choose({.file = name_,
                .path = IoPath::kPread,
                .reason = "cold, and will be read again: through the page cache, inline"},
               {});
  return {{}, std::move(file)};
}

OpenInputResult Opening::Cold(IoPath path, std::string reason) {
  std::uint32_t alignment = 0;
  std::string why_buffered = "not asked for";
  if (options_.direct) alignment = EnableDirect(descriptor_, &why_buffered);
  reason += alignment > 0 ? ", O_DIRECT" : ", buffered (O_DIRECT: " + why_buffered + ")";
  std::unique_ptr<DescriptorInput> file = HandOver();
  file->Choose({.file = name_, .path = path, .direct = alignment > 0, .reason = std::move(reason)},
               {.alignment = std::max(1u, alignment)});
  return {{}, std::move(file)};
}

// Opens the file and has `choose` make an input of it.
template <typename Choose>
OpenInputResult OpenedBy(const std::string& name, const IoOptions& options, const Choose& choose) {
  Opening opening(name, options);
  Status status = opening.Open();
  if (!status.ok()) return {std::move(status), nullptr};
  return choose(&opening);
}

}  // namespace

OpenInputResult OpenInput(const std::string& name, const IoOptions& options,
                          const OpenRules& rules) {
  return OpenedBy(name, options, [&](Opening* opening) { return opening->Choose(rules); });
}

OpenInputResult OpenSequentialInput(const std::string& name, const IoOptions& options,
                                    const std::string& reason) {
  return OpenedBy(name, options, [&](Opening* opening) { return opening->Sequential(reason); });
}

OpenInputResult OpenDirectInput(const std::string& name, const IoOptions& options,
                                const std::string& reason) {
  return OpenedBy(name, options, [&](Opening* opening) { return opening->Direct(reason); });
}

OpenInputResult OpenCachedInput(const std::string& name, const IoOptions& options,
                                std::uint64_t* loads) {
  return OpenedBy(name, options, [&](Opening* opening) { return opening->Cached(loads); });
}

OpenInputResult OpenInput(std::shared_ptr<Source> source) {
  if (source == nullptr) {
    return {Status(StatusCode::kInvalidArgument, "the source is a null pointer"), nullptr};
  }
  return {{}, std::make_unique<SourceInput>(std::move(source))};
}

std::string_view IoPathName(IoPath path) {
  switch (path) {
    case IoPath::kAuto:
      return "auto";
    case IoPath::kUring:
      return "uring";
    case IoPath::kPread:
      return "pread";
    case IoPath::kMmap:
      return "mmap";
    case IoPath::kHttp:
      return "http";
  }
  return "unknown";
}

}  // namespace ringfeed
