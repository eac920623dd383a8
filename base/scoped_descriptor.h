#pragma once

#include <unistd.h>

namespace ringfeed {

/// Closes a descriptor in its destructor, if there is one (not -1).
class ScopedDescriptor {
 public:
  explicit ScopedDescriptor(int number) : number_(number) {}
  ~ScopedDescriptor() {
    if (number_ >= 0) (void)close(number_);
  }
  ScopedDescriptor(const ScopedDescriptor&) = delete;
  ScopedDescriptor& operator=(const ScopedDescriptor&) = delete;
  int get() const { return number_; }

 private:
  const int number_;
};

}  // namespace ringfeed
