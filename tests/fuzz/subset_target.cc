#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/crc32c.h"
#include "readers/engine/files/subset_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

/// Sets the checksums right: behind them is what a fuzzer would not reach.
void RepairSubset(std::vector<std::byte>* file) {
  SubsetHeader header;
  if (file->size() < sizeof(header)) return;
  std::memcpy(&header, file->data(), sizeof(header));
  header.numbers_checksum = Crc32c(std::span(*file).subspan(sizeof(header)));
  header.checksum = 0;
  header.checksum = Crc32c(std::as_bytes(std::span(&header, 1)));
  std::memcpy(file->data(), &header, sizeof(header));
}

}  // namespace

FuzzTarget SubsetTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const bool repairs = TakeByte(&input) % 2 != 0;
    StoredIndex stored;
    stored.memory.assign(input.begin(), input.end());
    if (repairs) RepairSubset(&stored.memory);
    std::shared_ptr<const SubsetFile> subset;
    if (!SubsetFile::Open(std::move(stored), &subset).ok()) return;
    std::vector<RowNumber> rows(std::min<std::uint64_t>(subset->count(), 100));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    FuzzExpect(subset->ToRows(rows).ok(), "what was checked has rows");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      FuzzExpect(rows[i] < subset->all(), "a row is one of the data's");
      FuzzExpect(subset->Before(rows[i]) == i, "rows ascend");
    }
    FuzzExpect(subset->Before(subset->all()) == subset->count(), "all are before the end");
    std::vector<RowNumber> behind = {subset->count()};
    FuzzExpect(!subset->ToRows(behind).ok(), "there are no more rows than it says");
    (void)subset->data();
  };
}

}  // namespace ringfeed
