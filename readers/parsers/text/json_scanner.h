#pragma once

#include <cstddef>
#include <string_view>

namespace ringfeed {

/// Walks over one JSON text (RFC 8259), front to back, without recursion and without building
/// anything. What is passed over is checked as far as needed to find its end: strings, and that
/// brackets match. One thread at a time; the bytes are the caller's.
class JsonScanner {
 public:
  static constexpr std::size_t kMostDepth = 1000;

  explicit JsonScanner(std::string_view text)
      : begin_(text.data()), at_(text.data()), end_(text.data() + text.size()) {}

  void SkipBlanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
  }
  /// The next byte that is no blank, 0 at the end.
  char Peek() {
    SkipBlanks();
    return at_ != end_ ? *at_ : '\0';
  }
  /// Passes `c` if it is next, blanks aside.
  bool Take(char c) {
    if (Peek() != c || at_ == end_) return false;
    ++at_;
    return true;
  }
  /// Passes "true", "null", … if it is next.
  bool TakeWord(std::string_view word) {
    if (!std::string_view(at_, rest()).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  /// Passes a string: the bytes between its quotes, and whether there are escapes among them.
  bool TakeString(std::string_view* raw, bool* escaped);
  /// Passes a value of any kind.
  bool SkipValue();

  const char* at() const { return at_; }
  const char* end() const { return end_; }
  void MoveTo(const char* at) { at_ = at; }
  std::size_t offset() const { return static_cast<std::size_t>(at_ - begin_); }
  std::size_t rest() const { return static_cast<std::size_t>(end_ - at_); }

 private:
  const char* begin_;
  const char* at_;
  const char* end_;
};

/// Writes what a string with escapes means to `to`, which has room for raw.size() bytes: UTF-8 for
/// \uXXXX, U+FFFD for half a pair of surrogates. Bytes that are no escape stay as they are. False
/// if an escape is malformed.
bool UnescapeJson(std::string_view raw, char* to, std::size_t* size);

}  // namespace ringfeed
