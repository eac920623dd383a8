#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "ringfeed/compat/py_reader.h"
#include "ringfeed/queue/blocking_queue.h"
#include "ringfeed/ringfeed.h"
#include "tests/combinations/chain_data.h"
#include "tests/combinations/chain_space.h"

namespace ringfeed {

/// A chain and what runs beside it.
struct BuiltChain {
  std::vector<Reader> readers;  ///< one, or those that share one
  std::vector<std::jthread> writers;
  std::unique_ptr<QueueProducer> producer;

  Reader& reader() { return readers.front(); }
  /// Closes what is read, before what is beside it ends.
  ~BuiltChain();
  BuiltChain() = default;
  BuiltChain(BuiltChain&&) = default;
  BuiltChain& operator=(BuiltChain&&) = default;
};

/// Arenas cost a while: chains one after another share them.
class ArenaShelf {
 public:
  std::shared_ptr<PinnedArena> Get(const Configuration& configuration);

 private:
  std::map<std::uint64_t, std::shared_ptr<PinnedArena>> arenas_;
};

/// Calls of user's functions by the library's threads so far, in this process.
std::uint64_t UserCalls();
/// The next `calls` calls take a millisecond each.
void SlowUserCalls(std::int64_t calls);
/// While it lives each call waits until the run that it is made for is to stop, 2 seconds at most.
/// Behind it none is slow any more. One at a time.
class HeldUserCalls {
 public:
  HeldUserCalls();
  ~HeldUserCalls();
  HeldUserCalls(const HeldUserCalls&) = delete;
  HeldUserCalls& operator=(const HeldUserCalls&) = delete;
};

/// Forgets which random numbers rows had: those of one configuration are the same in all its runs.
void ForgetDraws();

/// The chain that a configuration describes, of one rank of `ranks`. A mixture's second set has
/// that weight. Throws Error where the library refuses it.
BuiltChain BuildChain(const Configuration& configuration, const ChainData& data,
                      const std::shared_ptr<PinnedArena>& arena, std::uint64_t rank,
                      std::uint64_t ranks, double second_weight = 1);

}  // namespace ringfeed
