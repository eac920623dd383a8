#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "io/remote/remote_engine.h"

namespace ringfeed::bench {

/// So many are asked for at a time.
inline constexpr std::size_t kInFlight = 64;

/// Equal ranges of one object that nginx serves on this machine. The answers to requests for them
/// have heads of the same length: all places have as many digits.
struct RangeWork {
  std::string url;
  std::uint16_t port = 0;  ///< of the server
  std::uint64_t first = 0;
  std::uint64_t different = 0;  ///< ranges; then the first comes again
  std::uint32_t bytes = 0;      ///< of each
  std::uint64_t ranges = 0;     ///< to be read

  std::uint64_t Offset(std::uint64_t range) const { return first + range % different * bytes; }
};
/// Up to `ranges` of about `bytes`, of a file that the server has as `url`.
RangeWork RangesOf(const std::string& file, std::uint64_t bytes, std::uint64_t ranges);

/// Reads all ranges once. With `digest` it sums the hashes of their bytes.
using RangeReader = std::function<LoopResult(bool digest)>;

/// By one of our engines, which all works of a server share.
RangeReader EngineRanges(const RangeWork& work, HttpPath path);
/// The floor: plain HTTP by epoll and readv on kInFlight connections, without a look at the heads.
/// Bad answers end the program.
RangeReader BareRanges(const RangeWork& work);
/// By `curl --parallel` to /dev/null. It has no digest, and its start is in its figures.
RangeReader CurlRanges(const std::vector<RangeWork>& works, const std::string& scratch);

}  // namespace ringfeed::bench
