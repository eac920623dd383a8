#include "base/highway_hash.h"

#include <cstring>

#include "base/cpu_features.h"
#include "base/x86_vectors.h"

namespace ringfeed {
namespace {

constexpr std::size_t kPacketBytes = 32;

// The compiler makes vectors of whatever the processor has of them.
using Lanes [[gnu::vector_size(kPacketBytes)]] = std::uint64_t;
using LaneBytes [[gnu::vector_size(kPacketBytes)]] = std::uint8_t;
using LaneHalves [[gnu::vector_size(kPacketBytes)]] = std::uint32_t;

constexpr Lanes kMul0 = {0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344,
                         0x243f6a8885a308d3};
constexpr Lanes kMul1 = {0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c,
                         0x452821e638d01377};
constexpr Lanes kLow = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff};

/// By reference alone: not every processor passes such a vector in a register.
struct HighwayState {
  Lanes v0;
  Lanes v1;
  Lanes mul0 = kMul0;
  Lanes mul1 = kMul1;
};

[[gnu::always_inline]] inline void AddZipped(const Lanes& from, Lanes* to) {
  LaneBytes bytes;
  std::memcpy(&bytes, &from, sizeof bytes);
  bytes =
      __builtin_shufflevector(bytes, bytes, 3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7,
                              19, 28, 18, 21, 30, 17, 31, 16, 27, 20, 26, 29, 25, 22, 24, 23);
  Lanes zipped;
  std::memcpy(&zipped, &bytes, sizeof zipped);
  *to += zipped;
}

[[gnu::always_inline]] inline void Update(const Lanes& packet, HighwayState* state) {
  state->v1 += state->mul0 + packet;
  state->mul0 ^= (state->v1 & kLow) * (state->v0 >> 32);
  state->v0 += state->mul1;
  state->mul1 ^= (state->v0 & kLow) * (state->v1 >> 32);
  AddZipped(state->v1, &state->v0);
  AddZipped(state->v0, &state->v1);
}

// The last bytes, fewer than a packet: where they stand in it depends on their number.
[[gnu::always_inline]] inline void UpdateRest(std::span<const std::byte> rest,
                                              HighwayState* state) {
  const std::size_t count = rest.size();
  const std::size_t whole = count & ~std::size_t{3};
  const std::size_t loose = count & 3;
  std::array<std::byte, kPacketBytes> bytes{};
  std::memcpy(bytes.data(), rest.data(), whole);
  if ((count & 16) != 0) {
    std::memcpy(bytes.data() + 28, rest.data() + count - 4, 4);
  } else if (loose != 0) {
    bytes[16] = rest[whole];
    bytes[17] = rest[whole + (loose >> 1)];
    bytes[18] = rest[count - 1];
  }
  state->v0 += (std::uint64_t{count} << 32) + count;
  LaneHalves halves;
  std::memcpy(&halves, &state->v1, sizeof halves);
  halves = halves << static_cast<std::uint32_t>(count) |
           halves >> static_cast<std::uint32_t>(32 - count);
  std::memcpy(&state->v1, &halves, sizeof halves);
  Lanes packet;
  std::memcpy(&packet, bytes.data(), sizeof packet);
  Update(packet, state);
}

// Takes all whole packets.
void UpdateAll(std::span<const std::byte> packets, HighwayState* state) {
  Lanes packet;
  for (; packets.size() >= kPacketBytes; packets = packets.subspan(kPacketBytes)) {
    std::memcpy(&packet, packets.data(), sizeof packet);
    Update(packet, state);
  }
}

#if defined(__x86_64__)
// The same by intrinsics. Of vectors alone GCC makes products of 64 bits by 64, out of three of the
// processor's: that takes three times as long.
__attribute__((target("avx2"))) void UpdateAllAvx2(std::span<const std::byte> packets,
                                                   HighwayState* state) {
  const __m256i zip = _mm256_setr_epi8(3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7, 3, 12,
                                       2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7);
  __m256i v0;
  __m256i v1;
  __m256i mul0;
  __m256i mul1;
  std::memcpy(&v0, &state->v0, sizeof v0);
  std::memcpy(&v1, &state->v1, sizeof v1);
  std::memcpy(&mul0, &state->mul0, sizeof mul0);
  std::memcpy(&mul1, &state->mul1, sizeof mul1);
  for (; packets.size() >= kPacketBytes; packets = packets.subspan(kPacketBytes)) {
    const __m256i packet = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packets.data()));
    v1 = _mm256_add_epi64(v1, _mm256_add_epi64(mul0, packet));
    mul0 = _mm256_xor_si256(mul0, _mm256_mul_epu32(v1, _mm256_srli_epi64(v0, 32)));
    v0 = _mm256_add_epi64(v0, mul1);
    mul1 = _mm256_xor_si256(mul1, _mm256_mul_epu32(v0, _mm256_srli_epi64(v1, 32)));
    v0 = _mm256_add_epi64(v0, _mm256_shuffle_epi8(v1, zip));
    v1 = _mm256_add_epi64(v1, _mm256_shuffle_epi8(v0, zip));
  }
  std::memcpy(&state->v0, &v0, sizeof v0);
  std::memcpy(&state->v1, &v1, sizeof v1);
  std::memcpy(&state->mul0, &mul0, sizeof mul0);
  std::memcpy(&state->mul1, &mul1, sizeof mul1);
}
#endif

}  // namespace

std::uint64_t HighwayHash64(std::span<const std::byte> data, const HighwayKey& key) {
  Lanes keys;
  std::memcpy(&keys, key.data(), sizeof keys);
  HighwayState state{.v0 = kMul0 ^ keys, .v1 = kMul1 ^ (keys >> 32 | keys << 32)};
#if defined(__x86_64__)
  if (Cpu().avx2) {
    UpdateAllAvx2(data, &state);
  } else {
    UpdateAll(data, &state);
  }
#else
  UpdateAll(data, &state);
#endif
  const std::span<const std::byte> rest = data.last(data.size() % kPacketBytes);
  if (!rest.empty()) UpdateRest(rest, &state);
  for (int round = 0; round < 4; ++round) {
    const Lanes turned = __builtin_shufflevector(state.v0, state.v0, 2, 3, 0, 1);
    Update(turned >> 32 | turned << 32, &state);
  }
  return state.v0[0] + state.v1[0] + state.mul0[0] + state.mul1[0];
}

}  // namespace ringfeed
