#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "readers/formats/tokens/megatron_index.h"

namespace ringfeed {

/// Megatron-LM's indexed dataset: an .idx file (see MegatronIndex) and the .bin file beside it. A
/// record is a sequence: its elements, little-endian, as they stand in the .bin file, whose bytes
/// are what is read. Either file may be named; only the .idx can be detected.
/// A writer is named the .idx file and makes both; it must be told what an element is.
struct MegatronElement {
  std::uint8_t code = 0;  ///< Megatron-LM's number for the type
  std::size_t bytes = 0;  ///< 0: not told
};

/// "", "u2", "i4", …: what follows "megatron:".
Status ParseMegatronElement(std::string_view text, MegatronElement* element);

std::shared_ptr<const Format> MegatronFormat(const MegatronElement& element);
RecordWriterResult NewMegatronWriter(std::unique_ptr<OutputFile> file,
                                     const MegatronElement& element);

/// OK where whoever reads takes the elements for what the index says that they are.
Status CheckMegatronElements(const MegatronIndex& index, const FramerOptions& options);

bool StartsAsMegatronIndex(std::span<const std::byte> head);

/// Takes sequences by themselves.
std::unique_ptr<UnitFramer> NewMegatronUnitFramer(const FramerOptions& options);
/// Where the sequences of a .bin file of so many bytes stand.
std::shared_ptr<const RecordIndex> NewMegatronRecords(std::shared_ptr<const MegatronIndex> index,
                                                      const FramerOptions& options);

/// What a damaged index costs, or a .bin file of another size: its framer's damage.
struct MegatronDamage {
  std::vector<std::uint64_t> lost;  ///< numbers of sequences, ascending
  std::vector<IndexDamage> ranges;  ///< sorted
};
MegatronDamage FindMegatronDamage(const FramerOptions& options,
                                  std::shared_ptr<const MegatronIndex> index);

/// Cuts a .bin file. What a damaged index costs: a sequence is believed where it begins at the end
/// of the one before it or behind that, and ends where the next one begins.
std::unique_ptr<Framer> NewMegatronFramer(const FramerOptions& options,
                                          std::shared_ptr<const MegatronIndex> index);

}  // namespace ringfeed
