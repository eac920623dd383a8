#include <algorithm>
#include <vector>

#include "base/little_endian.h"
#include "io/remote/piece_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {

FuzzTarget PieceTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    std::vector<std::byte> file(input.begin(), input.end());
    PieceFooter footer;
    std::uint64_t needed = 0;
    Status status = DecodePieceFooter(file, file.size(), &footer, &needed);
    if (!status.ok() && needed <= file.size() && needed > sizeof(std::uint64_t)) {
      // Its checksum set right: behind it is what a fuzzer would not reach.
      const auto summed = std::span<const std::byte>(file).last(needed);
      StoreLe(file.data() + file.size() - sizeof(std::uint64_t),
              PieceBlockSum(summed.first(summed.size() - sizeof(std::uint64_t))));
      status = DecodePieceFooter(file, file.size(), &footer, &needed);
    }
    if (!status.ok()) return;
    FuzzExpect(IsPieceFileName(PieceFileName(footer.object, footer.number)), "it has a name");
    FuzzExpect(PieceFileBytes(footer.object, footer.number) == file.size(), "its size is told");
    const std::vector<std::byte> again = EncodePieceFooter(footer);
    FuzzExpect(std::ranges::equal(again, std::span(file).last(again.size())),
               "a footer that is read is written the same");
    (void)PieceBlocksMatch(footer, 0, std::span(file).first(footer.piece_bytes()));
  };
}

}  // namespace ringfeed
