#include "readers/engine/sources/unit_finder.h"

#include <algorithm>

namespace ringfeed {

void UnitFinder::Find(std::span<const RowNumber> rows, NeededUnits* found) {
  found->losses.clear();
  found->units.assign(rows.size(), NeededUnit());
  places_.clear();
  bool sorted = true;
  std::uint32_t file = kNoFile;
  RowNumber begin = 0;
  RowNumber end = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kNoRow) continue;
    if (rows[i] < begin || rows[i] >= end) {
      const auto next = static_cast<std::uint32_t>(files_->FileOf(rows[i]));
      sorted = sorted && (file == kNoFile || file < next);
      file = next;
      begin = files_->FirstRow(file);
      end = files_->FirstRow(file + 1);
    }
    found->units[i].file = file;
    found->units[i].record = rows[i] - begin;
    places_.push_back(static_cast<std::uint32_t>(i));
  }
  const auto file_at = [&](std::uint32_t place) { return found->units[place].file; };
  if (!sorted) {
    std::stable_sort(places_.begin(), places_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return file_at(a) < file_at(b); });
  }
  for (std::size_t i = 0; i < places_.size();) {
    std::size_t next = i + 1;
    while (next < places_.size() && file_at(places_[next]) == file_at(places_[i])) ++next;
    AskIndex(file_at(places_[i]), std::span(places_).subspan(i, next - i), found);
    i = next;
  }
}

void UnitFinder::AskIndex(std::size_t file, std::span<const std::uint32_t> places,
                          NeededUnits* found) {
  const DataFile& data = files_->table()->file(file);
  records_.clear();
  for (const std::uint32_t place : places) records_.push_back(found->units[place].record);
  units_.resize(places.size());
  const Status status = data.index->Find(records_, units_);
  for (std::size_t i = 0; i < places.size(); ++i) {
    NeededUnit* const needed = &found->units[places[i]];
    if (!status.ok()) {
      found->Lose(needed, status.WithPlace({data.name, -1, -1}), true);
      continue;
    }
    needed->unit = units_[i];
  }
}

}  // namespace ringfeed
