#include "gpu/feed/batch_supply.h"

#include <utility>

namespace ringfeed {
namespace {

class ReaderSupply final : public BatchSupply {
 public:
  explicit ReaderSupply(Reader reader) : reader_(std::move(reader)) {}

  SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override {
    // What the chain throws when it starts is a failure of the data to those who wait for them.
    try {
      const ReadResult result =
          reader_.TryReadNext(&batch->tensors, {.origin = &batch->origin, .stop = stop});
      if (result != ReadResult::kFailed) return SupplyResultOf(result);
      *status = stop.stop_requested() ? Status(StatusCode::kCancelled, "the feed was closed")
                                      : reader_.status();
    } catch (const Error& error) {
      *status = error.status();
    }
    return SupplyResult::kFailed;
  }

  void ReInit() override { reader_.ReInit(); }
  Reader reader() const override { return reader_; }

 private:
  Reader reader_;
};

}  // namespace

SupplyResult SupplyResultOf(ReadResult result) {
  switch (result) {
    case ReadResult::kRecord:
      return SupplyResult::kBatch;
    case ReadResult::kEnd:
      return SupplyResult::kEnd;
    case ReadResult::kFailed:
    case ReadResult::kTimeout:  // nothing here reads until a deadline
      break;
  }
  return SupplyResult::kFailed;
}

std::unique_ptr<BatchSupply> SupplyOf(Reader reader, std::size_t batches) {
  reader.ReserveBatches(batches);
  return std::make_unique<ReaderSupply>(std::move(reader));
}

}  // namespace ringfeed
