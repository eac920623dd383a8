#include "readers/engine/waiting/memory_budget.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/per_process.h"
#include "base/refuse.h"

namespace ringfeed {

namespace {

/// Which pipelines of the process hold how much of an arena by quota, for messages to the others.
/// Thread safe.
class QuotaHolders {
 public:
  /// The process's.
  static QuotaHolders& All() {
    // Never destroyed: pipelines may end even later.
    static constinit PerProcess<QuotaHolders> holders;
    return holders.Get();
  }

  /// `holder` holds so much now; 0: nothing more. `name` says what it reads.
  void Note(const Arena& arena, const void* holder, std::size_t bytes, const std::string& name);
  /// "3 pipelines of a.tfrecord hold 125829120 bytes, …": those that hold most; "" if there are
  /// none.
  std::string Describe(const Arena& arena);

 private:
  static constexpr std::size_t kNamed = 3;
  struct Holding {
    std::size_t bytes = 0;
    std::string name;
  };
  std::mutex mutex_;  ///< guards what follows
  std::map<std::pair<const Arena*, const void*>, Holding> all_;
};

void QuotaHolders::Note(const Arena& arena, const void* holder, std::size_t bytes,
                        const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (bytes == 0) {
    all_.erase({&arena, holder});
  } else {
    all_[{&arena, holder}] = {bytes, name};
  }
}

std::string QuotaHolders::Describe(const Arena& arena) {
  struct Sum {
    std::size_t bytes = 0;
    std::size_t pipelines = 0;
  };
  std::map<std::string, Sum> sums;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, holding] : all_) {
      if (key.first != &arena) continue;
      sums[holding.name].bytes += holding.bytes;
      ++sums[holding.name].pipelines;
    }
  }
  std::vector<std::pair<std::string, Sum>> order(sums.begin(), sums.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), kNamed); ++i) {
    const auto& [name, sum] = order[i];
    const bool one = sum.pipelines == 1;
    text += (i == 0 ? "" : ", ") +
            (one ? "a pipeline" : std::to_string(sum.pipelines) + " pipelines") + " of " + name +
            (one ? " holds " : " hold ") + std::to_string(sum.bytes) + " bytes";
  }
  if (order.size() > kNamed) text += ", and others more";
  return text;
}

}  // namespace

MemoryBudget::MemoryBudget(std::shared_ptr<Arena> arena, std::size_t asked, std::string name)
    : arena_(std::move(arena)),
      asked_(asked),
      name_(std::move(name)),
      limit_(LimitOf(asked, *arena_)) {}

std::size_t MemoryBudget::LimitOf(std::size_t asked, const Arena& arena) {
  return asked != 0 ? asked : arena.unreserved_bytes() / 2;
}

bool MemoryBudget::TryReserve(std::size_t reading_bytes) {
  const std::size_t wanted = Wanted(reading_bytes);
  // Half of what is free is for others, and for pieces that find no contiguous place. But the chain
  // gets what it cannot do without.
  const std::size_t limit = asked_ == 0 ? std::max(limit_, wanted) : limit_;
  if (limit < wanted || !Hold(wanted)) return false;
  reading_ = reading_bytes;
  limit_ = limit;
  // Blocks held back for the order may use what reading and batches do not need.
  held_limit_ = (reserved_ - reading_) * 3 / 4;
  return true;
}

void MemoryBudget::Reserve(std::size_t reading_bytes) {
  if (!TryReserve(reading_bytes)) Refuse(Wanted(reading_bytes));
}

std::size_t MemoryBudget::Wanted(std::size_t reading_bytes) const {
  return std::max(asked_, reading_bytes + reading_bytes / 2);
}

void MemoryBudget::Release() {
  QuotaHolders::All().Note(*arena_, this, 0, {});
  arena_->ReleaseQuota(std::exchange(reserved_, 0));
}

void MemoryBudget::Refuse(std::size_t needed) const {
  std::string why;
  if (asked_ != 0 && asked_ < needed) {
    why = "this pipeline needs " + std::to_string(needed) +
          " bytes of the pinned arena, OpenOptions::arena_bytes gives it " +
          std::to_string(asked_) + "; raise that";
  } else {
    const std::string holders = QuotaHolders::All().Describe(*arena_);
    why = "the pinned arena of " + std::to_string(arena_->bytes()) + " bytes has " +
          std::to_string(arena_->unreserved_bytes()) + " left, this pipeline needs " +
          std::to_string(needed) + (holders.empty() ? "" : " (" + holders + ")") +
          "; raise the arena (RINGFEED_ARENA_BYTES), close other readers";
  }
  ringfeed::Refuse(StatusCode::kResourceExhausted,
                   why + ", or lower cycle, stripe_bytes or threads");
}

bool MemoryBudget::Hold(std::size_t bytes) {
  if (!arena_->ReserveQuota(bytes - reserved_)) return false;
  reserved_ = bytes;
  QuotaHolders::All().Note(*arena_, this, bytes, name_);
  return true;
}

bool MemoryBudget::Cover(std::size_t held_limit, std::size_t batches) {
  if (held_limit > MostHeld()) return false;
  const std::size_t wanted = std::min(reading_ + held_limit + batches, limit_);
  // What is kept comes back by itself: if the arena has no more, it is used until then.
  const std::size_t with_kept = wanted + keep_limit_.kept();
  const bool covered = with_kept <= reserved_ || (with_kept <= limit_ && Hold(with_kept));
  if (!covered && wanted > reserved_ && !Hold(wanted)) return false;
  held_limit_ = held_limit;
  batches_ = batches;
  keep_limit_.set_bytes(std::min(wanted_kept_, RestForKept()));
  return true;
}

std::size_t MemoryBudget::RestForKept() const {
  const std::size_t others = reading_ + held_limit_ + batches_;
  return reserved_ - std::min(reserved_, others);
}

void MemoryBudget::AllowKept(std::size_t bytes) {
  wanted_kept_ = std::min(bytes, (limit_ - reading_) / 4);
  keep_limit_.set_bytes(std::min(wanted_kept_, RestForKept()));
}

void MemoryBudget::GrowKept() {
  if (!kept_refused_.exchange(false, std::memory_order_relaxed)) return;
  const std::size_t most = keep_limit_.bytes();
  if (most >= wanted_kept_) return;
  // Other pipelines may need the unreserved memory: takes a part of it at a time.
  const std::size_t more = std::min(wanted_kept_ - most, arena_->unreserved_bytes() / 4);
  const std::size_t needed = reading_ + held_limit_ + batches_ + most + more;
  if (needed > limit_ || (needed > reserved_ && !Hold(needed))) return;
  keep_limit_.set_bytes(most + more);
}

bool MemoryBudget::Keep(std::size_t bytes) {
  if (keep_limit_.Keep(bytes)) return true;
  kept_refused_.store(true, std::memory_order_relaxed);
  return false;
}

bool MemoryBudget::GrowHeld(std::size_t needed) {
  // Others may need the rest: takes an eighth more than this, so that growth is seldom.
  const std::size_t roomy = std::min(needed + std::max(needed, held_limit_) / 8, MostHeld());
  return needed <= roomy && (Cover(roomy, batches_) || Cover(needed, batches_));
}

bool MemoryBudget::MayHold(std::size_t bytes) {
  const std::size_t needed = held_bytes() + bytes;
  return needed <= held_limit_ || GrowHeld(needed);
}

Status MemoryBudget::WhyNot() const {
  return Status(
      StatusCode::kResourceExhausted,
      "a shuffle or groups hold " + std::to_string(held_bytes()) +
          " bytes of records and need more, " + std::to_string(held_limit_) +
          " are this pipeline's share of the pinned arena; raise the arena "
          "(RINGFEED_ARENA_BYTES or OpenOptions::arena) or lower the window or the segment");
}

std::size_t MemoryBudget::GrantBatches(std::size_t bytes) {
  while (bytes > 0 && !Cover(held_limit_, bytes)) bytes /= 2;
  return bytes;
}

}  // namespace ringfeed
