#include "tests/queue/history_reference.h"

#include <algorithm>
#include <deque>

namespace ringfeed::history {
namespace {

struct QueueState {
  std::deque<std::uint64_t> items;
  bool closed = false;
  bool cancelled = false;
};

class EveryOrder {
 public:
  EveryOrder(const QueueHistory& history, std::size_t capacity)
      : capacity_(capacity), calls_(history) {
    for (const Operation& operation : history) {
      if (operation.kind != OperationKind::kCancel) continue;
      // Its second step: the close, after the first.
      Operation close = operation;
      close.kind = OperationKind::kClose;
      second_step_of_.emplace_back(&operation - history.data(), calls_.size());
      calls_.push_back(close);
    }
    done_.assign(calls_.size(), false);
  }

  bool Try(const QueueState& state) {
    bool all = true;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (done_[i]) continue;
      all = false;
      if (!MayBeNext(i)) continue;
      QueueState next = state;
      if (!Apply(calls_[i], next)) continue;
      done_[i] = true;
      if (Try(next)) return true;
      done_[i] = false;
    }
    return all;
  }

 private:
  bool MayBeNext(std::size_t index) const {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (!done_[i] && calls_[i].answered < calls_[index].invoked) return false;
    }
    return std::none_of(second_step_of_.begin(), second_step_of_.end(), [&](const auto& steps) {
      return steps.second == index && !done_[static_cast<std::size_t>(steps.first)];
    });
  }

  bool Apply(const Operation& call, QueueState& state) const {
    switch (call.kind) {
      case OperationKind::kPush:
        return Push(call, state);
      case OperationKind::kPop:
        return Pop(call, state);
      case OperationKind::kCancel:
        state.cancelled = true;
        return true;
      default:
        state.closed = true;
        return true;
    }
  }

  bool Push(const Operation& call, QueueState& state) const {
    const bool full = state.items.size() == capacity_;
    if (call.result == QueueResult::kClosed) return state.closed;
    if (state.closed) return false;
    if (call.result != QueueResult::kOk) return full || MeetsOneInTheWay(call);
    state.items.push_back(call.value);
    return !full;
  }

  bool Pop(const Operation& call, QueueState& state) const {
    const bool empty = state.items.empty();
    if (call.result == QueueResult::kClosed) return state.cancelled || (state.closed && empty);
    if (state.cancelled) return false;
    if (call.result != QueueResult::kOk) return empty && !state.closed;
    if (empty || state.items.front() != call.value) return false;
    state.items.pop_front();
    return true;
  }

  bool MeetsOneInTheWay(const Operation& call) const {
    return std::any_of(calls_.begin(), calls_.end(), [&](const Operation& other) {
      const bool push = other.kind == OperationKind::kPush &&
                        (other.result == QueueResult::kOk || other.result == QueueResult::kClosed);
      const bool pop = other.kind == OperationKind::kPop && other.result == QueueResult::kOk;
      return (push || pop) && other.invoked <= call.answered && call.invoked <= other.answered;
    });
  }

  const std::size_t capacity_;
  QueueHistory calls_;
  std::vector<std::pair<std::ptrdiff_t, std::size_t>> second_step_of_;
  std::vector<bool> done_;
};

}  // namespace

bool SomeOrderExplains(const QueueHistory& history, std::size_t capacity) {
  return EveryOrder(history, capacity).Try(QueueState{});
}

}  // namespace ringfeed::history
