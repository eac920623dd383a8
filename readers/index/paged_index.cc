#include "readers/index/paged_index.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace ringfeed {

PagedIndex::PagedIndex(IndexImage image)
    : header_(image.header),
      layout_(header_.layout()),
      stored_{.memory = std::move(image.pages)},
      gaps_(std::move(image.gaps)),
      damage_(std::move(image.damage)),
      pages_(stored_.memory) {}

PagedIndex::PagedIndex(const IndexHeader& header, std::span<const std::byte> pages,
                       std::vector<IndexGap> gaps, std::vector<IndexDamage> damage,
                       StoredIndex stored)
    : header_(header),
      layout_(header_.layout()),
      stored_(std::move(stored)),
      gaps_(std::move(gaps)),
      damage_(std::move(damage)),
      pages_(pages),
      checked_(header.pages) {}

Status PagedIndex::Check(std::uint64_t page) const {
  if (!checked_ || checked_->Has(page)) return {};
  const auto begin = static_cast<std::size_t>(page * IndexLayout::kPageBytes);
  const auto bytes =
      pages_.subspan(begin, std::min(IndexLayout::kPageBytes, pages_.size() - begin));
  if (Status status = stored_.Need(bytes); !status.ok()) return status;
  const IndexPage at = At(page);
  if (!at.ChecksumMatches(bytes.size()) || at.entries() != EntriesOf(page)) {
    return Status(StatusCode::kDamaged,
                  "page " + std::to_string(page) + " of the index is damaged" + stored_.Remedy());
  }
  checked_->Add(page);
  return {};
}

// By the header: a mapped page may change after its check.
std::uint64_t PagedIndex::EntriesOf(std::uint64_t page) const {
  const std::uint64_t before = page * layout_.entries_per_page();
  return std::min<std::uint64_t>(header_.units - before, layout_.entries_per_page());
}

Status PagedIndex::CheckLength() const {
  if (!stored_.was_cut()) return {};
  return Status(StatusCode::kDamaged, "the index was cut while it was read" + stored_.Remedy());
}

Status PagedIndex::CheckPages() const {
  for (std::uint64_t page = 0; page < header_.pages; ++page) {
    Status status = Check(page);
    if (!status.ok()) return status;
  }
  return {};
}

namespace {

// Of one of them zeros at the end may be left out.
bool SamePages(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::size_t both = std::min(a.size(), b.size());
  const auto is_zero = [](std::byte each) { return each == std::byte{0}; };
  return std::ranges::equal(a.first(both), b.first(both)) &&
         std::ranges::all_of(a.subspan(both), is_zero) &&
         std::ranges::all_of(b.subspan(both), is_zero);
}

}  // namespace

bool PagedIndex::SameUnits(const PagedIndex& other) const {
  const auto same_gap = [](const IndexGap& a, const IndexGap& b) {
    return a.unit == b.unit && a.end == b.end;
  };
  const auto same_damage = [](const IndexDamage& a, const IndexDamage& b) {
    return a.begin == b.begin && a.end == b.end && a.record == b.record && a.reason == b.reason;
  };
  return header_.units == other.header_.units && header_.records == other.header_.records &&
         header_.data_end == other.header_.data_end && header_.chunks == other.header_.chunks &&
         SamePages(pages_, other.pages_) &&
         std::equal(gaps_.begin(), gaps_.end(), other.gaps_.begin(), other.gaps_.end(), same_gap) &&
         std::equal(damage_.begin(), damage_.end(), other.damage_.begin(), other.damage_.end(),
                    same_damage);
}

template <typename Before>
Status PagedIndex::FirstPage(const Before& before, std::uint64_t* page) const {
  std::uint64_t low = 0;
  std::uint64_t high = header_.pages;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    Status status = Check(middle);
    if (!status.ok()) return status;
    if (before(At(middle))) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *page = low;
  return {};
}

Status PagedIndex::Place(std::uint64_t unit, std::uint64_t* begin, std::uint64_t* record) const {
  if (unit == header_.units) {
    *begin = header_.data_end;
    *record = header_.records;
    return {};
  }
  if (unit > header_.units) return Status(StatusCode::kDamaged, "the index has no such unit");
  const std::uint64_t page = unit / layout_.entries_per_page();
  Status status = Check(page);
  if (!status.ok()) return status;
  const auto entry = static_cast<std::size_t>(unit % layout_.entries_per_page());
  *begin = At(page).Offset(entry);
  // Without chunks a page need not be asked.
  *record = layout_.chunks ? At(page).Record(entry) : unit;
  return {};
}

Status PagedIndex::OffsetOf(std::uint64_t unit, std::uint64_t* offset) const {
  std::uint64_t record = 0;
  Status status = Place(unit, offset, &record);
  return status.ok() ? CheckLength() : status;
}

Status PagedIndex::UnitOf(std::uint64_t record, std::uint64_t* unit) const {
  *unit = record;
  if (!layout_.chunks) return {};
  std::uint64_t page = 0;
  Status status = FirstPage([&](const IndexPage& at) { return at.base_record() <= record; }, &page);
  if (!status.ok()) return status;
  if (page == 0) return Status(StatusCode::kDamaged, "the index does not begin with record 0");
  const IndexPage at = At(--page);
  std::size_t low = 0;
  auto high = static_cast<std::size_t>(EntriesOf(page));
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (at.Record(middle) <= record ? low : high) = middle;
  }
  *unit = page * layout_.entries_per_page() + low;
  return {};
}

Status PagedIndex::FindOne(std::uint64_t record, RecordUnit* found) const {
  std::uint64_t unit = 0;
  std::uint64_t next_record = 0;
  std::uint64_t end = 0;
  Status status = UnitOf(record, &unit);
  if (status.ok()) status = Place(unit, &found->offset, &found->first_record);
  if (status.ok()) status = Place(unit + 1, &end, &next_record);
  if (!status.ok()) return status;
  if (!gaps_.empty()) {
    const auto gap = std::lower_bound(
        gaps_.begin(), gaps_.end(), unit,
        [](const IndexGap& one, std::uint64_t number) { return one.unit < number; });
    if (gap != gaps_.end() && gap->unit == unit) end = gap->end;
  }
  const std::uint64_t records = next_record - found->first_record;
  if (end < found->offset || end > header_.file.bytes || next_record <= found->first_record ||
      records > std::numeric_limits<std::uint32_t>::max()) {
    return Status(StatusCode::kDamaged, "the index has no order");
  }
  found->bytes = end - found->offset;
  found->lost = found->bytes == 0;  // units of these formats have bytes
  found->records = static_cast<std::uint32_t>(records);
  return {};
}

Status PagedIndex::Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const {
  for (std::size_t i = 0; i < records.size(); ++i) {
    Status status = FindOne(records[i], &units[i]);
    if (!status.ok()) return status;
  }
  return CheckLength();
}

Status PagedIndex::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  std::uint64_t page = 0;
  Status status = FirstPage([&](const IndexPage& at) { return at.base_offset() < offset; }, &page);
  if (!status.ok()) return status;
  *record = 0;
  if (page == 0) return {};
  const IndexPage at = At(--page);
  std::size_t low = 0;
  auto high = static_cast<std::size_t>(EntriesOf(page));
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (at.Offset(middle) < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::uint64_t begin = 0;
  status = Place(page * layout_.entries_per_page() + low, &begin, record);
  if (status.ok()) status = CheckLength();
  if (!status.ok() || *record <= header_.records) return status;
  return Status(StatusCode::kDamaged, "the index has no order");
}

}  // namespace ringfeed
