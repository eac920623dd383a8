#include "base/memory/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/byte_size.h"
#include "base/log.h"
#include "base/memory/huge_pages.h"
#include "base/memory/memory_limit.h"
#include "base/memory/shadow_memory.h"
#include "base/memory/slab_bitmap.h"
#include "base/per_process.h"
#include "base/process_number.h"
#include "base/refuse.h"
#include "ringfeed/arena.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

constexpr std::size_t kLeastSlabBytes = std::size_t{64} << 10;

std::size_t RoundUp(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

std::size_t ArenaBytesOf(const char* text) {
  const std::optional<std::size_t> bytes = ParseByteSize(text);
  if (bytes && *bytes > 0 && *bytes <= ~std::size_t{0} >> 8) return *bytes;
  Refuse("RINGFEED_ARENA_BYTES is \"" + std::string(text) +
         "\": give bytes, or a number with K, MiB, G, … after it");
}

ArenaOptions Checked(ArenaOptions options) {
  if (!std::has_single_bit(options.slab_bytes) || options.slab_bytes < kLeastSlabBytes) {
    Refuse("slab_bytes must be a power of two of at least 65536, not " +
           std::to_string(options.slab_bytes));
  }
  if (options.bytes == 0) options.bytes = FindMemoryLimit().bytes / 4;
  options.bytes = RoundUp(options.bytes, std::max(options.slab_bytes, kHugePageBytes));
  return options;
}

/// An inaccessible page on either side keeps the range a mapping of its own (what smaps says of it
/// is then about it alone) and stops writes that run out of it.
constexpr std::size_t kGuardBytes = 65536;  // a page on every machine

std::byte* ReserveRange(std::size_t bytes, bool huge_pages) {
  const std::size_t all = bytes + kHugePageBytes + 2 * kGuardBytes;
  void* const reserved =
      mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const int error = errno;
  if (reserved == MAP_FAILED) {
    Refuse(StatusCode::kResourceExhausted,
           StatusFromErrno(error, "reserving " + std::to_string(bytes) + " bytes").message() +
               "; set RINGFEED_ARENA_BYTES to less or raise the limit (ulimit -v)");
  }
  auto* const begin = static_cast<std::byte*>(reserved);
  const auto address = reinterpret_cast<std::uintptr_t>(begin) + kGuardBytes;
  std::byte* const data = begin + kGuardBytes + (RoundUp(address, kHugePageBytes) - address);
  if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) {
    const int protect_error = errno;
    munmap(reserved, all);
    Refuse(StatusCode::kResourceExhausted,
           StatusFromErrno(protect_error, "an arena of " + std::to_string(bytes) + " bytes")
                   .message() +
               "; set RINGFEED_ARENA_BYTES to less than the memory that is left");
  }
  const auto before = static_cast<std::size_t>(data - kGuardBytes - begin);
  if (before > 0) munmap(begin, before);
  std::byte* const behind = data + bytes + kGuardBytes;
  munmap(behind, static_cast<std::size_t>(begin + all - behind));
  // Advice: what came of it is verified in Report.
  if (huge_pages) madvise(data, bytes, MADV_HUGEPAGE);
  // A child of fork must not share pages that a device or the kernel writes to.
  madvise(data, bytes, MADV_DONTFORK);
  return data;
}

void TellSmallPages(const std::string& why) {
  Tell(LogLevel::kWarn, "small pages",
       "the pinned memory is in pages of 4 KiB, which cost time: " + why);
}

/// The arenas of the process, by their start.
struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, std::weak_ptr<Arena>> arenas;
};
Registry& AllArenas() {
  static constinit PerProcess<Registry> registry;  // never destroyed: arenas may be later still
  return registry.Get();
}

}  // namespace

struct Arena::Impl {
  Impl(const ArenaOptions& arena_options, std::byte* range, std::function<void()> returns = {})
      : options(arena_options),
        data(range),
        give_back(std::move(returns)),
        owner(ProcessNumber()),
        bitmap(arena_options.bytes / arena_options.slab_bytes) {}

  /// Pieces of a power of two up to a huge page begin at a multiple of their size, so that none
  /// crosses a huge page. Larger runs of whole huge pages begin at one.
  std::size_t AlignOf(std::size_t slabs) const {
    const std::size_t per_huge_page = std::max<std::size_t>(1, kHugePageBytes / options.slab_bytes);
    if (std::has_single_bit(slabs)) return std::min(slabs, per_huge_page);
    return slabs % per_huge_page == 0 ? per_huge_page : 1;
  }

  void GiveBack(std::size_t first, std::size_t slabs) {
    const std::lock_guard lock(mutex);
    if (bitmap.Give(first, slabs)) return;
    // Going on would let two users write to the same memory.
    std::fprintf(stderr, "ringfeed: arena memory freed twice\n");
    std::abort();
  }

  /// How many of the `populated` bytes are in huge pages. To tell, the kernel looks at every page
  /// of the process: we measured 30 ms for each GiB of small pages, and no thread can map memory
  /// meanwhile. So it is asked again only after more has been populated.
  std::size_t HugeBytes(std::size_t populated) {
    const std::lock_guard lock(huge_mutex);
    if (populated != huge_of) huge_bytes = HugeBytesIn(data, options.bytes);
    huge_of = populated;
    return huge_bytes;
  }

  const ArenaOptions options;
  std::byte* const data;
  const std::function<void()> give_back;  ///< of a range that is not this arena's own; else empty
  const std::uint64_t owner;
  std::optional<PagePopulator> populator;  ///< of its own range

  std::mutex mutex;  // guards what follows
  SlabBitmap bitmap;
  std::size_t peak_slabs = 0;
  std::size_t reserved_bytes = 0;
  std::map<std::uint64_t, std::function<void()>> at_end;
  std::uint64_t at_end_numbers = 0;

  std::mutex huge_mutex;  // guards what follows
  std::size_t huge_of = 0;
  std::size_t huge_bytes = 0;
};

Arena::Arena(const ArenaOptions& options) {
  const ArenaOptions checked = Checked(options);
  impl_ = std::make_unique<Impl>(checked, ReserveRange(checked.bytes, checked.huge_pages));
  impl_->populator.emplace(impl_->data, checked.bytes);
}

Arena::Arena(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Arena::~Arena() {
  if (impl_->owner != ProcessNumber()) {
    // A child of fork has neither the range nor the thread that would have to be joined.
    static_cast<void>(impl_.release());
    return;
  }
  for (const auto& [number, function] : impl_->at_end) function();
  std::byte* const data = impl_->data;
  const std::size_t bytes = impl_->options.bytes;
  const std::function<void()> give_back = impl_->give_back;
  impl_.reset();
  AllowUse(data, bytes);  // others may be mapped there
  if (give_back) {
    give_back();
    return;
  }
  munmap(data - kGuardBytes, bytes + 2 * kGuardBytes);
}

std::shared_ptr<Arena> Arena::Create(const ArenaOptions& options) {
  std::shared_ptr<Arena> arena(new Arena(options));
  const std::string why = options.huge_pages ? WhyNoHugePages() : "";
  if (!why.empty()) TellSmallPages(why);
  Registry& registry = AllArenas();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.arenas, [](const auto& entry) { return entry.second.expired(); });
  registry.arenas[arena->data()] = arena;
  return arena;
}

std::shared_ptr<Arena> Arena::Over(std::byte* data, std::size_t bytes,
                                   std::function<void()> give_back) {
  ArenaOptions options;
  options.slab_bytes = kLeastSlabBytes;
  options.bytes = bytes / options.slab_bytes * options.slab_bytes;
  options.huge_pages = false;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % options.slab_bytes == 0;
  if (options.bytes == 0 || !aligned) Refuse("an arena over no slab");
  return std::shared_ptr<Arena>(
      new Arena(std::make_unique<Impl>(options, data, std::move(give_back))));
}

std::shared_ptr<Arena> Arena::Containing(const std::byte* address) {
  Registry& registry = AllArenas();
  const std::lock_guard lock(registry.mutex);
  const auto behind = registry.arenas.upper_bound(address);
  if (behind == registry.arenas.begin()) return nullptr;
  std::shared_ptr<Arena> arena = std::prev(behind)->second.lock();
  const bool inside = arena != nullptr && address < arena->data() + arena->bytes();
  return inside ? arena : nullptr;
}

std::shared_ptr<Arena> Arena::Default() {
  struct DefaultArena {
    std::mutex mutex;  // guards what follows
    std::shared_ptr<Arena> arena;
  };
  // Never destroyed: other static objects may still hold memory of it.
  static constinit PerProcess<DefaultArena> of_process;
  DefaultArena& own = of_process.Get();
  const std::lock_guard lock(own.mutex);
  if (own.arena == nullptr) {
    ArenaOptions options;
    if (const char* bytes = std::getenv("RINGFEED_ARENA_BYTES"); bytes != nullptr && *bytes != 0) {
      options.bytes = ArenaBytesOf(bytes);
    }
    own.arena = Create(options);
  }
  return own.arena;
}

SlabRun Arena::Allocate(std::size_t bytes, const std::byte* hint) {
  if (bytes == 0 || bytes > impl_->options.bytes) return {};
  const std::size_t slab_bytes = impl_->options.slab_bytes;
  const std::size_t slabs = RoundUp(bytes, slab_bytes) / slab_bytes;
  std::size_t first = SlabBitmap::kNone;
  {
    const std::lock_guard lock(impl_->mutex);
    const std::size_t align = impl_->AlignOf(slabs);
    const std::size_t hinted =
        hint == nullptr ? 0 : static_cast<std::size_t>(hint - impl_->data) / slab_bytes;
    const bool at_hint = hint != nullptr && impl_->bitmap.TakeAt(hinted, slabs);
    first = at_hint ? hinted : impl_->bitmap.Take(slabs, align);
    if (first == SlabBitmap::kNone && align > 1) first = impl_->bitmap.Take(slabs, 1);
    impl_->peak_slabs = std::max(impl_->peak_slabs, impl_->bitmap.taken());
  }
  if (first == SlabBitmap::kNone) return {};
  if (impl_->populator) impl_->populator->Require(first * slab_bytes, slabs * slab_bytes);
  const SlabRun run{impl_->data + first * slab_bytes, slabs * slab_bytes};
  AllowUse(run.data, run.bytes);
  return run;
}

bool Arena::Extend(SlabRun* run, std::size_t bytes) {
  if (bytes <= run->bytes) return true;
  if (bytes > impl_->options.bytes) return false;
  const std::size_t more = RoundUp(bytes, impl_->options.slab_bytes) - run->bytes;
  std::byte* const behind = run->data + run->bytes;
  const auto offset = static_cast<std::size_t>(behind - impl_->data);
  {
    const std::lock_guard lock(impl_->mutex);
    const std::size_t slab_bytes = impl_->options.slab_bytes;
    if (!impl_->bitmap.TakeAt(offset / slab_bytes, more / slab_bytes)) return false;
    impl_->peak_slabs = std::max(impl_->peak_slabs, impl_->bitmap.taken());
  }
  if (impl_->populator) impl_->populator->Require(offset, more);
  AllowUse(behind, more);
  run->bytes += more;
  return true;
}

void Arena::Free(SlabRun run) {
  if (run.data == nullptr) return;
  ForbidUse(run.data, run.bytes);
  const std::size_t slab_bytes = impl_->options.slab_bytes;
  impl_->GiveBack(static_cast<std::size_t>(run.data - impl_->data) / slab_bytes,
                  run.bytes / slab_bytes);
}

SlabRun Arena::Trim(SlabRun run, std::size_t keep_bytes) {
  const std::size_t keep = RoundUp(keep_bytes, impl_->options.slab_bytes);
  if (keep >= run.bytes) return run;
  Free({run.data + keep, run.bytes - keep});
  return keep == 0 ? SlabRun{} : SlabRun{run.data, keep};
}

std::byte* Arena::data() const { return impl_->data; }
std::size_t Arena::bytes() const { return impl_->options.bytes; }
std::size_t Arena::slab_bytes() const { return impl_->options.slab_bytes; }

std::uint64_t Arena::CallAtEnd(std::function<void()> function) {
  const std::lock_guard lock(impl_->mutex);
  const std::uint64_t number = impl_->at_end_numbers++;
  impl_->at_end.emplace(number, std::move(function));
  return number;
}

void Arena::CancelAtEnd(std::uint64_t number) {
  std::function<void()> dropped;  // destroyed after the unlock: it may own anything
  const std::lock_guard lock(impl_->mutex);
  const auto found = impl_->at_end.find(number);
  if (found == impl_->at_end.end()) return;
  dropped = std::move(found->second);
  impl_->at_end.erase(found);
}

ArenaReport Arena::Report() const {
  ArenaReport report;
  report.bytes = impl_->options.bytes;
  if (impl_->populator) {
    report.populated_bytes = impl_->populator->populated_bytes();
    report.huge_bytes = impl_->HugeBytes(report.populated_bytes);
  }
  {
    const std::lock_guard lock(impl_->mutex);
    report.in_use_bytes = impl_->bitmap.taken() * impl_->options.slab_bytes;
    report.peak_in_use_bytes = impl_->peak_slabs * impl_->options.slab_bytes;
  }
  // A piece that is being faulted in at this moment may be in only one of the two counts.
  if (!impl_->populator) {
    report.pages = "not host memory";
  } else if (report.huge_bytes > 0 &&
             report.huge_bytes + kHugePageBytes >= report.populated_bytes) {
    report.pages = "huge";
  } else if (report.populated_bytes == 0) {
    report.pages = "4 KiB: nothing is populated yet";
  } else if (!impl_->options.huge_pages) {
    report.pages = "4 KiB: huge pages were not asked for";
  } else {
    std::string why = WhyNoHugePages();
    if (why.empty()) {
      why = "the kernel found no free huge pages (fragmented memory or a cgroup limit)";
      TellSmallPages(why);
    }
    report.pages = "4 KiB: " + why + "; " + std::to_string(report.huge_bytes >> 20) + " of " +
                   std::to_string(report.populated_bytes >> 20) + " MiB are huge";
  }
  return report;
}

ArenaUse Arena::Use() const {
  const std::lock_guard lock(impl_->mutex);
  return {impl_->options.bytes, impl_->bitmap.taken() * impl_->options.slab_bytes,
          impl_->peak_slabs * impl_->options.slab_bytes};
}

bool Arena::ReserveQuota(std::size_t bytes) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (bytes > impl_->options.bytes - impl_->reserved_bytes) return false;
    impl_->reserved_bytes += bytes;
  }
  if (impl_->populator) impl_->populator->WarmUp();
  return true;
}

void Arena::ReleaseQuota(std::size_t bytes) {
  const std::lock_guard lock(impl_->mutex);
  impl_->reserved_bytes -= std::min(bytes, impl_->reserved_bytes);
}

std::size_t Arena::unreserved_bytes() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->options.bytes - impl_->reserved_bytes;
}

PinnedArena::PinnedArena(std::size_t bytes, bool huge_pages)
    : arena_(Arena::Create({.bytes = bytes, .huge_pages = huge_pages})) {}

}  // namespace ringfeed
