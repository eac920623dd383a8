#include "readers/engine/batches/left_fields.h"

#include <algorithm>
#include <mutex>

namespace ringfeed {

LeftFields::LeftFields(const Parser* parser, const LeftFieldRules& rules, PlanHost* host)
    : parser_(parser), rules_(rules), host_(host) {
  if (!rules.any()) return;
  const std::size_t least_bytes = std::min(rules.least_bytes, rules.least_neighbour_bytes);
  for (std::size_t f = 0; f < parser->fields().size(); ++f) {
    const FieldSpec& field = parser->fields()[f];
    const bool may_be_long = field.ragged() || field.unit_bytes() >= least_bytes;
    if (may_be_long && parser->CopiesBytesOf(f)) candidates_.push_back(f);
  }
}

bool LeftFields::Leave(const LeavableRows& rows, const FieldLocation* locations,
                       std::vector<ColumnTarget>* targets, std::vector<PendingCopy>* copies) const {
  const auto in_slabs = [](const Block* block) { return block->stands_in_slabs(); };
  if (!std::all_of(rows.blocks.begin(), rows.blocks.end(), in_slabs)) return false;
  copies->clear();
  std::vector<std::size_t> left;
  for (const std::size_t field : candidates_) {
    if (!IsLong(rows, locations, field)) continue;
    const std::size_t before = copies->size();
    if (AddCopies(rows, locations, field, (*targets)[field], copies)) {
      left.push_back(field);
    } else {
      copies->resize(before);
    }
  }
  if (left.empty() || !KeepBlocks(rows.blocks)) return false;
  for (const std::size_t field : left) (*targets)[field].data = nullptr;
  BatchBuffer* const slot = rows.task->slot;
  const std::lock_guard lock(slot->failures_mutex);
  slot->pending_copies.insert(slot->pending_copies.end(), copies->begin(), copies->end());
  slot->kept.insert(slot->kept.end(), rows.blocks.begin(), rows.blocks.end());
  return true;
}

bool LeftFields::IsLong(const LeavableRows& rows, const FieldLocation* locations,
                        std::size_t field) const {
  const FieldSpec& spec = parser_->fields()[field];
  const bool neighbours = rows.task->block != nullptr;
  const std::size_t least = neighbours ? rules_.least_neighbour_bytes : rules_.least_bytes;
  if (!spec.ragged()) return spec.unit_bytes() >= least;
  const std::size_t fields = parser_->fields().size();
  std::size_t units = 0;
  for (std::size_t row = 0; row < rows.records.size(); ++row) {
    units += locations[row * fields + field].units;
  }
  return units * spec.unit_bytes() >= rows.records.size() * least;
}

bool LeftFields::AddCopies(const LeavableRows& rows, const FieldLocation* locations,
                           std::size_t field, const ColumnTarget& target,
                           std::vector<PendingCopy>* copies) const {
  const FieldSpec& spec = parser_->fields()[field];
  const std::size_t fields = parser_->fields().size();
  const auto first_unit =
      target.offsets != nullptr ? static_cast<std::size_t>(target.offsets[0]) : 0;
  std::byte* to = target.data + first_unit * spec.unit_bytes();
  for (std::size_t row = 0; row < rows.records.size(); ++row) {
    const RecordSpan& record = rows.records[row];
    const FieldLocation& at = locations[row * fields + field];
    const std::size_t bytes = spec.unit_bytes() * (spec.ragged() ? at.units : 1);
    if (bytes == 0) continue;
    const std::span<const std::byte> from = parser_->BytesOf(field, record, at);
    // What a default gives, or a parser's own memory, does not stay with the block.
    const bool stands_there = from.size() == bytes && from.data() >= record.data &&
                              from.data() + bytes <= record.data + record.size;
    if (!stands_there) return false;
    copies->push_back({to, from.data(), bytes});
    to += bytes;
  }
  return true;
}

bool LeftFields::KeepBlocks(std::span<Block* const> blocks) const {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (host_->Keep(blocks[i])) continue;
    for (Block* const kept : blocks.first(i)) host_->LetGo(kept);
    return false;
  }
  return true;
}

}  // namespace ringfeed
