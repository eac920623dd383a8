#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace ringfeed {

/// The window shuffle's queue: what arrives i-th has the key i + W * u, u = draw / 2^32, in fixed
/// point with 32 fractional bits, and leaves in the order of the keys, equal keys in the order of
/// i. A key is due once i has passed it: nothing to come can precede it. So nothing is held for
/// more than W positions, and memory is W entries, or, if less is held, that times a constant.
///
/// Buckets of 64 positions form a ring; a bucket is sorted when it is due. Arrivals are placed
/// 64 at a time, so that the cache lines of their buckets, far apart, are fetched together. A large
/// window has a ring once a sixteenth of it is held, and until then a heap: a window may be far
/// larger than the data.
///
/// `Held` is what is held for an arrival, as small as possible, since its place is a cache miss. It
/// is trivial, with a member `fraction` and a function within(), both as At gave them.
template <class Held>
class WindowBuckets {
 public:
  static constexpr std::uint32_t kBucketPositions = 64;

  /// The place of an arrival.
  struct Target {
    std::uint64_t bucket = 0;    ///< its place in the ring if there is one; else its number
    std::uint32_t within = 0;    ///< position in its bucket, less than 64
    std::uint32_t fraction = 0;  ///< of its key
  };

  explicit WindowBuckets(std::uint64_t window)
      : window_(window),
        buckets_(window / kBucketPositions + 3),
        few_(static_cast<std::size_t>(window / kRingShare)) {
    if (window <= kSmallWindow) MakeRing();
  }

  /// The number of the next arrival.
  std::uint64_t arrived() const { return arrived_; }

  /// The target of the next arrival, by its draw.
  Target At(std::uint32_t draw) const {
    const std::uint64_t low = (window_ & 0xFFFFFFFFu) * draw;
    const std::uint64_t position = arrived_ + (window_ >> 32) * draw + (low >> 32);
    const std::uint64_t bucket = position / kBucketPositions;
    return {has_ring() ? bucket % buckets_ : bucket,
            static_cast<std::uint32_t>(position % kBucketPositions),
            static_cast<std::uint32_t>(low)};
  }
  /// Puts the next arrival there. An arrival that is not put keeps its number.
  void Put(const Target& target, const Held& held) {
    if (has_ring()) [[likely]] {
      const std::uint32_t at = counts_[target.bucket] % kBucketRows;
      __builtin_prefetch(&ring_[target.bucket * kBucketRows + at], 1);
    }
    pending_[pending_rows_++] = {target.bucket, held};
  }
  /// Goes to the next number. True if buckets may be due.
  bool Arrive() {
    ++arrived_;
    if (arrived_ % kBucketPositions != 0) return false;
    Insert();
    return true;
  }
  /// Whether no later arrival belongs into the oldest bucket.
  bool due() const { return (first_bucket_ + 1) * kBucketPositions <= arrived_; }

  /// Nothing more arrives: what is held is taken until `holds` is false.
  void Close() { Insert(); }
  bool holds() {
    if (has_ring()) return first_bucket_ <= (arrived_ + window_) / kBucketPositions;
    if (gathered_) return true;
    if (early_.empty()) return false;
    first_bucket_ = early_.front().bucket;  // none before it holds anything
    return true;
  }

  /// How many the oldest bucket holds.
  std::size_t oldest() {
    if (has_ring()) return counts_[first_bucket_ % buckets_];
    Gather();
    return bucket_.size();
  }
  /// Takes the oldest bucket, in order; valid until the next call.
  std::span<const Held> Take() {
    if (!has_ring()) {
      Gather();
      Sort(bucket_);
      Forget();
      return sorted_;
    }
    const std::size_t bucket = first_bucket_++ % buckets_;
    const std::uint32_t count = std::exchange(counts_[bucket], 0);
    const Held* const first = ring_.data() + bucket * kBucketRows;
    if (count <= kBucketRows) {
      Sort({first, count});
    } else {
      bucket_.assign(first, first + kBucketRows);
      bucket_.insert(bucket_.end(), spills_[bucket].begin(), spills_[bucket].end());
      spills_[bucket].clear();
      Sort(bucket_);
    }
    return sorted_;
  }
  /// Drops the oldest bucket.
  void Drop() {
    if (!has_ring()) {
      Gather();
      return Forget();
    }
    const std::size_t bucket = first_bucket_++ % buckets_;
    counts_[bucket] = 0;
    spills_[bucket].clear();
  }

  /// Forgets what it holds; the next arrival has number `arrived`, a multiple of 64.
  void Restart(std::uint64_t arrived) {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] > kBucketRows) spills_[i].clear();
      counts_[i] = 0;
    }
    early_.clear();
    bucket_.clear();
    gathered_ = false;
    pending_rows_ = 0;
    arrived_ = arrived;
    first_bucket_ = arrived / kBucketPositions;
  }

 private:
  /// Entries that a bucket has room for in the ring; 64 are expected, the rest is in its spill.
  static constexpr std::uint32_t kBucketRows = 128;

  /// A smaller window has its ring from the beginning; a larger one once a share of it is held.
  static constexpr std::uint64_t kSmallWindow = 1 << 16;
  static constexpr std::uint64_t kRingShare = 16;

  struct Pending {
    std::uint64_t bucket;  ///< as Target has it
    Held held;
  };
  /// What is held without a ring.
  struct Early {
    std::uint64_t bucket;  ///< its number
    std::uint64_t arrival;
    Held held;
    /// Of a heap: the one that leaves last is the smallest.
    bool operator<(const Early& other) const {
      return bucket != other.bucket ? bucket > other.bucket : arrival > other.arrival;
    }
  };

  bool has_ring() const { return !counts_.empty(); }

  void MakeRing() {
    ring_.resize(static_cast<std::size_t>(buckets_) * kBucketRows);
    spills_.resize(static_cast<std::size_t>(buckets_));
    counts_.resize(static_cast<std::size_t>(buckets_));
  }

  void Insert() {
    for (std::uint32_t i = 0; i < pending_rows_; ++i) {
      const Pending& pending = pending_[i];
      if (has_ring()) [[likely]] {
        InsertAt(static_cast<std::size_t>(pending.bucket), pending.held);
      } else {
        early_.push_back({pending.bucket, arrivals_++, pending.held});
        std::push_heap(early_.begin(), early_.end());
      }
    }
    pending_rows_ = 0;
    if (!has_ring() && early_.size() > few_) MoveToRing();
  }

  void InsertAt(std::size_t bucket, const Held& held) {
    const std::uint32_t at = counts_[bucket]++;
    if (at < kBucketRows) [[likely]] {
      ring_[bucket * kBucketRows + at] = held;
    } else {
      spills_[bucket].push_back(held);
    }
  }

  void MoveToRing() {
    assert(!gathered_);
    try {
      MakeRing();
    } catch (const std::bad_alloc&) {
      few_ *= 2;  // the heap does, more slowly
      return;
    }
    std::sort(early_.begin(), early_.end(),
              [](const Early& a, const Early& b) { return a.arrival < b.arrival; });
    for (const Early& each : early_) {
      InsertAt(static_cast<std::size_t>(each.bucket % buckets_), each.held);
    }
    early_ = {};
  }

  /// Without a ring: moves the entries of the oldest bucket into bucket_, in arrival order.
  void Gather() {
    if (gathered_) return;
    gathered_ = true;
    while (!early_.empty() && early_.front().bucket == first_bucket_) {
      bucket_.push_back(early_.front().held);
      std::pop_heap(early_.begin(), early_.end());
      early_.pop_back();
    }
  }
  void Forget() {
    bucket_.clear();
    gathered_ = false;
    ++first_bucket_;
  }

  void Sort(std::span<const Held> held) {
    // A counting sort by position, then the few of one position by fraction: arrival order is kept
    // among equals, so ties fall to the smaller i.
    std::array<std::uint32_t, kBucketPositions + 1> starts{};
    for (const Held& each : held) ++starts[each.within() + 1];
    for (std::size_t i = 1; i <= kBucketPositions; ++i) starts[i] += starts[i - 1];
    if (sorted_.size() != held.size()) sorted_.resize(held.size());
    for (const Held& each : held) sorted_[starts[each.within()]++] = each;
    const auto key = [](const Held& each) {
      return std::uint64_t{each.within()} << 32 | each.fraction;
    };
    for (std::size_t i = 1; i < sorted_.size(); ++i) {
      const Held each = sorted_[i];
      std::size_t at = i;
      for (; at > 0 && key(each) < key(sorted_[at - 1]); --at) sorted_[at] = sorted_[at - 1];
      if (at != i) sorted_[at] = each;
    }
  }

  const std::uint64_t window_;
  std::uint64_t arrived_ = 0;
  std::uint64_t first_bucket_ = 0;  ///< number of the oldest bucket that was not taken

  const std::uint64_t buckets_;
  std::vector<std::uint32_t> counts_;  ///< in each bucket of the ring, spill included
  std::vector<Held> ring_;             ///< kBucketRows of each
  std::vector<std::vector<Held>> spills_;
  std::size_t few_;           ///< so many are held without a ring
  std::vector<Early> early_;  ///< a heap
  std::uint64_t arrivals_ = 0;
  bool gathered_ = false;  ///< bucket_ has what the oldest bucket holds
  std::array<Pending, kBucketPositions> pending_;
  std::uint32_t pending_rows_ = 0;
  std::vector<Held> bucket_;
  std::vector<Held> sorted_;
};

}  // namespace ringfeed
