#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "readers/chain/position_book.h"
#include "readers/engine/blocks/ledger.h"
#include "readers/engine/plan/execution_plan.h"
#include "readers/engine/plan/indexed_source.h"
#include "readers/engine/row_reader.h"
#include "readers/order/position.h"
#include "ringfeed/batch_origin.h"

namespace ringfeed {

/// Knows the order of a chain's records: its index, which is made once, and the texts of its
/// positions. Thread safe. Its mutex is held while an index is made; after that, only for moments.
class ChainOrder {
 public:
  /// Both outlive it. `indexed`: of a chain with the same files; null: it is made here.
  ChainOrder(const ExecutionPlan& plan, Ledger* ledger, std::shared_ptr<IndexedSource> indexed);

  /// The chain by its index; null, with the reason in *why, if it has none. Builds it, once. Throws
  /// Error with kCancelled if `stop` or Close ends that: the next call builds it then.
  std::shared_ptr<IndexedSource> Index(std::string* why = nullptr,
                                       const std::stop_token& stop = {});
  /// The index if it is made.
  std::shared_ptr<IndexedSource> known_index() const;
  /// Ends the making of an index, of later ones too.
  void Close() { closing_.request_stop(); }
  bool is_closed() const { return closing_.stop_requested(); }
  /// As Reader::MakeIndex.
  void MakeIndex(IndexPurpose purpose, const std::stop_token& stop);
  /// As Reader::FileRecords.
  std::vector<std::uint64_t> FileRecords();

  void RefuseWithoutPosition() const;
  /// As Reader::CountBatches.
  std::uint64_t CountBatches();
  /// As Reader::Which.
  std::vector<BatchRecord> Which(std::uint64_t batch, const std::string& position);
  /// The chain's records by their numbers, made once. Throws Error if they have none.
  std::shared_ptr<const RowReader> Rows();
  std::uint64_t BatchesOfStep() const { return plan_.shares ? plan_.shares->pieces() : 1; }
  /// Of a place of a run that began at `start`.
  std::string TextOf(ChainPosition place, const RunStart& start);
  /// The opposite. Throws Error if it is of other data or of another order.
  ChainPosition Understood(const std::string& text);
  /// `batches` further than a place of a run that began at `start`.
  ChainPosition Further(ChainPosition place, const RunStart& start, std::uint64_t batches);
  /// How a run begins that goes on from there.
  Beginning BeginningAt(ChainPosition position);
  /// The same if only the number of batches was asked for: what is in the records may decide about
  /// the place, which is not settled then.
  Beginning BeginningAtCount(ChainPosition position);

 private:
  std::string WhyNoPosition() const;
  std::string OrderText() const;
  /// Positions are compared by this.
  DataFingerprint Fingerprint();
  /// The same for a chain that reads this one.
  DataFingerprint FingerprintAsInput();
  /// The same number of batches, or that of the end if the index tells that there are fewer.
  std::uint64_t BatchOrEnd(IndexedSource* indexed, std::uint64_t batch) const;
  /// The mark leaves out so many batches more.
  void LeaveOut(std::uint64_t batches, PlanPosition* mark) const;
  PlanPosition MarkOfMixture(const RunStart& start, std::uint64_t batch);
  const char* PolicyName() const {
    return plan_.source.options.on_damage == OnDamage::kSkip ? "skip" : "fail";
  }
  /// Throws Error if it is of other lengths. Its batches count steps, and then the chain's batches.
  void CheckLengths(const IndexedSource& indexed, ChainPosition* position) const;
  /// The begin of a run of a chain whose batches shares make.
  void BeginAtStep(const IndexedSource& indexed, ChainPosition* position, RunStart* start) const;
  /// Positions count so many rows at a time.
  std::uint64_t PositionRows() const { return plan_.batched ? plan_.batch.size : 1; }

  const ExecutionPlan& plan_;
  Ledger* const ledger_;
  std::stop_source closing_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::shared_ptr<IndexedSource> indexed_;
  std::string not_indexed_;  ///< why there is none, once that was found out
  std::optional<DataFingerprint> fingerprint_;
  std::shared_ptr<const RowReader> rows_;
};

}  // namespace ringfeed
