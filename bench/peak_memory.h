#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace ringfeed::bench {

/// The most anonymous memory at a time that this process has, from the construction on. It looks
/// every 2 ms.
class PeakMemory {
 public:
  PeakMemory();
  std::uint64_t bytes();

 private:
  std::atomic<std::uint64_t> peak_;
  const std::jthread sampler_;
};

/// What it has now.
std::uint64_t AnonymousBytes();

}  // namespace ringfeed::bench
