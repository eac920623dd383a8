#include "readers/engine/sources/row_framer.h"

#include <algorithm>
#include <functional>
#include <string>

#include "readers/engine/blocks/locate.h"
#include "readers/formats/format.h"

namespace ringfeed {

namespace {

/// The first bytes of a unit are fetched while the one so many units before it is framed.
constexpr std::size_t kFetchUnits = 6;
constexpr std::size_t kFetchBytes = 512;
constexpr std::size_t kLine = 64;

constexpr std::size_t kHandedOutBytes = 512 * 1024;

// Inlined by force, as FetchAhead.
[[gnu::always_inline]] inline void FetchHead(const std::byte* row) {
  for (std::size_t at = 0; at < kFetchBytes; at += kLine) __builtin_prefetch(row + at, 0, 2);
}

void FetchUnit(const NeededUnit& unit) {
  if (unit.data == nullptr) return;  // no row, or lost
  for (std::size_t at = 0; at < std::min(unit.bytes, kFetchBytes); at += kLine) {
    __builtin_prefetch(unit.data + at);
  }
}

}  // namespace

void RowFramer::Frame(std::span<const RowNumber> rows,
                      std::span<const std::shared_ptr<InputFile>> inputs, NeededUnits* needed,
                      Block* block) {
  const StageTimer timer(*context_->frame_clock);
  do {
    block->frame.CutRecords(0);
    block->frame.damage.clear();
    block->row_failures.clear();
    block->status = Status();
    framed_.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (context_->direct == nullptr && i + kFetchUnits < rows.size())
        FetchUnit(needed->units[i + kFetchUnits]);
      if (!Append(needed->units[i], *needed, block)) break;
    }
  } while (LoseShrunk(inputs, needed));
  block->row_numbers.assign(
      rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(block->frame.records.size()));
  memory_.GiveTo(block);
}

bool RowFramer::LoseShrunk(std::span<const std::shared_ptr<InputFile>> inputs,
                           NeededUnits* needed) {
  bool any = false;
  for (const std::shared_ptr<InputFile>& input : inputs) {
    if (input->mapping().empty() || !input->damaged()) continue;
    const std::byte* const begin = input->mapping().data();
    const std::byte* const end = begin + input->mapping().size();
    for (NeededUnit& unit : needed->units) {
      if (unit.file == kNoFile || unit.loss != 0) continue;
      if (std::less<>()(unit.data, begin) || !std::less<>()(unit.data, end)) continue;
      if (!input->DamagedAt({unit.data, unit.bytes})) continue;
      needed->Lose(&unit, WhyDamaged(*input));
      any = true;
    }
  }
  return any;
}

bool RowFramer::Append(const NeededUnit& unit, const NeededUnits& needed, Block* block) {
  if (unit.file == kNoFile) {
    block->frame.records.emplace_back();
    return true;
  }
  if (unit.loss != 0) return AppendLost(unit, needed.losses[unit.loss - 1], block);
  LaneFile* const file = files_->Peek(unit.file);
  if (file->fixed) {
    block->frame.records.push_back(
        {unit.data, static_cast<std::size_t>(file->fixed->record_bytes)});
    return true;
  }
  if (files_->Framer(file) == nullptr) {
    return Fail(unit, WhyNoUnits(*file->data), block);
  }
  return unit.unit.records == 1 ? AppendSingle(file, unit, block)
                                : AppendOneOfMany(file, unit, block);
}

bool RowFramer::Fail(const NeededUnit& unit, const Status& status, Block* block) {
  const LaneFile& file = *files_->Peek(unit.file);
  block->status = status.WithPlace({file.data->name, static_cast<std::int64_t>(unit.unit.offset),
                                    static_cast<std::int64_t>(unit.record)});
  if (!block->fails_in_order) return false;
  // The rows after it may come before it in the order.
  block->FailBehindRows();
  block->status = Status();
  return true;
}

bool RowFramer::AppendLost(const NeededUnit& unit, const UnitLoss& loss, Block* block) {
  if (loss.fatal || context_->options->on_damage == OnDamage::kFail) {
    return Fail(unit, loss.status, block);
  }
  block->frame.records.emplace_back();
  block->frame.damage.push_back(
      {files_->Peek(unit.file)->data->name, unit.unit.offset, unit.unit.offset + unit.unit.bytes,
       "record " + std::to_string(unit.record) + ": " + loss.status.ToString()});
  return true;
}

Status RowFramer::LoseUnit(const LaneFile& file, const NeededUnit& unit,
                           FrameOutput* output) const {
  if (context_->options->on_damage == OnDamage::kFail) return WhyLost(*file.data, unit.unit);
  AppendHoles(unit.unit.records, output);
  for (const IndexDamage& range : file.data->index->DamageOf(unit.unit.first_record)) {
    output->damage.push_back({file.data->name, range.begin, range.end, range.reason});
  }
  return {};
}

void RowFramer::CutRanges(const LaneFile& file, const NeededUnit& unit,
                          std::span<DamagedRange> ranges) {
  if (ranges.empty()) return;
  const auto lost = file.data->index->DamageOf(IndexDamage::kNoRecord);
  const auto behind = std::upper_bound(
      lost.begin(), lost.end(), unit.unit.offset,
      [](std::uint64_t offset, const IndexDamage& one) { return offset < one.begin; });
  if (behind == lost.end()) return;
  for (DamagedRange& range : ranges) range.end = std::min(range.end, behind->begin);
}

Status RowFramer::FrameInto(LaneFile* file, const NeededUnit& unit, FrameOutput* output) {
  if (unit.unit.lost) return LoseUnit(*file, unit, output);
  FrameInput input;
  input.bytes = {unit.data, unit.bytes};
  input.offset = unit.unit.offset;
  input.limit = input.offset + unit.bytes;
  input.at_end = true;
  input.memory = &memory_;
  // What the index lost after this unit cuts its range.
  const LateSums* const sums = context_->sums;
  const bool cold = file->open != nullptr && file->open->reads_direct();
  const bool left = sums != nullptr && (sums->leaves_in_memory(cold) || !file->mapping.empty()) &&
                    unit.unit.records == 1 &&
                    file->data->index->DamageOf(IndexDamage::kNoRecord).empty();
  if (left) input.leaves_sums_from = sums->leaves_from(cold);
  const std::size_t already = output->records.size();
  const std::size_t reported = output->damage.size();
  const Status status = file->framer->Frame(input, unit.unit.records, output);
  CutRanges(*file, unit, std::span(output->damage).subspan(reported));
  const std::size_t framed = output->records.size() - already;
  if (!status.ok() || framed == unit.unit.records || output->rest_lost) return status;
  const Status other = OtherRecords(framed, unit.unit);
  output->records.resize(already + std::min<std::size_t>(framed, unit.unit.records));
  if (context_->options->on_damage == OnDamage::kFail) return other;
  AppendHoles(unit.unit.records - static_cast<std::uint32_t>(output->records.size() - already),
              output);
  output->damage.push_back(
      {file->data->name, unit.unit.offset, unit.unit.offset + unit.unit.bytes, other.message()});
  return {};
}

bool RowFramer::AppendSingle(LaneFile* file, const NeededUnit& unit, Block* block) {
  const std::size_t already = block->frame.records.size();
  const Status status = FrameInto(file, unit, &block->frame);
  if (status.ok()) return true;
  block->frame.CutRecords(already);
  return Fail(unit, status, block);
}

RowFramer::FramedUnit* RowFramer::FrameUnit(LaneFile* file, const NeededUnit& unit) {
  const auto [at, is_new] = framed_.try_emplace({unit.file, unit.unit.first_record});
  FramedUnit& framed = at->second;
  if (!is_new) return &framed;
  framed.status = FrameInto(file, unit, &framed.frame);
  const std::vector<RecordSpan>& records = framed.frame.records;
  const auto first_damaged =
      std::find_if(records.begin(), records.end(), [](const RecordSpan& r) { return r.damaged(); });
  if (first_damaged != records.end()) {
    framed.teller = static_cast<std::size_t>(first_damaged - records.begin());
  }
  return &framed;
}

bool RowFramer::AppendOneOfMany(LaneFile* file, const NeededUnit& unit, Block* block) {
  const FramedUnit& framed = *FrameUnit(file, unit);
  const auto number = static_cast<std::size_t>(unit.record - unit.unit.first_record);
  const bool listed = number < framed.frame.records.size();
  if (!listed && !framed.frame.rest_lost) return Fail(unit, framed.status, block);
  block->frame.records.push_back(listed ? framed.frame.records[number] : RecordSpan());
  // Once for the unit, even if other blocks have its other records: the first damaged one tells.
  if (number == framed.teller) {
    block->frame.damage.insert(block->frame.damage.end(), framed.frame.damage.begin(),
                               framed.frame.damage.end());
  }
  return true;
}

bool RowFramer::Move(std::size_t number, Place* place, Block* block) {
  const std::size_t noted = inputs_.size();
  const LaneFile& file = *files_->Use(number);
  if (!file.direct || file.open == nullptr) return false;
  if (inputs_.size() > noted) block->NoteFramed(file.mapping, 0);
  place->begin = opened_->FirstRow(number);
  place->end = opened_->FirstRow(number + 1);
  place->data = file.mapping.data() + file.fixed->offset;
  place->stride = static_cast<std::size_t>(file.fixed->stride_bytes);
  place->bytes = static_cast<std::size_t>(file.fixed->record_bytes);
  return true;
}

std::size_t RowFramer::PointAt(std::span<const RowNumber> rows, Block* block) {
  const std::size_t most = context_->written ? kMemoryPartBytes : kHandedOutBytes;
  std::vector<RecordSpan>& records = block->frame.records;
  inputs_.clear();
  files_->StartPart(&inputs_);
  records.clear();
  places_.fill(Place());
  std::size_t bytes = 0;
  std::size_t i = 0;
  for (; i < rows.size() && bytes < most; ++i) {
    if (rows[i] == kNoRow) {
      records.emplace_back();
      continue;
    }
    const std::size_t number = opened_->FileOf(rows[i]);
    Place& place = places_[number % kPlaces];
    if ((rows[i] < place.begin || rows[i] >= place.end) && !Move(number, &place, block)) {
      records.clear();
      block->framed.clear();
      return 0;
    }
    records.push_back({place.data + (rows[i] - place.begin) * place.stride, place.bytes});
    bytes += place.bytes;
    // Short ones are fetched many together, when they are written.
    if (context_->written && place.bytes > kFetchBytes) FetchHead(records.back().data);
  }
  block->row_numbers.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(i));
  block->files = std::exchange(inputs_, {});
  block->scattered = true;
  return i;
}

std::span<const std::byte> RowFramer::Find(RowNumber row) const {
  if (row == kNoRow) return {};
  const std::size_t number = opened_->FileOf(row);
  const LaneFile& file = *files_->Peek(number);
  if (!file.direct || file.input == nullptr) return {};
  const std::uint64_t record = row - opened_->FirstRow(number);
  return file.mapping.subspan(
      static_cast<std::size_t>(file.fixed->offset + record * file.fixed->stride_bytes),
      static_cast<std::size_t>(file.fixed->record_bytes));
}

}  // namespace ringfeed
