#include "gpu/feed/batch_supply.h"

#include <utility>

#include "gpu/feed/copy_plan.h"
#include "gpu/feed/distributor.h"
#include "readers/chain/reader_access.h"

namespace ringfeed {
namespace {

class ReaderSupply final : public BatchSupply {
 public:
  ReaderSupply(Reader reader, std::string why_sums_are_early)
      : reader_(std::move(reader)), why_sums_are_early_(std::move(why_sums_are_early)) {}

  SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override {
    // What the chain throws when it starts is a failure of the data to those who wait for them.
    try {
      const ReadResult result = ReaderAccess::TryReadNext(reader_, &batch->tensors,
                                                          {.origin = &batch->origin, .stop = stop},
                                                          &batch->pending, &batch->unsettled);
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
  std::string WhySumsAreEarly() const override {
    return !why_sums_are_early_.empty() ? why_sums_are_early_
                                        : ReaderAccess::WhySumsAreEarly(reader_);
  }

 private:
  Reader reader_;
  const std::string why_sums_are_early_;  ///< as the feed's options say
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

namespace {

LeftFieldRules RulesFor(const FeedOptions& options) {
  // Neighbours that are shorter are as dear to a table of them as to a copy.
  constexpr std::size_t kLeastNeighbourBytes = 1024;
  const std::size_t asked = options.least_left_bytes;
  switch (options.transfer) {
    case TransferPlan::kBatch:
      break;
    case TransferPlan::kAuto:
      if (asked > 0) return {asked, asked, true};
      return {CopyPlan::kLongRowBytes, kLeastNeighbourBytes, true};
    case TransferPlan::kMembers: {
      const std::size_t least = asked > 0 ? asked : CopyPlan::kLongRowBytes / 4;
      return {least, least, false};
    }
    case TransferPlan::kSlabs: {
      const std::size_t least = asked > 0 ? asked : kLeastNeighbourBytes;
      return {least, least, false};
    }
  }
  return {};
}

}  // namespace

std::unique_ptr<BatchSupply> SupplyOf(Reader reader, const FeedOptions& options) {
  reader.ReserveBatches(Distributor::HeldBatches(options.devices.size(), options.last_step));
  LeftFieldRules rules = RulesFor(options);
  std::string why_sums_are_early = WhySumsAreEarly(options);
  rules.leaves_sums = rules.any() && why_sums_are_early.empty();
  ReaderAccess::LeaveFields(reader, rules);
  return std::make_unique<ReaderSupply>(std::move(reader), std::move(why_sums_are_early));
}

// A batch that turns out damaged is made anew before it is handed out, and with it what depends on
// how many rows it has. That is seen only as long as batches are one device's, one by one.
std::string WhySumsAreEarly(const FeedOptions& options) {
  if (options.transfer == TransferPlan::kBatch) return "the CPU touches all bytes anyway";
  if (options.devices.size() > 1) return "several devices share the batches";
  if (options.distribution != Distribution::kRoundRobin) return "batches are split";
  if (options.last_step != LastStep::kUneven) return "the last step depends on what is lost";
  if (options.fixed_slots) return "fixed slots have no room for them";
  return {};
}

}  // namespace ringfeed
