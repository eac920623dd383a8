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
  if (!running_.empty() || half_enqueued_) {
    for (const auto* stream : {&compute_stream_, &look_stream_}) {
      if (*stream) (void)backend_->SyncStream((*stream)->get());
    }
  }
  all_.clear();
  if (pins_ != nullptr) backend_->NoteHandOver(pins_->token());
  pins_.reset();
  clock_.Close();
  compute_stream_.reset();
  look_stream_.reset();
}

void DeviceLoop::Open() {
  const OwnedDevice device{backend_, options_.device};
  const bool copies = options_.copy_back != CopyBack::kNothing;
  Require(backend_->BindThread(device.number));
  if (copies) pins_ = HostPins::Of(backend_, {});  // the feed's
  compute_stream_.emplace(device);
  look_stream_.emplace(device);
  while (all_.size() < kStepsAhead) {
    Step* const step = all_.emplace_back(std::make_unique<Step>(device)).get();
    if (copies) {
      step->landing = std::make_unique<LandingMemory>(
          options_.arena != nullptr ? options_.arena : Arena::Default(), pins_);
    }
    idle_.push_back(step);
  }
  Require(clock_.Open(backend_, device.number, compute_stream_->get()));
  times_.begin_ns = times_.end_ns = clock_.start_ns();
}

// This is a thread's whole work, so an exception, by the device or for lack of memory, ends here.
Status DeviceLoop::Run() {
  const auto done = [](const auto& work) {
    try {
      work();
      return Status();
    } catch (...) {
      return StatusOfThrown("a device's loop failed");
    }
  };
  Status status = done([&] { Open(); });
  if (status.ok()) {
    SetHotPath(backend_.get(), true);
    status = done([&] { Loop(); });
    const Status finished = done([&] {
      while (!running_.empty()) FinishOldest();
    });
    const bool cancelled = status.code() == StatusCode::kCancelled;
    if (!finished.ok() && (status.ok() || cancelled)) status = finished;
    SetHotPath(backend_.get(), false);
  }
  Close();
  return status;
}

void DeviceLoop::Loop() {
  for (;;) {
    if (idle_.empty()) FinishOldest();
    DeviceLease lease;
    Status status;
    if (feed_->TryNext(options_.lane, &lease, &status) != ReadResult::kRecord) {
      feed_ended_ = !MayGoOn(status);
      return Require(status);
    }
    half_enqueued_ = true;
    Enqueue(&lease, idle_.front());
    half_enqueued_ = false;
    running_.push_back(idle_.front());
    idle_.pop_front();
  }
}

void DeviceLoop::Enqueue(DeviceLease* lease, Step* step) {
  step->delivery = {};
  step->delivery.number = lease->number();
  const std::span<const Tensor> tensors = lease->On(compute_stream_->get());
  step->ready.Record(*compute_stream_);
  if (options_.step_ns > 0) Require(backend_->Busy(compute_stream_->get(), options_.step_ns));
  step->end.Record(*compute_stream_);
  const std::uint64_t valid_rows = lease->valid_rows();
  // All rows of a batch if its last field, the hashes, has other rows than the first.
  const bool whole = valid_rows == lease->rows();
  step->delivery.records = whole && !tensors.empty() ? RowsOfTensor(tensors.back()) : valid_rows;
  if (options_.copy_back != CopyBack::kNothing) {
    (void)lease->On(look_stream_->get());
    EnqueueCopies(tensors, valid_rows, step);
    step->looked.Record(*look_stream_);
  }
  lease->Release();
}

void DeviceLoop::EnqueueCopies(std::span<const Tensor> tensors, std::uint64_t valid_rows,
                               Step* step) {
  if (options_.copy_back == CopyBack::kHashes) tensors = tensors.last(1);
  step->rows = valid_rows;
  if (options_.hashed_fields == 0) {
    step->delivery.records = StepsOf(tensors.back(), step->delivery.records);
  }
  step->tensors.assign(tensors.begin(), tensors.end());
  step->offsets.clear();
  PlaceCopies(tensors, step);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    // The lease's offsets are lost with the lease.
    for (auto& level : step->tensors[t].lod) {
      const auto& own = step->offsets.emplace_back(level.begin(), level.end());
      level = own;
    }
    if (tensors[t].bytes == 0) continue;
    Require(step->landing->Copy(backend_.get(), look_stream_->get(), step->copies[t],
                                tensors[t].data, tensors[t].bytes));
    copied_back_.bytes += tensors[t].bytes;
    if (step->landing->unpinned_reason().empty()) continue;
    copied_back_.unpinned_bytes += tensors[t].bytes;
    copied_back_.unpinned_reason = step->landing->unpinned_reason();
  }
}

void DeviceLoop::PlaceCopies(std::span<const Tensor> tensors, Step* step) {
  std::size_t bytes = 0;
  std::vector<std::size_t> places;
  for (const Tensor& tensor : tensors) {
    places.push_back(bytes);
    bytes += (tensor.bytes + kCopyAlign - 1) / kCopyAlign * kCopyAlign;
  }
  Require(step->landing->Grow(bytes));
  std::size_t memory_bytes = 0;
  for (const auto& each : all_) memory_bytes += each->landing->bytes();
  copied_back_.memory_bytes = std::max(copied_back_.memory_bytes, memory_bytes);
  step->copies.clear();
  for (const std::size_t place : places) step->copies.push_back(step->landing->data() + place);
}

void DeviceLoop::FinishOldest() {
  Step* const step = running_.front();
  step->end.Await();
  if (options_.copy_back != CopyBack::kNothing) step->looked.Await();
  AccountFor(*step);
  running_.pop_front();
  if (options_.copy_back != CopyBack::kNothing) DeliverCopies(step);
  deliver_(std::move(step->delivery));
  idle_.push_back(step);
}

void DeviceLoop::AccountFor(const Step& step) {
  std::int64_t ready_ns = 0;
  std::int64_t end_ns = 0;
  Require(clock_.At(step.ready.get(), &ready_ns));
  Require(clock_.At(step.end.get(), &end_ns));
  if (times_.first_ready_ns == 0) times_.first_ready_ns = ready_ns;
  times_.stall_ns += std::max<std::int64_t>(0, ready_ns - times_.end_ns);
  times_.end_ns = end_ns;
  if (options_.step_ns > 0) {
    timeline_->Add(
        {"step", static_cast<int>(options_.lane), step.delivery.number, ready_ns, end_ns});
  }
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
