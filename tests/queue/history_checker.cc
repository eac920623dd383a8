#include "tests/queue/history_checker.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/queue/placement_search.h"

namespace ringfeed::history {
namespace {

constexpr Stamp kAlways = std::numeric_limits<Stamp>::min();

HistoryVerdict Violation(std::string why) {
  return {HistoryVerdict::Kind::kViolation, std::move(why), 0};
}

std::string Span(const Operation& operation) {
  return " [" + std::to_string(operation.invoked) + ", " + std::to_string(operation.answered) + "]";
}

bool IsEnding(OperationKind kind) {
  return kind != OperationKind::kPush && kind != OperationKind::kPop;
}

// A channel's end by a failure is an end like any other to the queue beneath.
bool SaysEnd(QueueResult result) {
  return result == QueueResult::kClosed || result == QueueResult::kFailed;
}

// The last moments at which the queue may still have been open and its pops not cancelled. Later is
// better for every other call, so the calls that found the end are all that bounds them.
struct Ends {
  Stamp close_begun = kNever;
  Stamp closed_by = kNever;
  Stamp cancel_begun = kNever;
  Stamp cancelled_by = kNever;
  Stamp drained_by = kNever;  // every accepted item was taken
};

class HistoryCheck {
 public:
  HistoryCheck(const QueueHistory& history, std::size_t capacity, bool drained)
      : history_(history), capacity_(capacity), drained_(drained) {}

  HistoryVerdict Run(std::size_t max_steps) {
    FindEnds();
    if (why_.empty()) PairItems();
    if (why_.empty()) CollectAnswers();
    if (!why_.empty()) return Violation(std::move(why_));
    PlacementSearch search(std::move(elements_), capacity_);
    return search.Run(max_steps);
  }

  // Whether the first pop that found the end may have found a cancelled queue.
  bool MayBeCancelled() const { return ends_.cancel_begun <= ended_by_ && ended_by_ != kNever; }

 private:
  void FindEnds();
  void PairItems();
  void EnterPush(std::size_t index);
  void EnterPop(std::size_t index);
  void Narrow(Element& item) const;
  void CollectAnswers();
  void EnterAnswer(const Operation& operation);
  bool MeetsOneInTheWay(const Operation& operation) const;
  void CollectThoseInTheWay();
  void Fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
  }

  const QueueHistory& history_;
  const std::size_t capacity_;
  const bool drained_;  // where a pop found the end: it was closed and drained, not cancelled
  Stamp ended_by_ = kNever;
  Ends ends_;
  std::string why_;
  std::vector<Element> elements_;
  std::unordered_map<std::uint64_t, std::size_t> element_of_;  // by value
  // Calls that may hold a place, by their invocation; the answer is the latest so far.
  std::vector<std::pair<Stamp, Stamp>> in_the_way_;
};

void HistoryCheck::FindEnds() {
  Stamp only_close_begun = kNever;
  Stamp refused_by = kNever;
  for (const Operation& operation : history_) {
    if (IsEnding(operation.kind)) {
      ends_.close_begun = std::min(ends_.close_begun, operation.invoked);
      ends_.closed_by = std::min(ends_.closed_by, operation.answered);
    }
    if (operation.kind == OperationKind::kCancel) {
      ends_.cancel_begun = std::min(ends_.cancel_begun, operation.invoked);
      ends_.cancelled_by = std::min(ends_.cancelled_by, operation.answered);
    } else if (IsEnding(operation.kind)) {
      only_close_begun = std::min(only_close_begun, operation.invoked);
    } else if (SaysEnd(operation.result)) {
      Stamp& first = operation.kind == OperationKind::kPush ? refused_by : ended_by_;
      first = std::min(first, operation.answered);
    }
  }
  ends_.closed_by = std::min(ends_.closed_by, refused_by);
  if (MayBeCancelled() && !drained_) {
    ends_.cancelled_by = std::min(ends_.cancelled_by, ended_by_);
  } else {
    ends_.closed_by = std::min(ends_.closed_by, ended_by_);
    ends_.drained_by = ended_by_;
  }
  // A Cancel closes last: where nobody else can have closed by then, the pops have ended too.
  if (only_close_begun > ends_.closed_by) {
    ends_.cancelled_by = std::min(ends_.cancelled_by, ends_.closed_by);
  }
  if (ends_.closed_by < ends_.close_begun) {
    Fail("a call found the end before anyone closed, by " + std::to_string(ends_.closed_by));
  } else if (ends_.cancelled_by < ends_.cancel_begun) {
    Fail("a call found a cancelled queue before anyone cancelled");
  }
}

void HistoryCheck::PairItems() {
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Operation& operation = history_[i];
    if (operation.kind == OperationKind::kPush && operation.result == QueueResult::kOk) {
      EnterPush(i);
    }
  }
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Operation& operation = history_[i];
    if (operation.kind == OperationKind::kPop && operation.result == QueueResult::kOk) EnterPop(i);
  }
  for (Element& item : elements_) {
    Narrow(item);
    const std::string name = "item " + std::to_string(item.value);
    if (item.out_first == kNever && ends_.drained_by != kNever) {
      Fail(name + " was accepted and is lost: a pop found the queue closed and drained by " +
           std::to_string(ends_.drained_by));
    } else if (item.in_first > item.in_last) {
      Fail(name + " was pushed after the close, or popped before it was pushed");
    } else if (item.out_first > item.out_last) {
      Fail(name + " was popped after the end of the pops");
    }
  }
}

void HistoryCheck::EnterPush(std::size_t index) {
  const Operation& push = history_[index];
  Element item{Element::Kind::kItem, push.value, push.invoked, push.answered};
  if (push.rank > 0) item.after[0] = element_of_.at(history_[index - 1].value);
  if (!element_of_.try_emplace(push.value, elements_.size()).second) {
    Fail("item " + std::to_string(push.value) + " was pushed twice: values must be distinct");
  }
  elements_.push_back(item);
}

void HistoryCheck::EnterPop(std::size_t index) {
  const Operation& pop = history_[index];
  const std::string name = "item " + std::to_string(pop.value);
  const auto found = element_of_.find(pop.value);
  if (found == element_of_.end()) {
    Fail(name + " was popped and never pushed" + Span(pop));
    return;
  }
  Element& item = elements_[found->second];
  if (item.out_last != kNever) Fail(name + " was popped twice" + Span(pop));
  item.out_first = pop.invoked;
  item.out_last = pop.answered;
  if (pop.rank > 0) {
    const auto before = element_of_.find(history_[index - 1].value);
    if (before != element_of_.end()) item.after[1] = before->second;
  }
}

void HistoryCheck::Narrow(Element& item) const {
  item.in_last = std::min(item.in_last, ends_.closed_by);
  if (item.out_first == kNever) return;
  item.out_last = std::min({item.out_last, ends_.cancelled_by, ends_.drained_by});
  item.in_last = std::min(item.in_last, item.out_last);
  item.out_first = std::max(item.out_first, item.in_first);
}

void HistoryCheck::CollectThoseInTheWay() {
  for (const Operation& operation : history_) {
    const bool refused_push = operation.kind == OperationKind::kPush && SaysEnd(operation.result);
    if (IsEnding(operation.kind) || (operation.result != QueueResult::kOk && !refused_push)) {
      continue;
    }
    in_the_way_.emplace_back(operation.invoked, operation.answered);
  }
  std::sort(in_the_way_.begin(), in_the_way_.end());
  Stamp latest = kAlways;
  for (auto& [invoked, answered] : in_the_way_) answered = latest = std::max(latest, answered);
}

bool HistoryCheck::MeetsOneInTheWay(const Operation& operation) const {
  // Of those that began before this one was answered, the one that was answered last.
  const auto after = std::upper_bound(in_the_way_.begin(), in_the_way_.end(),
                                      std::make_pair(operation.answered, kNever));
  return after != in_the_way_.begin() && std::prev(after)->second >= operation.invoked;
}

void HistoryCheck::CollectAnswers() {
  CollectThoseInTheWay();
  for (const Operation& operation : history_) {
    if (!IsEnding(operation.kind) && operation.result != QueueResult::kOk &&
        !SaysEnd(operation.result)) {
      EnterAnswer(operation);
    }
  }
}

void HistoryCheck::EnterAnswer(const Operation& operation) {
  const bool push = operation.kind == OperationKind::kPush;
  const Stamp open_by = push ? ends_.closed_by : std::min(ends_.cancelled_by, ends_.closed_by);
  if (operation.invoked > open_by) {
    Fail((push ? "a push said " : "a pop said ") + std::string(QueueResultName(operation.result)) +
         Span(operation) + " after the end");
    return;
  }
  const Stamp last = std::min(operation.answered, open_by);
  if (!push) {
    elements_.push_back(
        {Element::Kind::kEmpty, 0, operation.invoked, last, operation.invoked, last});
  } else if (!MeetsOneInTheWay(operation)) {
    elements_.push_back({Element::Kind::kFull, 0, operation.invoked, last, kAlways, kNever});
  }
}

}  // namespace

HistoryVerdict CheckQueueHistory(const QueueHistory& history, std::size_t capacity,
                                 std::size_t max_steps) {
  HistoryCheck check(history, capacity, false);
  HistoryVerdict verdict = check.Run(max_steps);
  if (verdict.kind != HistoryVerdict::Kind::kViolation || !check.MayBeCancelled()) return verdict;
  const HistoryVerdict drained = HistoryCheck(history, capacity, true).Run(max_steps);
  return drained.kind == HistoryVerdict::Kind::kViolation ? verdict : drained;
}

HistoryVerdict CheckEndings(const QueueHistory& history) {
  Stamp failure_begun = kNever;
  Stamp close_begun = kNever;
  Stamp killed_by = kNever;
  Stamp failed_by = kNever;
  for (const Operation& operation : history) {
    if (operation.kind == OperationKind::kClose) {
      close_begun = std::min(close_begun, operation.invoked);
    } else if (IsEnding(operation.kind)) {
      failure_begun = std::min(failure_begun, operation.invoked);
    }
    if (operation.kind == OperationKind::kCancel) {
      killed_by = std::min(killed_by, operation.answered);
    }
    if (operation.result == QueueResult::kFailed) {
      failed_by = std::min(failed_by, operation.answered);
    }
  }
  for (const Operation& operation : history) {
    if (operation.kind != OperationKind::kPop) continue;
    if (operation.result == QueueResult::kFailed && operation.answered < failure_begun) {
      return Violation("a pop failed before anyone ended it by a failure" + Span(operation));
    }
    if (operation.result != QueueResult::kClosed) continue;
    if (operation.answered < close_begun) {
      return Violation("a pop found an ordinary end that nobody had made" + Span(operation));
    }
    if (operation.invoked > std::min(killed_by, failed_by)) {
      return Violation("a pop found an ordinary end after the failure" + Span(operation));
    }
  }
  return {};
}

}  // namespace ringfeed::history
