#include "gpu/feed/batch_supply.h"

#include <utility>

#include "base/refuse.h"
#include "base/user_call.h"
#include "gpu/feed/distributor.h"
#include "gpu/feed/transfer_planner.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"

namespace ringfeed {
namespace {

class ReaderSupply final : public BatchSupply {
 public:
  ReaderSupply(Reader reader, std::shared_ptr<CuFileReads> direct)
      : reader_(std::move(reader)), direct_(std::move(direct)) {
    ReaderAccess::SessionOf(reader_)->BeginReading();
  }
  ~ReaderSupply() override {
    if (direct_ != nullptr) direct_->Close();
    if (!closed_) ReaderAccess::SessionOf(reader_)->EndReading();
  }
  ReaderSupply(const ReaderSupply&) = delete;
  ReaderSupply& operator=(const ReaderSupply&) = delete;

  SupplyResult Take(SuppliedBatch* batch, Status* status, const std::stop_token& stop) override {
    // An exception of the chain at its start is a failure of the data for the feed's callers.
    try {
      const ReadResult result =
          ReaderAccess::ReadSessionOf(reader_)->ReadNext(batch, {.stop = stop});
      if (result != ReadResult::kFailed) return SupplyResultOf(result);
      *status = stop.stop_requested() ? Status(StatusCode::kCancelled, "the feed was closed")
                                      : reader_.status();
    } catch (...) {
      *status = StatusOfThrown("the reader cannot go on");
    }
    return SupplyResult::kFailed;
  }

  void ReInit() override { reader_.ReInit(); }
  void Close() override {
    if (!std::exchange(closed_, true)) ReaderAccess::SessionOf(reader_)->EndReading();
  }
  Rows rows() const override {
    const auto session = ReaderAccess::SessionOf(reader_);
    return {session->RowsBefore(), session->WholeRows(), session->UsualRows()};
  }
  Reader reader() const override { return reader_; }
  std::shared_ptr<Arena> arena() const override {
    return ReaderAccess::SessionOf(reader_)->arena();
  }
  std::shared_ptr<CuFileReads> direct() const override { return direct_; }

 private:
  Reader reader_;
  const std::shared_ptr<CuFileReads> direct_;
  bool closed_ = false;
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

/// Null if the options leave no room for it; the lane reports why (DeviceLane::Stats).
std::shared_ptr<CuFileReads> DirectReadsFor(const FeedOptions& options,
                                            std::shared_ptr<CuFileLibrary> library) {
  const bool wanted =
      options.transfer == TransferPlan::kDirect || options.transfer == TransferPlan::kAuto;
  if (!wanted || !WhyNotDirect(options).empty()) return nullptr;
  CuFileReads::Options reads;
  reads.backend = options.backend;
  reads.device = options.devices.front();
  reads.only_where_it_pays = options.transfer == TransferPlan::kAuto;
  reads.library = std::move(library);
  return std::make_shared<CuFileReads>(reads);
}

}  // namespace

std::string WhyNotDirect(const FeedOptions& options) {
  if (options.devices.size() != 1) return "what is read is one device's, the feed has several";
  if (options.fixed_slots) return "fixed slots have no room for a table of rows";
  return {};
}

std::unique_ptr<BatchSupply> SupplyOf(Reader reader, const FeedOptions& options,
                                      std::shared_ptr<CuFileLibrary> library) {
  if (reader && ReaderAccess::NodeOf(reader)->IsOnDevice()) {
    Refuse(
        "the reader's batches lie on a device already (DoubleBufferOn): read them "
        "from it, or give the feed the reader that it reads from");
  }
  ReaderAccess::SessionOf(reader)->ReserveBatches(Distributor::HeldBatches(options),
                                                  Distributor::NeededBatches(options));
  LeftFieldRules rules =
      TransferPlanner(options.costs).RulesFor(options.transfer, options.least_left_bytes);
  // Also with TransferPlan::kDirect: a run that reads directly leaves none anyway (Run).
  rules.leaves_sums = rules.any();
  ReaderAccess::SessionOf(reader)->LeaveFields(rules);
  std::shared_ptr<CuFileReads> direct = DirectReadsFor(options, std::move(library));
  if (direct != nullptr) ReaderAccess::SessionOf(reader)->ReadDirectly(direct);
  return std::make_unique<ReaderSupply>(std::move(reader), std::move(direct));
}

}  // namespace ringfeed
