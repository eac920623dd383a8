#pragma once

#include <functional>
#include <utility>

namespace ringfeed {

/// A descriptor that children do not get: neither programs started by exec, nor a child of fork, in
/// which it is closed before fork returns. So a child answers no request to its parent, and a
/// client learns of the parent's end at once.
class OwnDescriptor {
 public:
  OwnDescriptor() = default;
  /// make() opens one, with CLOEXEC, and returns it, or -1 with errno. No fork can come between
  /// that and the note of it. Also empty, with EMFILE, if the process has as many as can be noted.
  /// make() must not wait: every fork of the process would.
  static OwnDescriptor Open(const std::function<int()>& make);
  /// The same for an open one, for opens that may wait, as with a hanging file system. Empty for
  /// -1, with errno unchanged.
  static OwnDescriptor Keep(int number);
  ~OwnDescriptor() { Close(); }
  OwnDescriptor(OwnDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void Close() noexcept;

 private:
  explicit OwnDescriptor(int number) : number_(number) {}
  int number_ = -1;
};

}  // namespace ringfeed
