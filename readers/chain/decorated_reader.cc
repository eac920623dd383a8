#include "ringfeed/decorated_reader.h"

#include <memory>
#include <utility>

#include "base/refuse.h"
#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"

namespace ringfeed {
namespace {

class Preprocessor final : public DecoratedReader {
 public:
  Preprocessor(Reader input, std::vector<SlotSpec> slots, PreprocessFunction function)
      : DecoratedReader(std::move(input)),
        slots_(std::move(slots)),
        function_(std::move(function)) {}

  std::vector<SlotSpec> slots() const override { return slots_; }
  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    Instance input;
    const ReadResult result = ReadInput(&input, stop, status);
    if (result != ReadResult::kRecord) return result;
    function_(input, instance);
    if (input.is_record()) instance->set_is_record(true);
    return result;
  }

 private:
  const std::vector<SlotSpec> slots_;
  const PreprocessFunction function_;
};

}  // namespace

ReadResult DecoratedReader::ReadInputHeld(Instance* instance, const std::stop_token& stop,
                                          Status* status) {
  const std::shared_ptr<ReaderSession> session = ReaderAccess::NodeOf(input_)->InnerSession();
  const ReadResult result = session->ReadNext(instance, {.stop = stop});
  if (result == ReadResult::kFailed) {
    *status = stop.stop_requested() ? Status(StatusCode::kCancelled, "stopped") : session->status();
  }
  return result;
}

ReadResult DecoratedReader::ReadInput(Instance* instance, const std::stop_token& stop,
                                      Status* status) {
  const ReadResult result = ReadInputHeld(instance, stop, status);
  // A batch would keep its slot, and a decorator that holds back all of them would wait for ever.
  const bool batched = ReaderAccess::NodeOf(input_)->InnerSession()->plan().batched;
  if (result == ReadResult::kRecord && batched) OwnMemory(instance);
  return result;
}

void DecoratedReader::HoldBatches(std::size_t batches) {
  ReaderAccess::NodeOf(input_)->InnerSession()->ReserveBatches(batches);
}

Reader Preprocess(Reader input, std::vector<SlotSpec> slots, PreprocessFunction function) {
  if (!function) Refuse("the Preprocess function is empty");
  return FromInstanceSource(
      std::make_unique<Preprocessor>(std::move(input), std::move(slots), std::move(function)));
}

}  // namespace ringfeed
