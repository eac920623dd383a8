#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace ringfeed::tools {

/// From where a run goes on, how far, and what it leaves behind for the next one.
struct TrailOptions {
  std::string position_in;
  std::string position_out;
  std::uint64_t position_every = 0;  ///< batches; 0: at the end alone
  std::uint64_t max_batches = 0;     ///< of all ranks together, in this run; 0: to the end
  std::string journal;

  /// Whether the run has to know where each batch comes from.
  bool follows_batches() const {
    return !position_out.empty() || max_batches > 0 || !journal.empty();
  }
  bool any() const { return follows_batches() || !position_in.empty(); }
};
/// Adds their options.
void AddTrailOptions(CLI::App* app, TrailOptions* options);

}  // namespace ringfeed::tools
