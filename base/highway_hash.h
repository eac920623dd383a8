#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringfeed {

using HighwayKey = std::array<std::uint64_t, 4>;

/// HighwayHash-64 (J. Alakuijala, B. Cox, J. Wassenberg: "Fast keyed hash/pseudo-random function
/// using SIMD multiply and permute", arXiv:1612.06257), as github.com/google/highwayhash has it.
/// Own code: Debian's library is a snapshot of 2020 without a release. Thread safe.
std::uint64_t HighwayHash64(std::span<const std::byte> data, const HighwayKey& key);

}  // namespace ringfeed
