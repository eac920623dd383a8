#include "ringfeed/compat/py_reader.h"

#include <utility>

#include "base/refuse.h"

namespace ringfeed {

PyReader::PyReader(std::shared_ptr<LoDTensorBlockingQueueHolder> holder)
    : holder_(std::move(holder)) {
  if (holder_ == nullptr) Refuse("the holder is null");
}

PyReader::PyReader(std::shared_ptr<LoDTensorBlockingQueue> queue) : queue_(std::move(queue)) {
  if (queue_ == nullptr) Refuse("the queue is null");
}

PyReader::~PyReader() {
  if (queue_ != nullptr) queue_->Close();
}

ReadResult PyReader::ReadNext(Instance* instance, std::stop_token stop, Status* status) {
  if (queue_ == nullptr) queue_ = holder_->GetQueue();
  switch (queue_->Pop(instance, stop)) {
    case QueueResult::kOk:
      return ReadResult::kRecord;
    case QueueResult::kClosed:
      return ReadResult::kEnd;
    case QueueResult::kFailed:
      *status = queue_->status();
      return ReadResult::kFailed;
    default:
      *status = Status(StatusCode::kCancelled, "stopped while it waited for a producer");
      return ReadResult::kFailed;
  }
}

bool PyReader::ReInit() {
  if (holder_ == nullptr) return false;
  if (queue_ != nullptr) queue_ = holder_->ReOpenAfter(queue_);
  return true;
}

bool PyReader::Ready() const {
  return queue_ != nullptr && (queue_->Size() > 0 || queue_->IsClosed());
}

std::vector<SlotSpec> PyReader::slots() const {
  return queue_ != nullptr ? queue_->slots() : holder_->GetQueue()->slots();
}

Reader OpenPyReader(std::shared_ptr<LoDTensorBlockingQueueHolder> holder,
                    const OpenOptions& options) {
  return FromInstanceSource(std::make_unique<PyReader>(std::move(holder)), options);
}

}  // namespace ringfeed
