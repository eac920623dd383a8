#include "tools/feed/device_loop.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/user_call.h"
#include "ringfeed/devices/emulated_devices.h"
#include "tools/feed/device_deliveries.h"
#include "tools/feed/hashing_parser.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kStepsAhead = 2;
constexpr std::int64_t kPollNs = 50'000;
constexpr std::size_t kCopyAlign = 256;

// The feed failed this wait, not the device: see DeviceFeed::TryNext.
bool MayGoOn(const Status& status) {
  return status.code() == StatusCode::kDeadlineExceeded ||
         status.code() == StatusCode::kResourceExhausted;
}

// Emulated devices note a loop that blocks on them.
void SetHotPath(DeviceBackend* backend, bool hot) {
  if (auto* const emulated = dynamic_cast<EmulatedDevices*>(backend)) emulated->SetHotPath(hot);
}

using Stretch = std::pair<std::int64_t, std::int64_t>;

// In order; a stream's spans do not overlap each other.
std::vector<Stretch> StretchesOf(std::span<const TimeSpan> spans, int track,
                                 std::string_view what) {
  std::vector<Stretch> stretches;
  for (const TimeSpan& span : spans) {
    if (span.track == track && span.what == what) {
      stretches.emplace_back(span.begin_ns, span.end_ns);
    }
  }
  std::sort(stretches.begin(), stretches.end());
  return stretches;
}

}  // namespace

DeviceLoop::DeviceLoop(FeedCore* feed, Timeline* timeline, Options options, Deliver deliver)
    : feed_(feed),
      backend_(feed->options().backend),
      timeline_(timeline),
      options_(options),
      deliver_(std::move(deliver)) {}

void DeviceLoop::Close() {
  for (const DeviceStream stream : {compute_stream_, look_stream_}) {
    if (stream && (!running_.empty() || half_enqueued_)) (void)backend_->SyncStream(stream);
  }
  for (const auto& step : all_) {
    for (const DeviceEvent event : {step->ready, step->end, step->looked}) {
      if (event) (void)backend_->DestroyEvent(event);
    }
    step->landing.reset();
  }
  if (pins_ != nullptr) backend_->NoteHandOver(pins_->token());
  pins_.reset();
  clock_.Close();
  for (const DeviceStream stream : {compute_stream_, look_stream_}) {
    if (stream) (void)backend_->DestroyStream(stream);
  }
}

Status DeviceLoop::Open() {
  const int device = options_.device;
  Status status = backend_->BindThread(device);
  if (options_.copy_back != CopyBack::kNothing) pins_ = HostPins::Of(backend_, {});  // the feed's
  for (DeviceStream* const stream : {&compute_stream_, &look_stream_}) {
    if (status.ok()) status = backend_->CreateStream(device, StreamPriority::kNormal, stream);
  }
  while (status.ok() && all_.size() < kStepsAhead) {
    Step* const step = all_.emplace_back(std::make_unique<Step>()).get();
    for (DeviceEvent* const event : {&step->ready, &step->end}) {
      if (status.ok()) status = backend_->CreateEvent(device, EventKind::kTimed, event);
    }
    if (status.ok()) status = backend_->CreateEvent(device, EventKind::kPlain, &step->looked);
    if (options_.copy_back != CopyBack::kNothing) {
      step->landing = std::make_unique<LandingMemory>(
          options_.arena != nullptr ? options_.arena : Arena::Default(), pins_);
    }
    idle_.push_back(step);
  }
  if (status.ok()) status = clock_.Open(backend_, device, compute_stream_);
  times_.begin_ns = times_.end_ns = clock_.start_ns();
  return status;
}

// This is a thread's whole work, so an exception, by the device or for lack of memory, ends here.
Status DeviceLoop::Run() {
  Status status;
  try {
    status = Open();
    if (status.ok()) status = LoopAndFinish();
  } catch (...) {
    status = StatusOfThrown("a device's loop failed");
  }
  Close();
  return status;
}

Status DeviceLoop::LoopAndFinish() {
  SetHotPath(backend_.get(), true);
  Status status = Loop();
  const Status finished = FinishAll();
  const bool cancelled = status.code() == StatusCode::kCancelled;
  if (!finished.ok() && (status.ok() || cancelled)) status = finished;
  SetHotPath(backend_.get(), false);
  return status;
}

Status DeviceLoop::FinishAll() {
  Status status;
  while (!running_.empty() && status.ok()) status = FinishOldest();
  return status;
}

Status DeviceLoop::Loop() {
  Status status;
  while (status.ok()) {
    if (idle_.empty()) status = FinishOldest();
    if (!status.ok()) break;
    DeviceLease lease;
    const ReadResult result = feed_->TryNext(options_.lane, &lease, &status);
    if (result != ReadResult::kRecord) {
      feed_ended_ = !MayGoOn(status);
      break;
    }
    try {
      status = Enqueue(&lease, idle_.front());
    } catch (const Error& error) {
      status = error.status();
    }
    half_enqueued_ = !status.ok();
    if (half_enqueued_) break;
    running_.push_back(idle_.front());
    idle_.pop_front();
  }
  return status;
}

Status DeviceLoop::Enqueue(DeviceLease* lease, Step* step) {
  step->delivery = {};
  step->delivery.number = lease->number();
  const std::span<const Tensor> tensors = lease->On(compute_stream_);
  Status status = backend_->Record(step->ready, compute_stream_);
  if (status.ok() && options_.step_ns > 0) {
    status = backend_->Busy(compute_stream_, options_.step_ns);
  }
  if (status.ok()) status = backend_->Record(step->end, compute_stream_);
  const std::uint64_t valid_rows = lease->valid_rows();
  // All rows of a batch if its last field, the hashes, has other rows than the first.
  const bool whole = valid_rows == lease->rows();
  step->delivery.records = whole && !tensors.empty() ? RowsOfTensor(tensors.back()) : valid_rows;
  if (status.ok() && options_.copy_back != CopyBack::kNothing) {
    (void)lease->On(look_stream_);
    status = EnqueueCopies(tensors, valid_rows, step);
    if (status.ok()) status = backend_->Record(step->looked, look_stream_);
  }
  lease->Release();
  return status;
}

Status DeviceLoop::EnqueueCopies(std::span<const Tensor> tensors, std::uint64_t valid_rows,
                                 Step* step) {
  if (options_.copy_back == CopyBack::kHashes) tensors = tensors.last(1);
  step->rows = valid_rows;
  if (options_.hashed_fields == 0) {
    step->delivery.records = StepsOf(tensors.back(), step->delivery.records);
  }
  step->tensors.assign(tensors.begin(), tensors.end());
  step->offsets.clear();
  if (Status status = PlaceCopies(tensors, step); !status.ok()) return status;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    // The lease's offsets are lost with the lease.
    for (auto& level : step->tensors[t].lod) {
      const auto& own = step->offsets.emplace_back(level.begin(), level.end());
      level = own;
    }
    if (tensors[t].bytes == 0) continue;
    Status status = step->landing->Copy(backend_.get(), look_stream_, step->copies[t],
                                        tensors[t].data, tensors[t].bytes);
    if (!status.ok()) return status;
    copied_back_.bytes += tensors[t].bytes;
    if (step->landing->unpinned_reason().empty()) continue;
    copied_back_.unpinned_bytes += tensors[t].bytes;
    copied_back_.unpinned_reason = step->landing->unpinned_reason();
  }
  return {};
}

Status DeviceLoop::PlaceCopies(std::span<const Tensor> tensors, Step* step) {
  std::size_t bytes = 0;
  const auto place = [&bytes](const Tensor& tensor) {
    const std::size_t at = bytes;
    bytes += (tensor.bytes + kCopyAlign - 1) / kCopyAlign * kCopyAlign;
    return at;
  };
  for (const Tensor& tensor : tensors) (void)place(tensor);
  if (Status status = step->landing->Grow(bytes); !status.ok()) return status;
  std::size_t memory_bytes = 0;
  for (const auto& each : all_) memory_bytes += each->landing->bytes();
  copied_back_.memory_bytes = std::max(copied_back_.memory_bytes, memory_bytes);
  bytes = 0;
  step->copies.clear();
  for (const Tensor& tensor : tensors)
    step->copies.push_back(step->landing->data() + place(tensor));
  return {};
}

Status DeviceLoop::FinishOldest() {
  Step* const step = running_.front();
  Status status = WaitFor(step->end);
  if (status.ok() && options_.copy_back != CopyBack::kNothing) status = WaitFor(step->looked);
  if (status.ok()) status = AccountFor(*step);
  if (!status.ok()) return status;
  running_.pop_front();
  if (options_.copy_back != CopyBack::kNothing) DeliverCopies(step);
  deliver_(std::move(step->delivery));
  idle_.push_back(step);
  return {};
}

Status DeviceLoop::AccountFor(const Step& step) {
  std::int64_t ready_ns = 0;
  std::int64_t end_ns = 0;
  Status status = clock_.At(step.ready, &ready_ns);
  if (status.ok()) status = clock_.At(step.end, &end_ns);
  if (!status.ok()) return status;
  if (times_.first_ready_ns == 0) times_.first_ready_ns = ready_ns;
  times_.stall_ns += std::max<std::int64_t>(0, ready_ns - times_.end_ns);
  times_.end_ns = end_ns;
  if (options_.step_ns > 0) {
    timeline_->Add(
        {"step", static_cast<int>(options_.lane), step.delivery.number, ready_ns, end_ns});
  }
  return {};
}

void DeviceLoop::DeliverCopies(Step* step) {
  for (std::size_t t = 0; t < step->tensors.size(); ++t) {
    backend_->NoteHostRead(step->copies[t], step->tensors[t].bytes, "what was copied back");
  }
  if (options_.hashed_fields > 0) {
    HashRows(step);
    step->delivery.row_digests = RowDigests(step->tensors, step->copies, step->rows);
    return;
  }
  const std::byte* const hashes = step->copies.back();
  const std::uint64_t bytes =
      std::min<std::uint64_t>(step->delivery.records * sizeof(HashedPayload),  // without repeats
                              step->tensors.back().bytes);
  step->delivery.hashes.assign(hashes, hashes + bytes);
  if (options_.copy_back != CopyBack::kEverything) return;
  step->delivery.row_digests = RowDigests(step->tensors, step->copies, step->rows);
}

void DeviceLoop::HashRows(Step* step) {
  PayloadHasher hasher(options_.hash);
  const auto fields = std::span(step->tensors).first(options_.hashed_fields);
  std::vector<std::byte> row_bytes;
  step->delivery.hashes.resize(step->rows * sizeof(HashedPayload));
  for (std::uint64_t row = 0; row < step->rows; ++row) {
    row_bytes.clear();
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const auto steps = fields[f].shape.empty() ? 0 : static_cast<std::size_t>(fields[f].shape[0]);
      const std::size_t step_bytes = steps == 0 ? 0 : fields[f].bytes / steps;
      const std::byte* const begin = step->copies[f] + StepsOf(fields[f], row) * step_bytes;
      const std::byte* const end = step->copies[f] + StepsOf(fields[f], row + 1) * step_bytes;
      row_bytes.insert(row_bytes.end(), begin, end);
    }
    const HashedPayload hashed = hasher.Of(row_bytes);
    std::memcpy(step->delivery.hashes.data() + row * sizeof hashed, &hashed, sizeof hashed);
  }
}

Status DeviceLoop::WaitFor(DeviceEvent event) {
  while (true) {
    bool done = false;
    Status status = backend_->Query(event, &done);
    if (!status.ok() || done) return status;
    backend_->Idle(backend_->NowNanos() + kPollNs);
  }
}

std::optional<double> CopyOverlap(std::span<const TimeSpan> spans, int track) {
  const std::vector<Stretch> copies = StretchesOf(spans, track, "copy");
  const std::vector<Stretch> steps = StretchesOf(spans, track, "step");
  std::int64_t copied_ns = 0;
  std::int64_t both_ns = 0;
  auto step = steps.begin();
  for (const auto& [begin, end] : copies) {
    copied_ns += end - begin;
    while (step != steps.end() && step->second <= begin) ++step;
    for (auto at = step; at != steps.end() && at->first < end; ++at) {
      both_ns += std::max<std::int64_t>(0, std::min(end, at->second) - std::max(begin, at->first));
    }
  }
  if (steps.empty() || copied_ns == 0) return std::nullopt;
  return static_cast<double>(both_ns) / static_cast<double>(copied_ns);
}

}  // namespace ringfeed::tools
