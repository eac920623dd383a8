#include "readers/engine/blocks/payload_checks.h"

#include <algorithm>
#include <string>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/formats/tfrecord/tfrecord.h"

namespace ringfeed {

namespace {

/// The begin of the record: its payload follows a header.
DataPlace RecordPlace(const Block& block, std::uint32_t row) {
  DataPlace place = block.PlaceOf(row);
  if (place.offset >= 0) place.offset -= TfRecordLayout::kHeaderBytes;
  return place;
}

}  // namespace

PendingSum SumOf(const Block& block, std::uint32_t row) {
  const RecordSpan& record = block.frame.records[row];
  const std::uint32_t stored = UnmaskCrc32c(LoadLe<std::uint32_t>(record.data + record.size));
  return {record.data, record.size, stored, stored};
}

Status PayloadFailure(const Block& block, std::uint32_t row) {
  return Status(StatusCode::kDamaged, std::string(kBadTfRecordPayload), RecordPlace(block, row));
}

DamagedRange PayloadDamage(const Block& block, std::uint32_t row) {
  const DataPlace place = RecordPlace(block, row);
  DamagedRange range{place.file, 0, 0, std::string(kBadTfRecordPayload)};
  if (place.offset >= 0) {
    range.begin = static_cast<std::uint64_t>(place.offset);
    range.end = range.begin + block.frame.records[row].size + TfRecordLayout::kFrameBytes;
  }
  return range;
}

bool LosePayload(OnDamage on_damage, std::uint32_t row, Block* block) {
  if (on_damage == OnDamage::kFail) return block->FailAt(row, PayloadFailure(*block, row));
  std::vector<DamagedRange>& damage = block->frame.damage;
  damage.push_back(PayloadDamage(*block, row));
  block->frame.records[row] = RecordSpan();
  if (block->table != nullptr) return true;
  // Of one file: put it at the place at which framing would have noted it.
  const auto behind = std::upper_bound(
      damage.begin(), damage.end() - 1, damage.back(),
      [](const DamagedRange& a, const DamagedRange& b) { return a.begin < b.begin; });
  std::rotate(behind, damage.end() - 1, damage.end());
  return true;
}

void CheckPayloads(OnDamage on_damage, Block* block) {
  for (std::uint32_t row = 0; row < block->rows(); ++row) {
    if (!block->Unchecked(row)) continue;
    if (!SumOf(*block, row).Matches() && !LosePayload(on_damage, row, block)) return;
  }
  block->frame.unchecked.clear();
}

}  // namespace ringfeed
