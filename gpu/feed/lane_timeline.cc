#include "gpu/feed/lane_timeline.h"

#include <utility>

#include "ringfeed/devices/timeline.h"

namespace ringfeed {

LaneTimeline::LaneTimeline(std::shared_ptr<DeviceBackend> backend,
                           std::shared_ptr<Timeline> timeline, std::size_t track)
    : backend_(std::move(backend)),
      timeline_(std::move(timeline)),
      track_(static_cast<int>(track)) {}

Status LaneTimeline::Open(int device, DeviceStream copy_stream) {
  return is_on() ? clock_.Open(backend_, device, copy_stream) : Status();
}

void LaneTimeline::Note(const char* what, std::uint64_t number, std::int64_t begin_ns) const {
  if (is_on()) timeline_->Add({what, track_, number, begin_ns, backend_->NowNanos()});
}

void LaneTimeline::NoteCopy(const DeviceSlot& slot) {
  if (!is_on()) return;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  const bool timed = clock_.At(slot.copy_begins, &begin_ns).ok() &&
                     clock_.At(slot.copied, &end_ns).ok() && begin_ns <= end_ns;
  // A lost device, or a fill that failed halfway, has no times.
  if (!timed) return Note("copy", slot.item.shown(), slot.copy_begin_ns);
  timeline_->Add({"copy", track_, slot.item.shown(), begin_ns, end_ns});
}

}  // namespace ringfeed
