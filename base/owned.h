#pragma once

#include <utility>

namespace ringfeed {

/// A structure of Arrow's that is released once, at the end of its life, unless it was taken.
template <typename Structure>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Structure taken) : structure_(taken) {}
  Owned(Owned&& other) noexcept : structure_(other.Take()) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(structure_, other.structure_);
    return *this;
  }
  ~Owned() {
    if (structure_.release != nullptr) structure_.release(&structure_);
  }

  Structure& operator*() { return structure_; }
  const Structure& operator*() const { return structure_; }
  Structure* operator->() { return &structure_; }
  const Structure* operator->() const { return &structure_; }
  bool is_released() const { return structure_.release == nullptr; }
  /// Moves it out: the caller releases it.
  Structure Take() { return std::exchange(structure_, {}); }

 private:
  Structure structure_{};
};

}  // namespace ringfeed
