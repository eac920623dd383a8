#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "tests/gpu/conformance/random_program.h"

namespace ringfeed {

/// A piece of work for a stream between host memory (0) and its device's (`memory`), of anything
/// that a device does. A kernel that needs a table on the device comes with the copy of it, as two
/// steps.
std::vector<ProgramStep> RandomWork(std::size_t stream, std::size_t memory,
                                    std::mt19937_64& random);

/// The start of host memory, which no work writes: tables that work reads.
void WriteTables(std::span<std::byte> host_memory);

}  // namespace ringfeed
