#pragma once

#include <memory>
#include <string>

#include "tests/combinations/chain_builder.h"
#include "tests/combinations/chain_data.h"
#include "tests/combinations/chain_space.h"

namespace ringfeed {

/// What one process needs for many trials.
struct TrialBench {
  /// `address` is the folder's at a web server; "": there is none.
  TrialBench(const std::string& folder, const std::string& address)
      : library(folder, address), scratch(folder + "/changed") {}
  DataLibrary library;
  ArenaShelf arenas;
  const std::string scratch;  ///< for files that a trial changes
};

/// Runs the chain of a configuration and compares it with the model. Returns what differs, in
/// words; "" where nothing does.
std::string RunTrial(const Configuration& configuration, TrialBench* bench);

}  // namespace ringfeed
