#pragma once

namespace ringfeed {

/// A parser whose records name rows that come decoded in groups derives from it, too.
class GroupedRows {
 public:
  virtual ~GroupedRows() = default;
  /// Throws Error, with the ways out, if rows cannot be had singly at a fair price.
  virtual void CheckSingleRows() const = 0;
};

}  // namespace ringfeed
