#include "readers/engine/batches/deliveries.h"

#include <algorithm>
#include <utility>

namespace ringfeed {

Deliveries::Deliveries(const Options& options, const Parts& parts)
    : parts_(parts),
      out_(options.capacity, options.ring),
      judge_(
          options.judge,
          [this](std::uint64_t number, Delivery delivery) {
            out_.Put(number, std::move(delivery));
          },
          [this](const auto& change) { out_.ChangeStatus(change); }) {}

void Deliveries::Put(std::uint64_t number, Delivery delivery) {
  // Nothing after a failed batch is delivered. Another consumer could otherwise see batch n + 1
  // before the failure of batch n.
  if (delivery.batch != nullptr && !delivery.batch->status.ok()) {
    End(number + 1, delivery.batch->status, true);
  }
  out_.NoteOut();
  if (judge_.Take(number, &delivery)) return;
  out_.Put(number, std::move(delivery));
}

void Deliveries::End(std::uint64_t number, const Status& status, bool within) {
  out_.NoteEnd(number, status, within);
  judge_.NoteEnd(number);
  out_.Close(number);
  // What the lanes had still to read is not needed. Order: pairs with the acquire in ended.
  ended_.store(true, std::memory_order_release);
  parts_.workers->WakeAll();
}

QueueResult Deliveries::NoteTaken(QueueResult result, const Delivery& delivery) {
  if (result != QueueResult::kOk || !parts_.source->ahead().limited()) return result;
  if (delivery.batch != nullptr) {
    parts_.source->NoteTaken({delivery.batch->records, delivery.batch->record_bytes});
  } else {
    parts_.source->NoteTaken({delivery.records->rows, delivery.records->bytes});
  }
  return result;
}

QueueResult Deliveries::TryTake(Delivery* delivery) {
  parts_.source->NoteAsking();
  return NoteTaken(out_.Take(delivery, [this] { parts_.plan->Ask(); }), *delivery);
}

QueueResult Deliveries::TakeUntil(Delivery* delivery, Deadline deadline,
                                  const std::stop_token& stop) {
  parts_.source->NoteAsking();
  while (true) {
    const Deadline look = std::min(deadline, parts_.stalls->late_wakes().NextLook());
    const QueueResult result = out_.TakeUntil(delivery, look, stop, [this] { parts_.plan->Ask(); });
    if (result != QueueResult::kTimeout) return NoteTaken(result, *delivery);
    parts_.stalls->late_wakes().NoteSilence(out_.taken(), parts_.workers);
    if (NativeQueuePolicy::Expired(deadline)) return result;
  }
}

}  // namespace ringfeed
