#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "held_object.h"

namespace ringfeed::python {

/// The form in which the caller gets a batch, which comes as a tuple of Arrays.
class BatchForm {
 public:
  /// `names`: a dict by these, a tuple of one for each field; none or null: the tuple. `map`, and
  /// after it `convert`, are functions that are called with it; none or null: none is called. The
  /// time of `map` is added to *map_ns, if that is not null. `copies`: Arrays of their own memory.
  explicit BatchForm(nanobind::handle names = {}, nanobind::handle map = {},
                     nanobind::handle convert = {}, std::atomic<std::int64_t>* map_ns = nullptr,
                     bool copies = false)
      : names_(names), map_(map), convert_(convert), map_ns_(map_ns), copies_(copies) {}

  /// Raises what a function raises, and ValueError if there is not one name for each field.
  /// *in_function: whether a function raised.
  nanobind::object Of(const nanobind::tuple& arrays, bool* in_function) const;

 private:
  nanobind::handle names_;
  nanobind::handle map_;
  nanobind::handle convert_;
  std::atomic<std::int64_t>* map_ns_;
  bool copies_;
};

/// If a signal waits for its handler, raises what the handler raises.
void RaiseSignals();
/// Whether an exception in a function that gets a batch is that function's answer: not if the
/// program was interrupted in it (KeyboardInterrupt, SystemExit).
bool IsAnswer(const nanobind::python_error& raised);

/// Batches that were taken from a chain and did not reach the caller, in their order. Each has a
/// ticket, which notes it as handed out. Thread safe.
template <typename Ticket>
class KeptBatches {
 public:
  struct Batch {
    std::shared_ptr<HeldObject> arrays;
    Ticket ticket;
  };

  std::optional<Batch> Take() {
    const std::scoped_lock lock(mutex_);
    if (batches_.empty()) return std::nullopt;
    std::optional<Batch> first(std::move(batches_.front()));
    batches_.pop_front();
    return first;
  }
  /// How many there are.
  std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return batches_.size();
  }
  /// The first batch's ticket; none if there is none.
  std::optional<Ticket> first() const {
    const std::scoped_lock lock(mutex_);
    return batches_.empty() ? std::nullopt : std::optional(batches_.front().ticket);
  }
  /// While it lives a batch may be on its way to the caller: taken, and not counted yet. The batch
  /// is stale if the chain was sent to another place since it was taken, by a signal handler, say.
  class UnderWay {
   public:
    explicit UnderWay(KeptBatches* kept) : kept_(kept) { Enter(); }
    ~UnderWay() {
      const std::scoped_lock lock(kept_->mutex_);
      if (start_ == kept_->starts_) --kept_->under_way_;
    }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;

    /// The batch was taken just now.
    void Take() {
      if (IsStale()) Enter();  // sent to another place during the wait
    }
    bool IsStale() const {
      const std::scoped_lock lock(kept_->mutex_);
      return start_ != kept_->starts_;
    }
    /// Keeps it for the next call; drops a stale one.
    void Keep(const nanobind::tuple& arrays, Ticket ticket) {
      Batch batch{Hold(arrays), std::move(ticket)};
      const std::scoped_lock lock(kept_->mutex_);
      if (start_ == kept_->starts_) kept_->batches_.push_back(std::move(batch));
    }

   private:
    void Enter() {
      const std::scoped_lock lock(kept_->mutex_);
      start_ = kept_->starts_;
      ++kept_->under_way_;
    }

    KeptBatches* const kept_;
    std::uint64_t start_ = 0;
  };
  /// Whether some are kept, or may be in flight: then not all that was taken counts.
  bool any_uncounted() const {
    const std::scoped_lock lock(mutex_);
    return under_way_ > 0 || !batches_.empty();
  }
  /// Whether a call is running that may have taken one.
  bool any_under_way() const {
    const std::scoped_lock lock(mutex_);
    return under_way_ > 0;
  }
  void Drop() {
    std::deque<Batch> dropped;  // destroyed outside of the mutex: that takes Python's lock
    const std::scoped_lock lock(mutex_);
    dropped.swap(batches_);
  }
  /// The chain was sent to another place: drops the kept batches and makes those in flight stale.
  void BeginAnew() {
    std::deque<Batch> dropped;  // outside of the mutex, as above
    const std::scoped_lock lock(mutex_);
    dropped.swap(batches_);
    under_way_ = 0;
    ++starts_;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Batch> batches_;
  std::size_t under_way_ = 0;  // since it began anew
  std::uint64_t starts_ = 0;   // how often it did
};

/// Hands a batch to the caller in `form`: the first kept one, else the result of `take()`, an
/// optional pair of a tuple of Arrays and its ticket, none at the end. Calls `count(ticket)` when
/// nothing can interrupt any more. If something did, a signal handler above all, the batch is kept
/// for the next call. If a function of `form` raises, that is its answer for the batch, which
/// counts. A batch that is stale by then neither counts nor is kept. Null at the end.
template <typename Ticket, typename Take, typename Count>
nanobind::object HandOver(KeptBatches<Ticket>* kept, const BatchForm& form, Take&& take,
                          Count&& count) {
  typename KeptBatches<Ticket>::UnderWay under_way(kept);
  std::optional<std::pair<nanobind::tuple, Ticket>> taken;
  if (auto again = kept->Take()) {
    taken.emplace(nanobind::borrow<nanobind::tuple>(again->arrays->Get()),
                  std::move(again->ticket));
  } else if (taken = take(); !taken) {
    return {};
  }
  under_way.Take();
  const auto count_unless_stale = [&] {
    if (!under_way.IsStale()) count(std::move(taken->second));
  };
  nanobind::object made;
  bool in_function = false;
  try {
    made = form.Of(taken->first, &in_function);
    in_function = false;
    RaiseSignals();
  } catch (const nanobind::python_error& raised) {
    if (in_function && IsAnswer(raised)) {
      count_unless_stale();
    } else {
      under_way.Keep(taken->first, std::move(taken->second));
    }
    throw;
  } catch (...) {
    under_way.Keep(taken->first, std::move(taken->second));
    throw;
  }
  count_unless_stale();
  return made;
}

}  // namespace ringfeed::python
