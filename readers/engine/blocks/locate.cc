#include "readers/engine/blocks/locate.h"

#include <cerrno>
#include <string>
#include <vector>

#include "base/refusal.h"
#include "readers/engine/blocks/payload_checks.h"
#include "readers/parsers/worker_stop.h"

namespace ringfeed {

bool IsSkippable(const Status& status, OnDamage on_damage) {
  // Neither a user's exception, nor a stop, nor a lack of memory says anything about the data.
  return on_damage == OnDamage::kSkip && status.code() != StatusCode::kUserError &&
         status.code() != StatusCode::kCancelled && !IsRefusal(status);
}

DamagedRange DamagedRecord(const Status& why, const RecordSpan& record) {
  const DataPlace& place = why.place();
  DamagedRange range{place.file, 0, 0, why.message()};
  if (place.offset >= 0) {
    range.begin = static_cast<std::uint64_t>(place.offset);
    range.end = range.begin + record.size;
  }
  if (place.record >= 0)
    range.reason = "record " + std::to_string(place.record) + ": " + range.reason;
  return range;
}

Status PlacedFailure(const Parser& parser, const Block& block, std::uint32_t row,
                     const Status& why) {
  const DataPlace place = block.PlaceOf(row);
  const bool readable = block.far == nullptr && why.code() == StatusCode::kDamaged;
  if (place.record != 0 || !readable) return why.WithPlace(place);
  const auto before = block.BytesBefore(row);
  if (!before) return why.WithPlace(place);
  const std::string hint = parser.HintOfFirst(block.frame.records[row], *before);
  return Status(why.code(), why.message() + hint, place);
}

void LocateRows(const Parser& parser, Parser::Scratch* scratch, OnDamage on_damage, bool explain,
                Block* block) {
  std::vector<RecordSpan>& records = block->frame.records;
  const std::size_t of_row = parser.row_locations();
  block->locations.resize(records.size() * of_row);
  std::vector<RowFailure> failures;
  const auto passed_over = [&](std::size_t row) {
    return records[row].damaged() || block->Filtered(static_cast<std::uint32_t>(row));
  };
  RowPieces pieces;
  const RowsOfBlocks rows(records, block, 0);
  std::size_t begin = 0;
  while (begin < records.size()) {
    if (passed_over(begin)) {
      ++begin;
      continue;
    }
    std::size_t end = begin + 1;
    while (end < records.size() && !passed_over(end)) ++end;
    if (WorkerStop::Requested()) {
      failures.push_back({begin, WorkerStop::Why()});
      break;
    }
    end = begin + pieces.Next(std::span(records).subspan(begin, end - begin));
    const std::size_t already = failures.size();
    parser.Locate(std::span(records).subspan(begin, end - begin),
                  block->locations.data() + begin * of_row, scratch, &failures);
    for (std::size_t i = already; i < failures.size(); ++i) failures[i].row += begin;
    begin = end;
  }
  block->truncated_rows += parser.TakeTruncated(scratch);
  if (auto storage = parser.TakeStorage(scratch)) block->storage.push_back(std::move(storage));
  for (const RowFailure& failure : failures) {
    const auto number = static_cast<std::uint32_t>(failure.row);
    // A record that cannot be parsed may be damaged: then the parser is not to blame.
    if (block->Unchecked(number) && !SumOf(*block, number).Matches()) {
      if (!LosePayload(on_damage, number, block)) return;
      continue;
    }
    const Status placed = PlacedFailure(parser, *block, number, failure.status);
    if (!IsSkippable(placed, on_damage)) {
      if (!block->FailAt(static_cast<std::uint32_t>(failure.row), placed)) return;
      continue;
    }
    if (explain && block->refused.size() < Refusals::kEnough) {
      block->refused.push_back({static_cast<std::uint32_t>(failure.row),
                                parser.Explain(records[failure.row], failure.status),
                                placed.place()});
    }
    block->frame.damage.push_back(DamagedRecord(placed, records[failure.row]));
    records[failure.row] = RecordSpan();
  }
}

Status WhyDamaged(const InputFile& file) {
  if (file.shrank()) {
    return Status(StatusCode::kTruncated, "the mapped file shrank while it was read");
  }
  return StatusFromErrno(EIO, "reading a page of the mapped file");
}

void LoseShrunkRows(OnDamage on_damage, Block* block) {
  if (!block->shrunk()) return;
  std::vector<RecordSpan>& records = block->frame.records;
  for (std::size_t row = 0; row < records.size(); ++row) {
    const auto number = static_cast<std::uint32_t>(row);
    if (records[row].damaged() || !block->ShrunkAt(number)) continue;
    const Status why = block->WhyDamagedAt(number).WithPlace(block->PlaceOf(number));
    if (!IsSkippable(why, on_damage)) {
      if (!block->FailAt(number, why)) return;
      continue;
    }
    block->frame.damage.push_back(DamagedRecord(why, records[row]));
    records[row] = RecordSpan();
  }
}

}  // namespace ringfeed
