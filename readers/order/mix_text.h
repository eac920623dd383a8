#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "readers/order/mix_cursor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// A mixture's state as text, in hexadecimal numbers: the pass, a hash of the weights, and for each
/// set what it gave in this pass and in this phase; of sets without end also what they gave before.
/// As a rule fewer than 24 bytes for each set.
std::string MixText(const MixState& state, std::span<const std::uint64_t> weights);

/// Reads it. *other_weights: it was reached by others than these. Fails with kInvalidArgument.
Status ParseMixText(const std::string& text, std::span<const std::uint64_t> weights,
                    MixState* state, bool* other_weights);

}  // namespace ringfeed
