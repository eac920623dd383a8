#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace ringfeed {

/// What is wrapped around a deflate stream.
enum class DeflateWrapper : std::uint8_t {
  kGzip,  ///< RFC 1952, with a CRC-32 and the length
  kZlib,  ///< RFC 1950, with an Adler-32
};

/// Decompresses one gzip member or zlib stream after another, piece by piece, and checks their
/// trailers. One thread at a time.
class Inflater {
 public:
  enum class Result : std::uint8_t {
    kNeedsInput,  ///< all input is used up, what it gave is written
    kNeedsRoom,   ///< the output is full
    kMemberEnds,  ///< a trailer was read and was right; the next call starts the next member
    kDamaged,     ///< see problem(); nothing more can be read before Restart
  };

  explicit Inflater(DeflateWrapper wrapper);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Takes from the front of *input and fills the front of *output, and moves both on.
  Result Inflate(std::span<const std::byte>* input, std::span<std::byte>* output);
  /// Forgets what was read: the next byte starts a member.
  void Restart();
  /// Whether a member was begun and has not ended.
  bool inside_member() const { return inside_; }
  std::string_view problem() const { return problem_; }

 private:
  struct State;
  const DeflateWrapper wrapper_;
  std::unique_ptr<State> state_;
  bool inside_ = false;
  std::string_view problem_;
};

}  // namespace ringfeed
