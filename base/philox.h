#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace ringfeed {

/// What a draw is for: part of its counter, so that draws for different purposes never coincide.
enum class DrawPurpose : std::uint32_t {
  kWindowShuffle = 1,
  kBlockShuffle = 2,
  kFileOrder = 3,
  kSampleOrder = 4,
  kRandomData = 5,
  kBlockOrder = 6,
  kGlobalOrder = 7,
  kRowNumbers = 8,
  kShareOrder = 9,
  kStepOrder = 10,
  kDocumentOrder = 11,
};

/// Four 32-bit draws as a pure function of key and counter: Philox4x32-10 of Salmon, Moraes, Dror
/// and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The same on every machine.
constexpr std::array<std::uint32_t, 4> Philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

/// The sequence of 32-bit draws of (seed, epoch, purpose): draw t is word t mod 4 of the Philox
/// block with key (seed low, seed high) and counter (t / 4, epoch, purpose, t / 4 >> 32). Remembers
/// the blocks around the last draw: draws in order cost a quarter of a block each, and blocks that
/// are computed together do not wait for each other's multiplications. Not thread safe; cheap to
/// copy.
class DrawSequence {
 public:
  DrawSequence(std::uint64_t seed, std::uint32_t epoch, DrawPurpose purpose)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
        epoch_(epoch),
        purpose_(static_cast<std::uint32_t>(purpose)) {}

  std::uint32_t At(std::uint64_t t) {
    const std::uint64_t group = t / kGroupDraws;
    if (group != group_) Compute(group);
    return words_[t % kGroupDraws];
  }

 private:
  static constexpr std::uint64_t kGroupDraws = 16;

  void Compute(std::uint64_t group) {
    for (std::uint64_t i = 0; i < kGroupDraws; i += 4) {
      const std::uint64_t block = (group * kGroupDraws + i) / 4;
      const auto words = Philox4x32({static_cast<std::uint32_t>(block), epoch_, purpose_,
                                     static_cast<std::uint32_t>(block >> 32)},
                                    key_);
      std::copy(words.begin(), words.end(), words_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    group_ = group;
  }

  std::array<std::uint32_t, 2> key_;
  std::uint32_t epoch_;
  std::uint32_t purpose_;
  std::uint64_t group_ = ~std::uint64_t{0};
  std::array<std::uint32_t, kGroupDraws> words_{};
};

}  // namespace ringfeed
