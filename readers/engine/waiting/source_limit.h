#pragma once

#include <cstddef>
#include <utility>

#include "readers/engine/waiting/taken_ahead.h"
#include "readers/engine/waiting/worker_pool.h"

namespace ringfeed {

/// The limit of what is taken ahead of a source that may block for long, and the wakes of the
/// threads that read it: they write nothing, and sleep while the limit holds them back.
///
/// Thread safety: as TakenAhead. No call waits.
class SourceLimit {
 public:
  using Amount = TakenAhead::Amount;

  explicit SourceLimit(Workers* workers) : workers_(workers) {}

  /// Before the run starts.
  void set_limits(const TakenAhead::Limits& limits) { ahead_.set_limits(limits); }
  const TakenAhead& ahead() const { return ahead_; }

  /// The lane's worker publishes so much.
  void NotePublished(const Amount& amount) {
    if (ahead_.limited()) ahead_.NotePublished(amount);
  }
  /// The planner plans so much of it, but has handed nothing of that on.
  void NoteEntered(const Amount& amount) {
    entered_.records += amount.records;
    entered_.bytes += amount.bytes;
  }
  /// The planner, on the worker of that number, has got so far.
  void NotePlanned(const TakenAhead::Planned& planned, std::size_t worker) {
    if (!ahead_.limited()) return;
    ahead_.NotePlanned(std::exchange(entered_, {}), planned);
    WakeReaders(worker);  // which looks again before it rests
  }
  /// A consumer took a delivery of so much.
  void NoteTaken(const Amount& amount) {
    ahead_.NoteTaken(amount);
    WakeReaders();
  }
  /// A consumer asks for the next delivery.
  void NoteAsking() {
    if (ahead_.limited() && ahead_.NoteAsking()) WakeReaders();
  }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};

  void WakeReaders(std::size_t except = kNobody) {
    for (std::size_t i = workers_->writers(); i < workers_->size(); ++i) {
      if (i != except) workers_->Wake(i);
    }
  }

  Workers* const workers_;
  TakenAhead ahead_;
  Amount entered_;  ///< the planner's: of blocks that ahead_ was not told of yet
};

}  // namespace ringfeed
