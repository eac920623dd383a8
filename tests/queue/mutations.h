#pragma once

#include "tests/queue/model_policy.h"

namespace ringfeed::checker {

// The shipped policy with one order weakened. Each must make some scenario fail.

// NOLINTBEGIN(bugprone-macro-parentheses): they name types and members.
#define RINGFEED_WEAKER(Name, member, order)                               \
  struct Name##Orders : QueueOrders {                                      \
    static constexpr std::memory_order member = std::memory_order_##order; \
  };                                                                       \
  using Name = ModelPolicy<Name##Orders>

// NOLINTEND(bugprone-macro-parentheses)

RINGFEED_WEAKER(ObserveRelaxed, kObserve, relaxed);
RINGFEED_WEAKER(PublishRelease, kPublish, release);
RINGFEED_WEAKER(PublishRelaxed, kPublish, relaxed);
RINGFEED_WEAKER(PublishBulkRelaxed, kPublishBulk, relaxed);
RINGFEED_WEAKER(LookupAcquire, kLookup, acquire);
RINGFEED_WEAKER(LookupRelaxed, kLookup, relaxed);
RINGFEED_WEAKER(BulkLookupRelaxed, kBulkLookup, relaxed);
RINGFEED_WEAKER(RegisterAcqRel, kRegister, acq_rel);
RINGFEED_WEAKER(RegisterRelaxed, kRegister, relaxed);
RINGFEED_WEAKER(RecheckAcquire, kRecheck, acquire);
RINGFEED_WEAKER(PassOnLookupAcquire, kPassOnLookup, acquire);
RINGFEED_WEAKER(PassOnLookupRelaxed, kPassOnLookup, relaxed);
RINGFEED_WEAKER(PassOnSlotAcquire, kPassOnSlot, acquire);
RINGFEED_WEAKER(PassOnSlotRelaxed, kPassOnSlot, relaxed);
RINGFEED_WEAKER(WakeAllRelaxed, kWakeAll, relaxed);
RINGFEED_WEAKER(WriteEndRelaxed, kWriteEnd, relaxed);
RINGFEED_WEAKER(ReadEndRelaxed, kReadEnd, relaxed);

RINGFEED_WEAKER(EntryLookRelaxed, kEntryLook, relaxed);
RINGFEED_WEAKER(EntryChangeRelaxed, kEntryChange, relaxed);
RINGFEED_WEAKER(TicketLookRelaxed, kTicketLook, relaxed);
RINGFEED_WEAKER(TicketLookAcquire, kTicketLook, acquire);
RINGFEED_WEAKER(TicketDrawRelaxed, kTicketDraw, relaxed);
RINGFEED_WEAKER(TicketDrawAcqRel, kTicketDraw, acq_rel);
RINGFEED_WEAKER(ThresholdLookAcquire, kThresholdLook, acquire);
RINGFEED_WEAKER(ThresholdChangeRelease, kThresholdChange, release);

// A compare-and-swap in two steps: two threads may claim the same.
template <typename U>
struct TornAtomic : ModelAtomic<U> {
  using ModelAtomic<U>::ModelAtomic;
  bool compare_exchange_weak(U& expected, U desired, std::memory_order success,
                             std::memory_order failure) {
    const U found = this->load(failure);
    const bool equal = found == expected;
    if (equal) this->store(desired, success);
    expected = found;
    return equal;
  }
};

struct TornClaims : ModelPolicy<> {
  template <typename U>
  using Atomic = TornAtomic<U>;
};

#undef RINGFEED_WEAKER

}  // namespace ringfeed::checker
