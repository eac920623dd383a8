#pragma once

#include <cstddef>
#include <string>

namespace ringfeed {

class Arena;

/// Which pipelines of the process hold how much of an arena by quota, for those who get none.
/// Thread safe.
class QuotaHolders {
 public:
  /// The process's.
  static QuotaHolders& All();

  /// `holder` holds so much now; 0: nothing more. `name` says what it reads.
  void Note(const Arena& arena, const void* holder, std::size_t bytes, const std::string& name);
  /// "3 pipelines of a.tfrecord hold 125829120 bytes, …": those that hold most; "" where there are
  /// none.
  std::string Describe(const Arena& arena) const;
};

}  // namespace ringfeed
