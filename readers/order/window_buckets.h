#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ringfeed {

/// The window shuffle's queue: what arrives i-th has the key i + W * u, u = draw / 2^32, in fixed
/// point with 32 fractional bits, and leaves in the order of the keys, equal keys in the order of
/// i. A key is due once i has passed it: nothing to come can precede it. So nothing is held for
/// more than W positions, and memory is W entries.
///
/// Buckets of 64 positions stand in a ring; a bucket is sorted when it is due. Arrivals are placed
/// 64 at a time, so that the cache lines of their buckets, far apart, are fetched together.
///
/// `Held` is what is held of an arrival, as small as can be, since its place is a cache miss. It is
/// trivial, with a member `fraction` and a function within(), both as At gave them.
template <class Held>
class WindowBuckets {
 public:
  static constexpr std::uint32_t kBucketPositions = 64;

  /// Where an arrival goes.
  struct Target {
    std::uint32_t bucket = 0;    ///< in the ring
    std::uint32_t within = 0;    ///< position in its bucket, less than 64
    std::uint32_t fraction = 0;  ///< of its key
  };

  explicit WindowBuckets(std::uint64_t window)
      : window_(window),
        buckets_(static_cast<std::uint32_t>(window / kBucketPositions + 3)),
        counts_(buckets_),
        ring_(std::size_t{buckets_} * kBucketRows),
        spills_(buckets_) {}

  /// The number of the next arrival.
  std::uint64_t arrived() const { return arrived_; }

  /// Where the next arrival goes, by its draw.
  Target At(std::uint32_t draw) const {
    const std::uint64_t delay = window_ * draw;
    const std::uint64_t position = arrived_ + (delay >> 32);
    return {static_cast<std::uint32_t>(position / kBucketPositions % buckets_),
            static_cast<std::uint32_t>(position % kBucketPositions),
            static_cast<std::uint32_t>(delay)};
  }
  /// Puts the next arrival there. One that is not put keeps its number.
  void Put(const Target& target, const Held& held) {
    const std::uint32_t at = counts_[target.bucket] % kBucketRows;
    __builtin_prefetch(&ring_[std::size_t{target.bucket} * kBucketRows + at], 1);
    pending_[pending_rows_++] = {target.bucket, held};
  }
  /// Goes to the next number. True where buckets may be due.
  bool Arrive() {
    ++arrived_;
    if (arrived_ % kBucketPositions != 0) return false;
    Insert();
    return true;
  }
  /// Whether nothing to come belongs into the oldest bucket.
  bool due() const { return (first_bucket_ + 1) * kBucketPositions <= arrived_; }

  /// Nothing more arrives: what is held is taken until `holds` is false.
  void Close() { Insert(); }
  bool holds() const { return first_bucket_ <= (arrived_ + window_) / kBucketPositions; }

  /// How many the oldest bucket holds.
  std::uint32_t oldest() const { return counts_[first_bucket_ % buckets_]; }
  /// Takes the oldest bucket, in order; valid until the next call.
  std::span<const Held> Take() {
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
    const std::size_t bucket = first_bucket_++ % buckets_;
    counts_[bucket] = 0;
    spills_[bucket].clear();
  }

  /// Forgets what it holds; the next arrival has number `arrived`, a multiple of 64.
  void Restart(std::uint64_t arrived) {
    for (std::uint32_t i = 0; i < buckets_; ++i) {
      if (counts_[i] > kBucketRows) spills_[i].clear();
      counts_[i] = 0;
    }
    pending_rows_ = 0;
    arrived_ = arrived;
    first_bucket_ = arrived / kBucketPositions;
  }

 private:
  /// Entries that a bucket has room for in the ring; 64 are expected, the rest stands in its spill.
  static constexpr std::uint32_t kBucketRows = 128;

  struct Pending {
    std::uint32_t bucket;
    Held held;
  };

  void Insert() {
    for (std::uint32_t i = 0; i < pending_rows_; ++i) {
      const Pending& pending = pending_[i];
      const std::uint32_t at = counts_[pending.bucket]++;
      if (at < kBucketRows) [[likely]] {
        ring_[std::size_t{pending.bucket} * kBucketRows + at] = pending.held;
      } else {
        spills_[pending.bucket].push_back(pending.held);
      }
    }
    pending_rows_ = 0;
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

  const std::uint32_t buckets_;
  std::vector<std::uint32_t> counts_;  ///< in each bucket of the ring, spill included
  std::vector<Held> ring_;             ///< kBucketRows of each
  std::vector<std::vector<Held>> spills_;
  std::array<Pending, kBucketPositions> pending_;
  std::uint32_t pending_rows_ = 0;
  std::vector<Held> bucket_;
  std::vector<Held> sorted_;
};

}  // namespace ringfeed
