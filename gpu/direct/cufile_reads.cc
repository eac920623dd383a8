#include "gpu/direct/cufile_reads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>

#include "base/machine/thread_start.h"
#include "base/scoped_descriptor.h"
#include "base/user_call.h"
#include "io/read_progress.h"
#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSlabAlignment = std::size_t{64} << 10;
constexpr std::size_t kBounceBytes = std::size_t{1} << 20;
/// After so many failures of cuFile in a row it is not called any more.
constexpr int kMostRefused = 64;

/// Runs it in a thread that is bound to the device, so that no other thread's work is disturbed.
Status OnDevice(DeviceBackend* backend, int device, const std::function<Status()>& function) {
  Status status;
  try {
    StartThread("a thread of the device", [&] {
      try {
        status = backend->BindThread(device);
        if (status.ok()) status = function();
      } catch (...) {
        status = StatusOfThrown("the device cannot be used");
      }
    }).join();
  } catch (const Error& error) {
    return error.status();
  }
  return status;
}

/// Whether this machine may have direct reads. Finding out for certain takes half a second, to open
/// the driver.
bool MayBeDirect() {
  if (access("/proc/driver/nvidia-fs", F_OK) == 0 || access("/sys/module/nvidia_fs", F_OK) == 0) {
    return true;
  }
  const char* const named = std::getenv("CUFILE_ENV_PATH_JSON");
  std::ifstream file(named != nullptr ? named : "/etc/cufile.json");
  std::string text(std::size_t{1} << 20, '\0');
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
  return text.find("\"use_pci_p2pdma\":true") != std::string::npos;
}

/// Opens it with O_DIRECT, if the file's system has that; -1 and errno.
int OpenForCuFile(const std::string& name) {
  const int number = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (number >= 0 || errno != EINVAL) return number;
  return open(name.c_str(), O_RDONLY | O_CLOEXEC);
}

std::uint64_t SizeNow(int descriptor) {
  struct stat facts {};
  return fstat(descriptor, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

}  // namespace

/// A file's registration, which ends before its descriptor is closed.
struct CuFileReads::File {
  File(std::shared_ptr<CuFileLibrary> its_library, cufile::Handle its_handle)
      : library(std::move(its_library)), handle(its_handle) {}
  ~File() { library->api().handle_deregister(handle); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::shared_ptr<CuFileLibrary> library;
  const cufile::Handle handle;
};

/// An allocation and its slabs. It ends with this object and the last run that uses it.
struct CuFileReads::Memory {
  /// What the arena frees when it ends.
  struct Allocation {
    std::shared_ptr<DeviceBackend> backend;
    std::shared_ptr<CuFileLibrary> library;
    int device = 0;
    std::byte* data = nullptr;
    std::byte* registered = nullptr;  ///< with cuFile; null if that failed

    void GiveBack() const {
      // If the device is lost, its memory is gone.
      (void)OnDevice(backend.get(), device, [this] {
        if (registered != nullptr) (void)library->api().buffer_deregister(registered);
        return Status();
      });
      (void)backend->FreeDevice(device, data);
    }
  };

  /// Registers it with cuFile if that is possible: reads into it are then faster.
  void Register() const {
    if (allocation->registered != nullptr) return;
    const auto& api = allocation->library->api();
    if (api.buffer_register(arena->data(), arena->bytes(), 0).error != 0) return;
    allocation->registered = arena->data();
  }
  bool IsUsed() const { return arena.use_count() > 1; }

  std::shared_ptr<Allocation> allocation;
  std::shared_ptr<Arena> arena;
};

CuFileReads::CuFileReads(const Options& options)
    : backend_(options.backend),
      device_(options.device),
      only_where_it_pays_(options.only_where_it_pays),
      library_(options.library) {}

CuFileReads::~CuFileReads() {
  if (stream_) {
    (void)OnDevice(backend_.get(), device_, [this] { return backend_->DestroyStream(stream_); });
  }
  if (registered_) (void)backend_->UnregisterHost(bounce_.data);
}

void CuFileReads::NoteUnfit(const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_not_ = why;
}

std::string CuFileReads::WhyNotHere(const DirectNeed& need) {
  const bool named = library_ != nullptr ? library_->named() : CuFileLibrary::IsNamed();
  const auto* const emulated = dynamic_cast<const EmulatedDevices*>(backend_.get());
  if (emulated != nullptr && emulated->simulated()) return "a simulator has one thread";
  if (only_where_it_pays_ && need.record_bytes < kShortRecordBytes) {
    return "records of " + std::to_string(need.record_bytes) + " bytes are too short to gain by it";
  }
  if (emulated != nullptr && !named) {
    return "cuFile does not know emulated devices (RINGFEED_CUFILE names a library that does)";
  }
  if (only_where_it_pays_ && !named && !MayBeDirect()) {
    return "no GPUDirect here: neither nvidia-fs is loaded nor does cufile.json say use_pci_p2pdma";
  }
  const std::lock_guard lock(mutex_);
  if (library_ == nullptr) library_ = CuFileLibrary::Of();
  return library_->why_not();
}

Status CuFileReads::TakeMemory(std::size_t bytes, std::shared_ptr<Memory>* memory) {
  std::vector<std::shared_ptr<Memory>> too_small;  // given back outside of the lock
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < memories_.size() && *memory == nullptr;) {
      if (memories_[i]->IsUsed()) {
        ++i;
      } else if (memories_[i]->arena->bytes() >= bytes) {
        *memory = memories_[i];
      } else {
        too_small.push_back(std::move(memories_[i]));
        memories_.erase(memories_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
  if (*memory != nullptr) return {};
  too_small.clear();
  auto allocation = std::make_shared<Memory::Allocation>();
  allocation->backend = backend_;
  allocation->library = library_;
  allocation->device = device_;
  const std::size_t all = (bytes / kSlabAlignment + 2) * kSlabAlignment;
  Status status = backend_->AllocDevice(device_, all, &allocation->data);
  if (!status.ok()) return status;
  const auto address = reinterpret_cast<std::uintptr_t>(allocation->data);
  const std::size_t before = (kSlabAlignment - address % kSlabAlignment) % kSlabAlignment;
  *memory = std::make_shared<Memory>();
  (*memory)->allocation = allocation;
  (*memory)->arena = Arena::Over(allocation->data + before, all - kSlabAlignment,
                                 [allocation] { allocation->GiveBack(); });
  const std::lock_guard lock(mutex_);
  if (!closed_) memories_.push_back(*memory);
  return {};
}

Status CuFileReads::MakeBounce() {
  const std::lock_guard lock(bounce_mutex_);
  if (stream_) return {};
  Status status = backend_->LoadKernels(device_);
  if (!status.ok()) return status;
  if (bounce_arena_ == nullptr) {
    bounce_arena_ = Arena::Create({.bytes = 2 * kBounceBytes});
    bounce_ = bounce_arena_->Allocate(kBounceBytes);
    // If this fails, copies from there block; they are waited for anyway.
    registered_ = backend_->RegisterHost(bounce_.data, bounce_.bytes).ok();
  }
  return backend_->CreateStream(device_, StreamPriority::kHigh, &stream_);
}

Status CuFileReads::RegisterFile(int descriptor, std::shared_ptr<const File>* file) const {
  cufile::Descriptor what;
  what.of.descriptor = descriptor;
  cufile::Handle handle = nullptr;
  const Status status =
      CuFileFailure("cuFileHandleRegister", library_->api().handle_register(&handle, &what));
  if (status.ok()) *file = std::make_shared<const File>(library_, handle);
  return status;
}

Status CuFileReads::TryRead(int descriptor, Arena* arena) const {
  std::shared_ptr<const File> file;
  Status status = RegisterFile(descriptor, &file);
  if (!status.ok()) return status;
  const std::uint64_t size = SizeNow(descriptor);
  if (size <= kPage) return {};  // it has only a last page
  const SlabRun run = arena->Allocate(kPage);
  const ssize_t got =
      library_->api().read(file->handle, arena->data(), kPage, 0, run.data - arena->data());
  const int error = errno;
  arena->Free(run);
  if (got < 0) return CuFileReadFailure(got, error);
  if (got == kPage) return {};
  return Status(StatusCode::kUnsupported, "cuFileRead gave " + std::to_string(got) + " of 4096");
}

Status CuFileReads::TryBegin(const DirectNeed& need, std::shared_ptr<Arena>* arena) {
  const ScopedDescriptor first(OpenForCuFile(need.file));
  if (first.get() < 0) return StatusFromErrno(errno, need.file);
  std::shared_ptr<Memory> memory;
  Status status = MakeBounce();
  if (status.ok()) status = TakeMemory(need.memory_bytes, &memory);
  if (!status.ok()) return status;
  status = library_->OpenDriver(only_where_it_pays_,
                                [&] { return TryRead(first.get(), memory->arena.get()); });
  if (!status.ok()) {
    const std::lock_guard lock(mutex_);
    std::erase(memories_, memory);
    return status;
  }
  memory->Register();
  *arena = memory->arena;
  return {};
}

std::shared_ptr<Arena> CuFileReads::Begin(const DirectNeed& need) {
  std::shared_ptr<Arena> arena;
  std::string why_not = WhyNotHere(need);
  if (why_not.empty()) {
    const std::lock_guard lock(mutex_);
    if (closed_) why_not = "the feed was closed";
  }
  if (why_not.empty()) {
    const Status status = OnDevice(backend_.get(), device_, [&] { return TryBegin(need, &arena); });
    if (!status.ok()) why_not = status.ToString();
  }
  const std::lock_guard lock(mutex_);
  why_not_ = why_not;
  std::erase_if(arenas_, [](const auto& each) { return each.expired(); });
  if (arena == nullptr) return nullptr;
  arenas_.push_back(arena);
  return arena;
}

void CuFileReads::Open(InputFile* file) {
  std::shared_ptr<const File> registered;
  const Status status = OnDevice(backend_.get(), device_,
                                 [&] { return RegisterFile(file->descriptor(), &registered); });
  if (status.ok()) return file->Attach(std::move(registered));
  const std::lock_guard lock(mutex_);
  if (refused_.empty()) refused_ = status.ToString();
}

std::byte* CuFileReads::BaseOf(const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  for (const auto& each : arenas_) {
    const std::shared_ptr<Arena> arena = each.lock();
    if (arena == nullptr) continue;
    const bool inside = !std::less<>()(address, arena->data()) &&
                        std::less<>()(address, arena->data() + arena->bytes());
    if (inside) return arena->data();
  }
  return nullptr;
}

void CuFileReads::NoteRefused(const Status& why) {
  NoteRefusedRead();
  refused_in_a_row_.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  if (refused_.empty()) refused_ = why.ToString();
}

std::int64_t CuFileReads::ReadByHost(int descriptor, std::uint64_t offset, std::byte* to,
                                     std::size_t bytes, Status* failure) {
  const std::lock_guard lock(bounce_mutex_);
  const ssize_t got =
      pread(descriptor, bounce_.data, std::min(bytes, kBounceBytes), static_cast<off_t>(offset));
  if (got < 0) return -errno;
  if (got == 0) return 0;
  *failure = backend_->CopyToDevice(stream_, to, bounce_.data, static_cast<std::size_t>(got));
  if (failure->ok()) *failure = backend_->SyncStream(stream_);
  return got;
}

std::int64_t CuFileReads::ReadSome(const ReadRequest& request, std::uint64_t offset, std::byte* to,
                                   std::size_t bytes, Status* failure) {
  const int descriptor = request.file->descriptor();
  const auto* const file = static_cast<const File*>(request.file->attached());
  const std::uint64_t page = std::max<std::uint64_t>(kPage, request.file->alignment());
  const std::uint64_t size = std::min(request.file->size(), SizeNow(descriptor));
  const std::uint64_t last = size == 0 ? 0 : (size - 1) / page * page;
  const bool may_ask = refused_in_a_row_.load(std::memory_order_relaxed) < kMostRefused;
  std::byte* const base = BaseOf(to);
  if (offset >= last) return ReadByHost(descriptor, offset, to, bytes, failure);
  if (file == nullptr || !may_ask || base == nullptr) {
    NoteRefusedRead();
    return ReadByHost(descriptor, offset, to, bytes, failure);
  }
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, last - offset));
  const ssize_t got =
      library_->api().read(file->handle, base, most, static_cast<off_t>(offset), to - base);
  const int error = errno;
  if (got > 0 && static_cast<std::size_t>(got) <= most) {
    reads_.fetch_add(1, std::memory_order_relaxed);
    refused_in_a_row_.store(0, std::memory_order_relaxed);
    return got;
  }
  // The host's read tells whether the medium or the file's end is the cause. If it succeeds, the
  // fault is cuFile's.
  const std::int64_t by_host = ReadByHost(descriptor, offset, to, bytes, failure);
  if (by_host > 0) {
    NoteRefused(got < 0 ? CuFileReadFailure(got, error)
                        : Status(StatusCode::kUnsupported, "cuFileRead gave " +
                                                               std::to_string(got) + " of " +
                                                               std::to_string(most) + " bytes"));
  }
  return by_host;
}

void CuFileReads::Read(ReadRequest* request, int retries, ReadEngineStats* stats) {
  ReadProgress progress(request, retries);
  ReadProgress::Next next = progress.Begin();
  Status failure = backend_->BindThread(device_);
  while (failure.ok() && next != ReadProgress::Next::kDone) {
    if (next == ReadProgress::Next::kBackOff) std::this_thread::sleep_for(progress.back_off());
    const std::int64_t result =
        ReadSome(*request, progress.offset(), progress.buffer(), progress.bytes(), &failure);
    ++stats->enters;
    if (failure.ok()) next = progress.OnResult(result);
  }
  if (failure.ok()) return progress.AddTo(stats);
  ++stats->failures;
  // This is no fault of the data, so nothing may be skipped because of it.
  request->got = 0;
  request->status =
      Status(StatusCode::kResourceExhausted,
             "device " + std::to_string(device_) + " takes no reads: " + failure.ToString());
}

// Uses memory of its own: a feed may have registered a part of the batch, and no copy may cross the
// end of a registration.
Status CuFileReads::CopyToHost(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::lock_guard lock(bounce_mutex_);
  Status status;
  for (std::size_t done = 0; done < bytes && status.ok();) {
    const std::size_t part = std::min(bytes - done, kBounceBytes);
    status = backend_->CopyToHost(stream_, bounce_.data, from + done, part);
    if (status.ok()) status = backend_->SyncStream(stream_);
    if (status.ok()) std::memcpy(to + done, bounce_.data, part);
    done += part;
  }
  return status;
}

void CuFileReads::Close() {
  std::vector<std::shared_ptr<Memory>> memories;  // given back outside of the lock
  const std::lock_guard lock(mutex_);
  closed_ = true;
  memories.swap(memories_);
}

std::string CuFileReads::Describe() const {
  const std::lock_guard lock(mutex_);
  if (!why_not_.empty()) return "not read directly: " + why_not_;
  std::string text(CuFilePathName(library_->path()));
  const std::uint64_t refused = refused_reads_.load(std::memory_order_relaxed);
  if (refused == 0) return text;
  return text + "; " + std::to_string(refused) + " of " +
         std::to_string(refused + reads_.load(std::memory_order_relaxed)) +
         " reads by the host's pread and a copy, as cuFile failed: " + refused_;
}

}  // namespace ringfeed
