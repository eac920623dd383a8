#include "readers/engine/files/file_table.h"

#include <algorithm>
#include <cassert>

namespace ringfeed {

Status CheckOpened(const DataFile& file, const InputFile& opened) {
  return file.known ? CheckKnown(file.name, *file.known, opened.state()) : Status();
}

Status CheckUnit(const DataFile& file, const std::optional<FixedUnits>& fixed, std::uint64_t record,
                 const RecordUnit& unit) {
  const bool has_record = record >= unit.first_record && record - unit.first_record < unit.records;
  const bool is_short = fixed && unit.bytes < fixed->record_bytes;
  if (unit.offset <= file.bytes && unit.bytes <= file.bytes - unit.offset && has_record &&
      !is_short) {
    return {};
  }
  return Status(
      StatusCode::kDamaged,
      "its index says that the record is one of " + std::to_string(unit.records) + " from " +
          std::to_string(unit.first_record) + " on in " + std::to_string(unit.bytes) +
          " bytes here; the file has " + std::to_string(file.bytes) +
          ". Build the index anew (ringfeed index)",
      {file.name, static_cast<std::int64_t>(unit.offset), static_cast<std::int64_t>(record)});
}

Status WhyLost(const DataFile& file, const RecordUnit& unit) {
  const auto ranges = file.index->DamageOf(unit.first_record);
  return Status(StatusCode::kDamaged,
                ranges.empty() ? std::string(kLostBefore) : ranges.front().reason);
}

Status WhyNoUnits(const DataFile& file) {
  return Status(StatusCode::kUnsupported, "records of the format " +
                                              std::string(file.format->name()) +
                                              " cannot be read by themselves");
}

Status OtherRecords(std::size_t framed, const RecordUnit& unit) {
  return Status(StatusCode::kDamaged,
                std::to_string(framed) + " records stand here, the index says " +
                    std::to_string(unit.records) + "; build it anew (ringfeed index)");
}

std::size_t UsedBytes(const RecordUnit& unit, RecordLimit max_record_bytes) {
  // A unit exceeds its record's limit by headers, checksums and padding.
  constexpr std::uint64_t kUnitSlack = 64 * 1024;
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(unit.bytes, max_record_bytes + kUnitSlack));
}

std::size_t FileOfRow(const FileTable& table, RowNumber row) {
  std::size_t begin = 0;
  std::size_t end = table.files();
  while (end - begin > 1) {  // if several files start at a row, the last one has it
    const std::size_t middle = begin + (end - begin) / 2;
    (table.FirstRow(middle) <= row ? begin : end) = middle;
  }
  return begin;
}

RowFiles::RowFiles(const FileTable& table) {
  constexpr std::uint64_t kLeastStretches = 1 << 12;
  constexpr std::uint64_t kMostStretches = 1 << 20;
  for (std::size_t file = 0; file <= table.files(); ++file) {
    first_rows_.push_back(table.FirstRow(file));
  }
  const RowNumber rows = first_rows_.back();
  const std::uint64_t stretches =
      std::clamp<std::uint64_t>(4 * table.files(), kLeastStretches, kMostStretches);
  while (rows >> shift_ > stretches) ++shift_;
  for (RowNumber row = 0; row < rows; row += RowNumber{1} << shift_) {
    files_.push_back(static_cast<std::uint32_t>(Search(0, table.files() - 1, row)));
  }
  if (rows > 0) {
    files_.push_back(static_cast<std::uint32_t>(Search(0, table.files() - 1, rows - 1)));
  }
}

// If several files start at the row, the last one has it, as above.
std::size_t RowFiles::Search(std::size_t first, std::size_t last, RowNumber row) const {
  assert(row < first_rows_.back());
  const auto begin = first_rows_.begin() + static_cast<std::ptrdiff_t>(first) + 1;
  const auto end = first_rows_.begin() + static_cast<std::ptrdiff_t>(last) + 1;
  return static_cast<std::size_t>(std::upper_bound(begin, end, row) - first_rows_.begin()) - 1;
}

std::vector<RecordRange> RangesOf(std::span<const std::uint64_t> numbers,
                                  const std::function<FileRecord(std::uint64_t)>& place_of) {
  std::vector<RecordRange> ranges;
  for (const std::uint64_t number : numbers) {
    if (number == kNoRow) continue;
    const FileRecord at = place_of(number);
    if (!ranges.empty() && ranges.back().file == at.file &&
        ranges.back().first + ranges.back().count == at.record) {
      ++ranges.back().count;
    } else {
      ranges.push_back({at.file, at.record, 1});
    }
  }
  return ranges;
}

}  // namespace ringfeed
