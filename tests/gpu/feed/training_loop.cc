#include "tests/gpu/feed/training_loop.h"

#include <utility>

namespace ringfeed {

TrainingLoop::TrainingLoop(std::shared_ptr<DeviceBackend> backend, int device, Options options)
    : backend_(std::move(backend)), device_(device), options_(std::move(options)) {
  if (!Good(backend_->CreateStream(device_, StreamPriority::kNormal, &stream_))) return;
  for (std::size_t i = 0; i < options_.steps_ahead; ++i) {
    auto step = std::make_unique<Ahead>();
    for (DeviceEvent* const event : {&step->begin, &step->ready, &step->end}) {
      if (!Good(backend_->CreateEvent(device_, EventKind::kTimed, event))) return;
    }
    if (!Good(backend_->AllocDevice(device_, options_.most_tensors * 8, &step->sums))) return;
    step->results.resize(options_.most_tensors);
    idle_.push_back(step.get());
    all_.push_back(std::move(step));
  }
}

TrainingLoop::~TrainingLoop() {
  (void)Finish();
  for (const auto& step : all_) {
    if (step->sums != nullptr) (void)backend_->FreeDevice(device_, step->sums);
    for (const DeviceEvent event : {step->begin, step->ready, step->end}) {
      if (event) (void)backend_->DestroyEvent(event);
    }
  }
  if (stream_) (void)backend_->DestroyStream(stream_);
}

bool TrainingLoop::Good(const Status& status) {
  if (!status.ok() && status_.ok()) status_ = status;
  return status.ok();
}

bool TrainingLoop::Enqueue(DeviceLease* lease, Ahead* step) {
  step->seen = {lease->number(), lease->rows(), lease->valid_rows(), {}, {}, 0};
  if (!Good(backend_->BindThread(device_)) || !Good(backend_->Record(step->begin, stream_))) {
    return false;
  }
  std::span<const Tensor> tensors;
  try {
    tensors = lease->On(stream_);
  } catch (const Error& error) {
    return Good(error.status());
  }
  if (!Good(backend_->Record(step->ready, stream_))) return false;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    step->seen.shapes.push_back(tensors[t].shape);
    Checksum checksum;
    checksum.input = tensors[t].data;
    checksum.bytes = tensors[t].bytes;
    checksum.output = reinterpret_cast<std::uint64_t*>(step->sums) + t;
    if (!Good(backend_->Launch(stream_, checksum))) return false;
  }
  if (options_.step_ns && !Good(backend_->Busy(stream_, options_.step_ns()))) return false;
  lease->Release();
  return Good(backend_->CopyToHost(stream_, reinterpret_cast<std::byte*>(step->results.data()),
                                   step->sums, tensors.size() * 8)) &&
         Good(backend_->Record(step->end, stream_));
}

bool TrainingLoop::Step(DeviceLease lease) {
  if (!status_.ok()) return false;
  if (idle_.empty() && !WaitForOldest()) return false;
  Ahead* const step = idle_.front();
  if (!Enqueue(&lease, step)) return false;
  idle_.pop_front();
  running_.push_back(step);
  return true;
}

bool TrainingLoop::WaitForOldest() {
  Ahead* const step = running_.front();
  bool done = false;
  while (true) {
    if (!Good(backend_->Query(step->end, &done))) return false;
    if (done) break;
    backend_->Idle(backend_->NowNanos() + 50'000);
  }
  if (!Good(backend_->Elapsed(step->begin, step->ready, &step->seen.stall_ms))) return false;
  const std::size_t tensors = step->seen.shapes.size();
  backend_->NoteHostRead(reinterpret_cast<const std::byte*>(step->results.data()), tensors * 8,
                         "results");
  step->seen.checksums.assign(step->results.begin(),
                              step->results.begin() + static_cast<std::ptrdiff_t>(tensors));
  seen_.push_back(std::move(step->seen));
  running_.pop_front();
  idle_.push_back(step);
  return true;
}

bool TrainingLoop::Finish() {
  while (!running_.empty() && status_.ok()) {
    if (!WaitForOldest()) return false;
  }
  return status_.ok();
}

std::uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  RunKernelOnHost(Checksum{bytes.data(), bytes.size(), &sum});
  return sum;
}

}  // namespace ringfeed
