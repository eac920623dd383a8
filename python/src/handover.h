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

/// What the caller gets of a batch, which comes as a tuple of Arrays.
class BatchForm {
 public:
  /// `names`: a dict by these, a tuple of one for each field; none or null: the tuple. `map` and,
  /// behind it, `convert` are functions that are called with it; none or null: nothing is. The time
  /// that `map` takes is added to *map_ns, if that is not null.
  explicit BatchForm(nanobind::handle names = {}, nanobind::handle map = {},
                     nanobind::handle convert = {}, std::atomic<std::int64_t>* map_ns = nullptr)
      : names_(names), map_(map), convert_(convert), map_ns_(map_ns) {}

  /// Raises what a function raises, ValueError where there is not one name for each field.
  /// *in_function: whether a function raised.
  nanobind::object Of(const nanobind::tuple& arrays, bool* in_function) const;

 private:
  nanobind::handle names_;
  nanobind::handle map_;
  nanobind::handle convert_;
  std::atomic<std::int64_t>* map_ns_;
};

/// Raises what a signal's handler raises, if there is a signal that waits for its handler.
void RaiseSignals();
/// Whether an exception in a function that gets a batch is that function's answer: not where the
/// program was interrupted in it (KeyboardInterrupt, SystemExit).
bool IsAnswer(const nanobind::python_error& raised);

/// Batches that were taken from a chain and did not reach the caller, in their order. Each has a
/// ticket, by which it is noted as handed out. Thread safe.
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
  /// Of the first; none where there is none.
  std::optional<Ticket> first() const {
    const std::scoped_lock lock(mutex_);
    return batches_.empty() ? std::nullopt : std::optional(batches_.front().ticket);
  }
  /// While it lives a batch may be on its way to the caller: taken, and not counted yet. It is
  /// stale where the chain was sent elsewhere since it was taken: by a handler of signals, say.
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
      if (IsStale()) Enter();  // sent elsewhere while it was waited for
    }
    bool IsStale() const {
      const std::scoped_lock lock(kept_->mutex_);
      return start_ != kept_->starts_;
    }
    /// For the next call; a stale one is let go of.
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
  /// Whether some are kept, or may be under way: then not all that was taken counts.
  bool any_uncounted() const {
    const std::scoped_lock lock(mutex_);
    return under_way_ > 0 || !batches_.empty();
  }
  /// Whether a call goes on that may have taken one.
  bool any_under_way() const {
    const std::scoped_lock lock(mutex_);
    return under_way_ > 0;
  }
  void Drop() {
    std::deque<Batch> dropped;  // outside of the mutex: that takes Python's lock
    const std::scoped_lock lock(mutex_);
    dropped.swap(batches_);
  }
  /// The chain was sent elsewhere: those that are kept go, and those under way are stale.
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

/// Hands a batch to the caller in `form`: the first that is kept, else what `take()` gives, an
/// optional pair of a tuple of Arrays and its ticket, none at the end. `count(ticket)` is called
/// where nothing can come between any more; where something did, a signal's handler above all, the
/// batch is kept for the next call. What a function of `form` raises stands for its batch, which
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
