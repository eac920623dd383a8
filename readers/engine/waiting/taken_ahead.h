#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "ringfeed/detail/queue_policy.h"

namespace ringfeed {

/// How much a chain has taken from a generator, a queue or a stream beyond what was handed out:
/// records that wait for the plan, and those that came to its end. What a stage of the order holds
/// counts nowhere, since the order needs it.
///
/// A lane may take more while that is below the limit. It may also take more while no delivery is
/// complete and the plan has used up what was taken: then only more records can complete one, even
/// a batch larger than the limit. So if a lane may not take, there is a delivery before it that a
/// consumer can take, and no thread waits for ever.
///
/// Thread safety: lanes call NotePublished, the thread that runs the plan NotePlanned, consumers
/// NoteTaken and NoteAsking, any thread the others. None waits. The caller of NotePlanned,
/// NoteTaken or NoteAsking wakes the lanes after that.
template <typename Policy>
class BasicTakenAhead {
 public:
  static constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
  struct Limits {
    std::uint64_t records = kNoLimit;
    std::uint64_t bytes = kNoLimit;
    /// What is taken counts as handed out when the next is asked for: if a delivery is records
    /// that the consumer gets one by one.
    bool handed_out_later = false;
  };
  /// So many records and their bytes.
  struct Amount {
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
  };
  /// What came to the end of the plan so far, in deliveries that will be; and how many of these are
  /// complete.
  struct Planned {
    Amount taken;
    std::uint64_t deliveries = 0;
  };

  /// Before all else.
  void set_limits(const Limits& limits) { limits_ = limits; }
  bool limited() const { return limits_.records != kNoLimit || limits_.bytes != kNoLimit; }
  bool counts_bytes() const { return limits_.bytes != kNoLimit; }

  /// Whether a lane may take more.
  bool MayTake() const { return !limited() || IsBelow(Ahead()) || NothingComes(); }
  /// How much one that may take can take before it asks again; always one record.
  Amount Room() const {
    if (!limited()) return {kNoLimit, kNoLimit};
    Amount ahead = Ahead();
    // The parts of an amount are read one after the other, so it may be too large, and no reason to
    // go beyond the limit.
    const bool beyond = !IsBelow(ahead) && NothingComes();
    if (beyond) ahead = Ahead();
    return {RoomOf(limits_.records, ahead.records, beyond),
            RoomOf(limits_.bytes, ahead.bytes, beyond)};
  }
  /// The most that it can take before it asks again while it is not beyond the limit. If a
  /// delivery is in hand until the next is asked for, that is a half: so there are two.
  Amount MostRoom() const { return {MostOf(limits_.records), MostOf(limits_.bytes)}; }

  void NotePublished(const Amount& amount) { Add(&waiting_, amount); }
  /// Of what was published so much was planned, and what the end of the plan has seen.
  void NotePlanned(const Amount& amount, const Planned& planned) {
    // In this order: what is counted twice meanwhile holds a lane back, and it is woken.
    Set(&planned_, planned.taken);
    deliveries_.store(planned.deliveries, std::memory_order_relaxed);
    waiting_.bytes.fetch_add(0 - amount.bytes, std::memory_order_relaxed);
    // Order: release pairs with the acquire in Waiting: a thread that sees that it waits no more
    // sees it planned.
    waiting_.records.fetch_add(0 - amount.records, std::memory_order_release);
  }
  /// A consumer took a delivery.
  void NoteTaken(const Amount& amount) {
    Add(limits_.handed_out_later ? &in_hand_ : &handed_out_, amount);
    // Order: release pairs with the acquire in NothingComes: a thread that sees it taken sees its
    // records handed out.
    taken_.fetch_add(1, std::memory_order_release);
  }
  /// A consumer asks for one; whether that changes anything.
  bool NoteAsking() {
    if (!limits_.handed_out_later) return false;
    const Amount amount{in_hand_.records.exchange(0, std::memory_order_relaxed),
                        in_hand_.bytes.exchange(0, std::memory_order_relaxed)};
    Add(&handed_out_, amount);
    return amount.records > 0;
  }

  /// So much is ahead.
  Amount Ahead() const {
    const Amount handed_out = Get(handed_out_);
    const std::uint64_t waiting_records = Waiting();
    const Amount waiting{waiting_records, waiting_.bytes.load(std::memory_order_relaxed)};
    const Amount planned = Get(planned_);
    return {waiting.records + planned.records - handed_out.records,
            waiting.bytes + planned.bytes - handed_out.bytes};
  }

 private:
  template <typename U>
  using Atomic = typename Policy::template Atomic<U>;
  struct Counts {
    Atomic<std::uint64_t> records{0};
    Atomic<std::uint64_t> bytes{0};
  };

  static void Add(Counts* counts, const Amount& amount) {
    counts->records.fetch_add(amount.records, std::memory_order_relaxed);
    counts->bytes.fetch_add(amount.bytes, std::memory_order_relaxed);
  }
  static void Set(Counts* counts, const Amount& amount) {
    counts->records.store(amount.records, std::memory_order_relaxed);
    counts->bytes.store(amount.bytes, std::memory_order_relaxed);
  }
  static Amount Get(const Counts& counts) {
    return {counts.records.load(std::memory_order_relaxed),
            counts.bytes.load(std::memory_order_relaxed)};
  }
  std::uint64_t Waiting() const { return waiting_.records.load(std::memory_order_acquire); }
  bool IsBelow(const Amount& ahead) const {
    return ahead.records < limits_.records && ahead.bytes < limits_.bytes;
  }
  /// Whether nothing that was taken will be handed out by itself.
  bool NothingComes() const {
    // Order: acquire pairs with the release in NoteTaken.
    return Waiting() == 0 &&
           deliveries_.load(std::memory_order_relaxed) == taken_.load(std::memory_order_acquire);
  }
  std::uint64_t MostOf(std::uint64_t limit) const {
    if (limit == kNoLimit || !limits_.handed_out_later) return limit;
    return std::max<std::uint64_t>(1, limit / 2);
  }
  /// Beyond the limit it goes on in small steps, until something is complete.
  std::uint64_t RoomOf(std::uint64_t limit, std::uint64_t ahead, bool beyond) const {
    if (limit == kNoLimit) return kNoLimit;
    if (ahead < limit) return std::min(limit - ahead, MostOf(limit));
    return beyond ? std::max<std::uint64_t>(1, limit / 8) : 1;
  }

  Limits limits_;
  Counts waiting_;                       ///< published, not planned
  Counts planned_;                       ///< as NotePlanned says, all so far
  Counts handed_out_;                    ///< all so far
  Counts in_hand_;                       ///< of a consumer that gets it one by one
  Atomic<std::uint64_t> deliveries_{0};  ///< complete, all so far
  Atomic<std::uint64_t> taken_{0};       ///< by consumers
};

using TakenAhead = BasicTakenAhead<NativeQueuePolicy>;

}  // namespace ringfeed
