#include "readers/engine/batches/left_fields.h"

#include <algorithm>
#include <functional>
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

bool LeftFields::AnyLong(const LeavableRows& rows, const FieldLocation* locations) const {
  return std::any_of(candidates_.begin(), candidates_.end(), [&](std::size_t field) {
    return MayBeLeft(rows, MeanBytes(rows, locations, field));
  });
}

bool LeftFields::Keep(const LeavableRows& rows) const {
  const auto in_slabs = [](const Block* block) { return block->stands_in_slabs(); };
  if (!std::all_of(rows.blocks.begin(), rows.blocks.end(), in_slabs)) return false;
  for (std::size_t i = 0; i < rows.blocks.size(); ++i) {
    if (host_->Keep(rows.blocks[i])) continue;
    LetGo(rows.blocks.first(i));
    return false;
  }
  return true;
}

void LeftFields::LetGo(std::span<Block* const> blocks) const {
  for (Block* const block : blocks) host_->LetGo(block);
}

bool LeftFields::Leave(const LeavableRows& rows, const FieldLocation* locations,
                       std::vector<ColumnTarget>* targets, std::vector<PendingCopy>* copies) const {
  copies->clear();
  std::vector<std::size_t> left;
  bool any_short = false;
  for (const std::size_t field : candidates_) {
    const std::size_t bytes = MeanBytes(rows, locations, field);
    if (!MayBeLeft(rows, bytes)) continue;
    const std::size_t before = copies->size();
    if (AddCopies(rows, locations, field, (*targets)[field], copies)) {
      left.push_back(field);
      any_short = any_short || !IsLong(bytes);
    } else {
      copies->resize(before);
    }
  }
  const bool far = AreFar(rows);
  // Short fields go together with what stands between them: most of that is to be wanted.
  if (left.empty() || (!far && any_short && !IsMostOf(rows, *copies)) ||
      (far && left.size() < parser_->fields().size())) {
    LetGo(rows);
    return false;
  }
  for (const std::size_t field : left) (*targets)[field].data = nullptr;
  BatchBuffer* const slot = rows.task->slot;
  const std::lock_guard lock(slot->failures_mutex);
  slot->pending_copies.insert(slot->pending_copies.end(), copies->begin(), copies->end());
  slot->kept.insert(slot->kept.end(), rows.blocks.begin(), rows.blocks.end());
  return true;
}

bool LeftFields::IsMostOf(const LeavableRows& rows, const std::vector<PendingCopy>& copies) {
  std::size_t left = 0;
  for (const PendingCopy& copy : copies) left += copy.bytes;
  std::size_t all = 0;
  for (const RecordSpan& record : rows.records) all += record.size;
  return IsWorthCopyingTogether(left, all);
}

std::size_t LeftFields::MeanBytes(const LeavableRows& rows, const FieldLocation* locations,
                                  std::size_t field) const {
  const FieldSpec& spec = parser_->fields()[field];
  if (!spec.ragged()) return spec.unit_bytes();
  const std::size_t fields = parser_->fields().size();
  std::size_t units = 0;
  for (std::size_t row = 0; row < rows.records.size(); ++row) {
    units += locations[row * fields + field].units;
  }
  return units * spec.unit_bytes() / std::max<std::size_t>(rows.records.size(), 1);
}

namespace {

/// The slab of the block that the bytes stand in; null where that is none.
const std::byte* SlabOf(const Block& block, std::span<const std::byte> bytes) {
  constexpr std::less_equal<const std::byte*> kNotBehind;
  for (const SlabRun& run : block.runs) {
    const bool inside = kNotBehind(run.data, bytes.data()) &&
                        kNotBehind(bytes.data() + bytes.size(), run.data + run.bytes);
    if (inside) return run.data;
  }
  return nullptr;
}

}  // namespace

bool LeftFields::AddCopies(const LeavableRows& rows, const FieldLocation* locations,
                           std::size_t field, const ColumnTarget& target,
                           std::vector<PendingCopy>* copies) const {
  const FieldSpec& spec = parser_->fields()[field];
  const std::size_t fields = parser_->fields().size();
  const auto first_unit =
      target.offsets != nullptr ? static_cast<std::size_t>(target.offsets[0]) : 0;
  std::byte* to = target.data + first_unit * spec.unit_bytes();
  for (std::size_t row = 0; row < rows.records.size(); ++row) {
    const FieldLocation& at = locations[row * fields + field];
    const std::size_t bytes = spec.unit_bytes() * (spec.ragged() ? at.units : 1);
    if (bytes == 0) continue;
    const std::span<const std::byte> from = parser_->BytesOf(field, rows.records[row], at);
    // What a default gives, or a parser's own memory, does not stay with the block.
    const std::byte* const slab = from.size() == bytes ? SlabOf(rows.block_of(row), from) : nullptr;
    if (slab == nullptr) return false;
    copies->push_back({to, from.data(), bytes, slab, rows.block_of(row).far});
    to += bytes;
  }
  return true;
}

}  // namespace ringfeed
