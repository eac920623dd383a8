#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/queue/queue_history.h"

namespace ringfeed::history {

// Whether a history of a bounded queue is linearizable: whether each call can be given one moment
// between its invocation and its answer, so that the queue below, called at those moments by one
// thread, gives the same answers.
//
// The queue holds at most `capacity` items, first in, first out. It is open or closed, and its pops
// are cancelled or not. Its answers:
//
//   push  kOk       open, and fewer than `capacity` items: appends the item
//         kClosed   closed
//         kFull     open, and `capacity` items; or open, and during this call another one is under
//                   way that may hold a place: a pop that takes an item, or a push that is accepted
//                   or closed in the end
//         kTimeout, kStopped   as kFull
//   pop   kOk       not cancelled: takes the first item
//         kClosed   cancelled, or closed and empty
//         kEmpty    open, not cancelled, and empty
//         kTimeout, kStopped   as kEmpty
//   Close           closes
//   Cancel          cancels the pops at one moment and closes at a later one: it is not one step
//
// Who claims it:
//   MpmcRing     a bulk call is one push or pop per item, in order, during the call.
//   Channel      Kill is its Cancel. Its answer for the end is kFailed in the place of kClosed if
//   it
//                ended by a failure: see CheckEndings.
//   LoDTensorBlockingQueue   the same; it has no try forms. Not in speed test mode, where pops take
//                nothing.
// SequencedRing is no such queue: its callers number the items, an earlier put may be taken later,
// and a put is refused by its number, not by how many items there are.

struct HistoryVerdict {
  enum class Kind : std::uint8_t { kLinearizable, kViolation, kUndecided };
  Kind kind = Kind::kLinearizable;
  std::string why;        // empty where it is linearizable
  std::size_t steps = 0;  // of the search

  bool ok() const { return kind == Kind::kLinearizable; }
};

// The exact verdict; kUndecided after `max_steps`. Every call of the history was answered, and its
// values are distinct.
//
// Method. Values are distinct, so an item's push and pop are known, and what has to be found is one
// order of the items. As Henzinger, Sezgin and Vafeiadis ("Aspect-oriented linearizability proofs",
// CONCUR 2013) showed for queues without a bound, the times of the pushes and those of the pops
// each give a partial order, and any order that extends both will do, unless a pair contradicts
// itself. Closing only narrows the times in which calls may have taken effect. A bound, and answers
// that say full or empty, make the choice matter: a depth-first search places items and such
// answers one by one, each as early as it may stand, and remembers from where it failed (as Wing
// and Gong's search does with Lowe's memory of configurations, "Testing for linearizability",
// 2017). Few threads leave few candidates at each place.
HistoryVerdict CheckQueueHistory(const QueueHistory& history, std::size_t capacity,
                                 std::size_t max_steps = 20'000'000);

// Of a channel, which call ended it: kFailed needs a Kill or a Close with a failure that had begun;
// kClosed needs an ordinary Close that had begun, comes neither after a Kill that was done nor
// after a kFailed that was answered.
HistoryVerdict CheckEndings(const QueueHistory& history);

}  // namespace ringfeed::history
