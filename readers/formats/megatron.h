#pragma once

#include <memory>
#include <span>

#include "readers/formats/format.h"
#include "readers/formats/megatron_index.h"

namespace ringfeed {

/// Megatron-LM's indexed dataset: an .idx file (see MegatronIndex) and the .bin file beside it. A
/// record is a sequence: its elements, little-endian, as they stand in the .bin file, whose bytes
/// are what is read. Either file may be named; only the .idx can be detected.
std::shared_ptr<const Format> MegatronFormat();

bool StartsAsMegatronIndex(std::span<const std::byte> head);

/// Cuts a .bin file. What a damaged index costs: a sequence is believed where it begins at the end
/// of the one before it or behind that, and ends where the next one begins.
std::unique_ptr<Framer> NewMegatronFramer(const FramerOptions& options,
                                          std::shared_ptr<const MegatronIndex> index);

}  // namespace ringfeed
