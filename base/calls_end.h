#pragma once

#include <functional>

namespace ringfeed {

/// As long as one lives, `should_end` ends calls of its thread that wait for others, such as a
/// store's answer: they look at it, and return kCancelled within about a second. Within another
/// one's life it takes its place.
class CallsEnd {
 public:
  using Asked = std::function<bool()>;

  explicit CallsEnd(Asked should_end);
  ~CallsEnd();
  CallsEnd(const CallsEnd&) = delete;
  CallsEnd& operator=(const CallsEnd&) = delete;

  /// What calls of this thread ask; may be empty.
  static Asked OfThread();

 private:
  const Asked should_end_;
  const CallsEnd* const outer_;
};

}  // namespace ringfeed
