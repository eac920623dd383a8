#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ringfeed {

/// Reads the header of a gzip member (RFC 1952 section 2.3) piece by piece, and checks its checksum
/// where it has one. ISA-L 2.30 takes reserved flags, and does not see that the checksum is wrong
/// where the header comes in pieces.
class GzipHeader {
 public:
  /// Takes from the front of *input as far as the header goes. False where it is wrong: problem()
  /// says how, and nothing more can be read before Restart.
  bool Read(std::span<const std::byte>* input);
  void Restart() { *this = {}; }
  bool complete() const { return part_ == Part::kEnd; }
  std::string_view problem() const { return problem_; }

 private:
  enum class Part : std::uint8_t { kFixed, kExtraSize, kExtra, kName, kComment, kChecksum, kEnd };
  static constexpr std::size_t kFixedBytes = 10;

  /// How many bytes of the input belong to the part at hand; goes on to the next part behind its
  /// last one.
  std::size_t Take(std::span<const std::byte> input);
  std::size_t TakeNumbers(std::span<const std::byte> input, std::size_t bytes);
  std::size_t TakeText(std::span<const std::byte> input, Part next);
  void EndNumbers();
  /// The part, or the first one behind it that the flags announce.
  void GoTo(Part part);

  Part part_ = Part::kFixed;
  unsigned flags_ = 0;
  std::array<std::byte, kFixedBytes> numbers_{};  ///< of the part at hand
  std::size_t filled_ = 0;                        ///< bytes of it that were taken
  std::size_t extra_bytes_ = 0;
  std::uint32_t crc_ = 0;  ///< of all in front of the checksum
  std::string_view problem_;
};

}  // namespace ringfeed
