#include "readers/formats/samples/sample_table.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

// Those of the offsets from `least` to `most` that ascend, as many as there can be. In place of a
// wrong number the one after it may be left out.
std::vector<bool> Believed(const std::vector<std::uint32_t>& offsets, std::uint64_t least,
                           std::uint64_t most) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const auto descends = std::adjacent_find(offsets.begin(), offsets.end(), std::greater_equal<>());
  if (descends == offsets.end() && offsets.front() >= least && offsets.back() <= most) {
    return std::vector<bool>(offsets.size(), true);
  }
  std::vector<std::size_t> ends;  // of the chain of each length the one that ends lowest
  std::vector<std::size_t> before(offsets.size(), kNone);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < least || offsets[i] > most) continue;
    const auto place =
        std::lower_bound(ends.begin(), ends.end(), offsets[i],
                         [&](std::size_t end, std::uint64_t at) { return offsets[end] < at; });
    if (place != ends.begin()) before[i] = *std::prev(place);
    if (place == ends.end()) {
      ends.push_back(i);
    } else {
      *place = i;
    }
  }
  std::vector<bool> believed(offsets.size());
  for (std::size_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = before[i]) {
    believed[i] = true;
  }
  return believed;
}

}  // namespace

SampleTable::SampleTable(std::vector<std::uint32_t> offsets, std::uint64_t head_bytes,
                         std::vector<Piece> pieces, SampleLayout layout,
                         const FramerOptions& options)
    : offsets_(std::move(offsets)),
      head_bytes_(head_bytes),
      pieces_(std::move(pieces)),
      layout_(std::move(layout)) {
  FindLost(options);
}

std::uint64_t SampleTable::MostOffset(const FramerOptions& options) {
  return options.file_bytes != kUnknownSize ? options.file_bytes
                                            : std::numeric_limits<std::uint32_t>::max();
}

void SampleTable::FindLost(const FramerOptions& options) {
  const bool known = options.file_bytes != kUnknownSize;
  const std::uint64_t most = MostOffset(options);
  const std::vector<std::uint32_t>& offsets = offsets_;
  const std::vector<bool> believed = Believed(offsets, head_bytes_, most);
  std::vector<Lost>& lost = lost_;
  for (std::uint64_t i = 0; i + 1 < offsets.size(); ++i) {
    // Where the first offset of a row of them is not believed it is the file's first.
    Lost one{.first = i, .count = 1, .begin = believed[i] ? offsets[i] : head_bytes_};
    const std::uint32_t bytes = offsets[i + 1] - offsets[i];
    if (!believed[i] || !believed[i + 1]) {
      const bool cut = known && offsets[i] < offsets[i + 1] && offsets[i + 1] > most;
      one.code = cut ? StatusCode::kTruncated : StatusCode::kDamaged;
      one.reason = "its head has the sample " + std::to_string(i) + " from " +
                   std::to_string(offsets[i]) + " to " + std::to_string(offsets[i + 1]) +
                   (cut ? ", where the file ends before" : ", among others that ascend");
    } else if (bytes > options.max_record_bytes) {
      one.code = StatusCode::kResourceExhausted;
      one.reason = "a sample of " + std::to_string(bytes) + " bytes is longer than " +
                   "max_record_bytes (" + std::to_string(options.max_record_bytes) + ")";
    } else {
      continue;
    }
    one.end = believed[i + 1] ? offsets[i + 1] : (i + 2 == offsets.size() ? options.file_bytes : 0);
    if (!lost.empty() && lost.back().first + lost.back().count == i) {
      ++lost.back().count;
      lost.back().end = one.end;
    } else {
      lost.push_back(std::move(one));
    }
  }
  if (!lost.empty() && lost.back().begin == lost.back().end) {
    pieces_.push_back({TableEnd(lost.back().first), TableEnd(offsets.size() - 1),
                       lost.back().reason, StatusCode::kTruncated});
  }
  const bool goes_on = known && believed.back() && offsets.back() < most;
  if (goes_on) tail_begin_ = offsets.back();
}

const SampleTable::Lost* SampleTable::LostAt(std::uint64_t sample) const {
  const auto after =
      std::upper_bound(lost_.begin(), lost_.end(), sample,
                       [](std::uint64_t one, const Lost& lost) { return one < lost.first; });
  if (after == lost_.begin()) return nullptr;
  const Lost& lost = *std::prev(after);
  return sample - lost.first < lost.count ? &lost : nullptr;
}

bool SampleLayout::Fills(std::span<const std::byte> sample) const {
  if (columns.empty()) return true;
  if (sample.size() < sizes_bytes) return false;
  std::uint64_t bytes = sizes_bytes + fixed_bytes;
  for (std::size_t at = 0; at < sizes_bytes; at += SampleTable::kNumberBytes) {
    bytes += LoadOnceLe<std::uint32_t>(sample.data() + at);
  }
  return bytes == sample.size();
}

Status CheckColumns(const SampleLayout& layout, const FramerOptions& options) {
  if (options.check_elements == nullptr || layout.columns.empty()) return {};
  return options.check_elements({layout.columns, {}, {}}).WithPlace({options.file, -1, -1});
}

SampleRecords::SampleRecords(std::shared_ptr<const SampleTable> table, std::uint64_t file_bytes)
    : table_(std::move(table)) {
  if (!table_->hopeless().ok() && file_bytes > 0) {
    damage_.push_back({0, file_bytes, IndexDamage::kNoRecord, table_->hopeless().message()});
  }
  for (const SampleTable::Piece& piece : table_->pieces()) {
    damage_.push_back({piece.begin, piece.end, IndexDamage::kNoRecord, piece.reason});
  }
  for (const SampleTable::Lost& lost : table_->lost()) {
    if (lost.begin == lost.end) continue;  // a piece tells
    damage_.push_back({lost.begin, lost.end, lost.first, lost.reason});
  }
  if (table_->tail_begin() != kUnknownSize) {
    damage_.push_back(
        {table_->tail_begin(), file_bytes, IndexDamage::kNoRecord, SampleTable::kTail});
  }
  std::sort(damage_.begin(), damage_.end());
}

Status SampleRecords::Find(std::span<const std::uint64_t> records,
                           std::span<RecordUnit> units) const {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const SampleTable::Lost* const lost = table_->LostAt(records[i]);
    units[i] = {.offset = lost != nullptr ? lost->begin : table_->begin(records[i]),
                .bytes = 0,
                .first_record = records[i],
                .lost = lost != nullptr};
    if (lost == nullptr) units[i].bytes = table_->end(records[i]) - units[i].offset;
  }
  return {};
}

// Lost samples stand where the one before them begins, as they are framed.
Status SampleRecords::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  const auto place = [&](std::uint64_t sample) -> std::uint64_t {
    const SampleTable::Lost* const lost = table_->LostAt(sample);
    if (lost == nullptr) return table_->begin(sample);
    return lost->first == 0 ? 0 : table_->begin(lost->first - 1);
  };
  std::uint64_t low = 0;
  std::uint64_t high = records();
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (place(middle) < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *record = low;
  return {};
}

}  // namespace ringfeed
