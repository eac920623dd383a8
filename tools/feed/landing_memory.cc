#include "tools/feed/landing_memory.h"

#include <new>
#include <utility>

#include "tools/report.h"

namespace ringfeed::tools {

Status LandingMemory::Grow(std::size_t bytes) {
  if (bytes <= this->bytes()) return {};
  GiveBack();
  // Ragged batches differ: takes a quarter more, if there is so much.
  if (TakeRun(bytes + bytes / 4) || TakeRun(bytes)) {
    PinRun();
    return {};
  }
  heap_.reset(new (std::nothrow) std::byte[bytes]);
  if (heap_ == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  "no " + BytesText(bytes) +
                      " of memory for what is copied back from a device: lower --batch");
  }
  heap_bytes_ = bytes;
  unpinned_reason_ = "of the arena " + BytesText(arena_->unreserved_bytes()) +
                     " were free, of which half are the readers'; raise RINGFEED_ARENA_BYTES";
  return {};
}

bool LandingMemory::TakeRun(std::size_t bytes) {
  const std::size_t slab = arena_->slab_bytes();
  const std::size_t wanted = (bytes + slab - 1) / slab * slab;
  if (wanted > arena_->unreserved_bytes() / 2 || !arena_->ReserveQuota(wanted)) return false;
  run_ = arena_->Allocate(wanted);  // of whole slabs: as long as the reserved memory
  if (!run_) arena_->ReleaseQuota(wanted);
  return static_cast<bool>(run_);
}

void LandingMemory::PinRun() {
  for (std::size_t done = 0; done < run_.bytes;) {
    const HostPins::Part part = pins_->Pin(run_.data + done, run_.bytes - done);
    if (!part.pinned) unpinned_reason_ = pins_->failure();
    done += part.bytes;
  }
}

void LandingMemory::GiveBack() {
  heap_.reset();
  heap_bytes_ = 0;
  unpinned_reason_.clear();
  if (!run_) return;
  const SlabRun run = std::exchange(run_, {});
  arena_->Free(run);
  arena_->ReleaseQuota(run.bytes);
}

}  // namespace ringfeed::tools
