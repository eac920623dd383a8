#include "tests/gpu/feed/training_loop.h"

#include <utility>

namespace ringfeed {

TrainingLoop::TrainingLoop(std::shared_ptr<DeviceBackend> backend, int device, Options options)
    : backend_(std::move(backend)), device_(device), options_(std::move(options)) {
  if (!Good(backend_->CreateStream(device_, StreamPriority::kNormal, &stream_)) ||
      !Good(backend_->CreateStream(device_, StreamPriority::kNormal, &look_stream_)) ||
      !Good(backend_->CreateEvent(device_, EventKind::kPlain, &looked_))) {
    return;
  }
  for (std::size_t i = 0; i < options_.steps_ahead; ++i) {
    Ahead* const step = all_.emplace_back(std::make_unique<Ahead>()).get();
    for (DeviceEvent* const event : {&step->begin, &step->ready, &step->end}) {
      if (!Good(backend_->CreateEvent(device_, EventKind::kTimed, event))) return;
    }
    if (!Good(backend_->AllocDevice(device_, options_.most_tensors * 8, &step->sums))) return;
    step->results.resize(options_.most_tensors);
    idle_.push_back(step);
  }
}

TrainingLoop::~TrainingLoop() {
  if (!Finish()) {
    // What was enqueued last has no event behind it. A planned fault strikes but once.
    for (const DeviceStream stream : {stream_, look_stream_}) {
      for (int tries = 0; stream && tries < 10 && !backend_->SyncStream(stream).ok();) ++tries;
    }
  }
  for (const auto& step : all_) {
    if (step->sums != nullptr) (void)backend_->FreeDevice(device_, step->sums);
    for (const DeviceEvent event : {step->begin, step->ready, step->end}) {
      if (event) (void)backend_->DestroyEvent(event);
    }
  }
  if (looked_) (void)backend_->DestroyEvent(looked_);
  for (const DeviceStream stream : {stream_, look_stream_}) {
    if (stream) (void)backend_->DestroyStream(stream);
  }
}

bool TrainingLoop::Good(const Status& status) {
  if (!status.ok() && status_.ok()) status_ = status;
  return status.ok();
}

bool TrainingLoop::Enqueue(DeviceLease* lease, Ahead* step) {
  step->seen = {lease->number(), lease->rows(), lease->valid_rows(), {}, {}, {}, 0};
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
    step->seen.dtypes.push_back(tensors[t].dtype);
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

bool TrainingLoop::Look(DeviceLease* lease) {
  std::span<const Tensor> tensors;
  try {
    tensors = lease->WaitHost();
  } catch (const Error& error) {
    return Good(error.status());
  }
  std::vector<std::byte> seen;
  for (const Tensor& tensor : tensors) {
    seen.resize(tensor.bytes);
    if (!Good(backend_->CopyToHost(look_stream_, seen.data(), tensor.data, tensor.bytes)) ||
        !Good(backend_->Record(looked_, look_stream_)) || !WaitFor(looked_)) {
      return false;
    }
  }
  return true;
}

bool TrainingLoop::WaitFor(DeviceEvent event) {
  while (true) {
    bool done = false;
    if (!Good(backend_->Query(event, &done))) return false;
    if (done) return true;
    if (options_.while_waiting) options_.while_waiting();
    backend_->Idle(backend_->NowNanos() + 50'000);
  }
}

bool TrainingLoop::WaitForOldest() {
  Ahead* const step = running_.front();
  if (!WaitFor(step->end)) return false;
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
