#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/refuse.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "readers/engine/files/subset_file.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

namespace {

/// The records of a chain's data by their numbers.
std::shared_ptr<const IndexedSource> DataOf(const ReaderSession& session, ChainOrder* order) {
  std::string why = "sets of files are mixed: write a subset of each";
  std::shared_ptr<const IndexedSource> data;
  if (session.plan().source.mix == nullptr) data = order->Index(&why);
  if (data == nullptr) Refuse("a subset is of the records of a list of files: " + why);
  return data;
}

void Keep(std::vector<std::uint64_t> numbers, const IndexedSource& data, const std::string& path) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  const std::uint64_t records = data.fingerprint().records;
  if (!numbers.empty() && numbers.back() >= records) {
    Refuse("there is no record " + std::to_string(numbers.back()) + ": the files have " +
           std::to_string(records) + ", of which the first is 0");
  }
  SaveSubset(path, numbers, data.fingerprint());
}

}  // namespace

void WriteSubset(const Reader& files, std::span<const std::uint64_t> numbers,
                 const std::string& path) {
  const auto session = ReaderAccess::SessionOf(files);
  Keep({numbers.begin(), numbers.end()}, *DataOf(*session, &session->order()), path);
}

void WriteSubset(Reader chain, const std::string& path) {
  const auto session = ReaderAccess::SessionOf(chain);
  if (!session->plan().source.options.note_records) {
    Refuse("a subset is written of records that are noted: open the files with note_records");
  }
  const bool in_blocks = session->plan().parser == nullptr;
  std::vector<RecordRange> kept;
  ReadResult result = ReadResult::kRecord;
  Instance batch;
  RecordBlock block;
  BatchOrigin origin;
  while (true) {
    result = in_blocks ? chain.TryReadBlock(&block, {.origin = &origin})
                       : chain.TryReadNext(&batch, {.origin = &origin});
    if (result != ReadResult::kRecord) break;
    for (const RecordRange& range : origin.records) {
      const bool follows = !kept.empty() && kept.back().file == range.file &&
                           kept.back().first + kept.back().count == range.first;
      if (follows) {
        kept.back().count += range.count;
      } else {
        kept.push_back(range);
      }
    }
  }
  if (result == ReadResult::kFailed) throw Error(chain.status());
  const auto data = DataOf(*session, &session->order());
  std::vector<std::uint64_t> numbers;
  for (const RecordRange& range : kept) {
    const RowNumber first = data->table()->FirstRow(range.file) + range.first;
    for (std::uint64_t i = 0; i < range.count; ++i) numbers.push_back(first + i);
  }
  Keep(std::move(numbers), *data, path);
}

}  // namespace ringfeed
