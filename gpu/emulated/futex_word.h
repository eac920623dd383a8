#pragma once

#include <atomic>
#include <cstdint>

namespace ringfeed {

// Sleeping on a word. Not std::atomic::wait: its bookkeeping orders the one who wakes behind the
// one who slept, and with that a host behind what its device did, as no device does; a race in the
// code that runs on emulated devices would be hidden from ThreadSanitizer.

/// Returns when the word may be another than `seen`, by WakeAll or for no reason, or after most_ns.
void AwaitChange(const std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t most_ns);
/// To be called after every change. Looks at nothing that a sleeper wrote.
void WakeAll(const std::atomic<std::uint32_t>& word);

}  // namespace ringfeed
