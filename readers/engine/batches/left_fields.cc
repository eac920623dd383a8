#include "readers/engine/batches/left_fields.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <mutex>
#include <numeric>

#include "base/crc32c.h"
#include "readers/engine/blocks/payload_checks.h"

namespace ringfeed {

LeftFields::LeftFields(const Parser* parser, const LeftFieldRules& rules, RunMemory* memory)
    : parser_(parser), rules_(rules), memory_(memory) {
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
  const auto may_stay = [this](const Block* block) {
    return block->stands_in_slabs() && (block->cold || !rules_.only_cold);
  };
  if (!std::all_of(rows.blocks.begin(), rows.blocks.end(), may_stay)) return false;
  for (std::size_t i = 0; i < rows.blocks.size(); ++i) {
    if (memory_->Keep(rows.blocks[i])) continue;
    LetGo(rows.blocks.first(i));
    return false;
  }
  return true;
}

void LeftFields::LetGo(std::span<Block* const> blocks) const {
  for (Block* const block : blocks) memory_->LetGo(block);
}

bool LeftFields::Leave(const LeavableRows& rows, const FieldLocation* locations,
                       std::vector<ColumnTarget>* targets, LeftCopies* left) const {
  left->Clear();
  std::vector<std::size_t> fields;
  bool any_short = false;
  for (const std::size_t field : candidates_) {
    const std::size_t bytes = MeanBytes(rows, locations, field);
    if (!MayBeLeft(rows, bytes)) continue;
    const std::size_t before = left->copies.size();
    if (AddCopies(rows, locations, field, (*targets)[field], left)) {
      fields.push_back(field);
      any_short = any_short || !IsLong(bytes);
    } else {
      left->copies.resize(before);
      left->rows.resize(before);
    }
  }
  const bool far = AreFar(rows);
  assert(!far || !rules_.leaves_sums);  // the CPU cannot take its part of them
  // Short fields go together with the bytes between them, so most of these must be wanted.
  if (fields.empty() || (!far && any_short && !IsMostOf(rows, left->copies)) ||
      (far && fields.size() < parser_->fields().size())) {
    LetGo(rows);
    return false;
  }
  for (const std::size_t field : fields) (*targets)[field].data = nullptr;
  if (rules_.leaves_sums) AddSums(rows, left);
  BatchBuffer* const slot = rows.task->slot;
  const std::lock_guard lock(slot->failures_mutex);
  const auto first_sum = static_cast<std::uint32_t>(slot->pending_sums.size());
  for (PendingCopy& copy : left->copies) {
    if (copy.sum != PendingCopy::kNoSum) copy.sum += first_sum;
  }
  slot->pending_copies.insert(slot->pending_copies.end(), left->copies.begin(), left->copies.end());
  slot->pending_sums.insert(slot->pending_sums.end(), left->sums.begin(), left->sums.end());
  slot->sum_rows.insert(slot->sum_rows.end(), left->sum_rows.begin(), left->sum_rows.end());
  slot->kept.insert(slot->kept.end(), rows.blocks.begin(), rows.blocks.end());
  return true;
}

void LeftFields::AddSums(const LeavableRows& rows, LeftCopies* left) {
  std::vector<std::size_t>& of_row = left->of_row;
  of_row.resize(left->copies.size());
  std::iota(of_row.begin(), of_row.end(), std::size_t{0});
  // They were made field by field: those of one field are in order.
  if (std::adjacent_find(left->rows.begin(), left->rows.end(), std::greater_equal<>()) !=
      left->rows.end()) {
    std::sort(of_row.begin(), of_row.end(), [left](std::size_t a, std::size_t b) {
      return left->rows[a] != left->rows[b]
                 ? left->rows[a] < left->rows[b]
                 : std::less<>()(left->copies[a].from, left->copies[b].from);
    });
  }
  std::size_t begin = 0;
  for (std::size_t row = 0; row < rows.records.size(); ++row) {
    std::size_t end = begin;
    while (end < of_row.size() && left->rows[of_row[end]] == row) ++end;
    if (rows.unchecked(row)) AddSum(rows, row, std::span(of_row).subspan(begin, end - begin), left);
    begin = end;
  }
}

void LeftFields::AddSum(const LeavableRows& rows, std::size_t row,
                        std::span<const std::size_t> copies, LeftCopies* left) {
  const Block& block = rows.block_of(row);
  PendingSum sum = SumOf(block, rows.row_of(row));
  const std::byte* const end = sum.payload + sum.bytes;
  const std::byte* at = sum.payload;
  const auto take = [&](const std::byte* until) {
    const std::size_t bytes = static_cast<std::size_t>(until - at);
    if (bytes == 0) return;
    sum.of_copies ^= ShiftCrc32c(Crc32c({at, bytes}), static_cast<std::uint64_t>(end - until));
  };
  constexpr std::less<const std::byte*> kBefore;
  for (const std::size_t i : copies) {
    const PendingCopy& copy = left->copies[i];
    const bool apart = !kBefore(copy.from, at) && !kBefore(end, copy.from + copy.bytes);
    if (!apart) {  // two fields may want the same bytes: the CPU takes all
      if (!sum.Matches()) left->bad_rows.push_back(row);
      return;
    }
    take(copy.from);
    at = copy.from + copy.bytes;
  }
  if (copies.empty()) {
    if (!sum.Matches()) left->bad_rows.push_back(row);
    return;
  }
  take(end);
  for (const std::size_t i : copies) {
    left->copies[i].sum = static_cast<std::uint32_t>(left->sums.size());
  }
  left->sums.push_back(sum);
  Block* const owner = rows.task->block != nullptr ? rows.task->block : rows.task->refs[row].block;
  left->sum_rows.push_back(
      {owner, rows.row_of(row), rows.task->dst_row + static_cast<std::uint32_t>(row)});
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

/// The slab of the block that holds the bytes; null if none does.
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
                           std::size_t field, const ColumnTarget& target, LeftCopies* left) const {
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
    // A default's bytes, or a parser's own memory, do not stay with the block.
    const std::byte* const slab = from.size() == bytes ? SlabOf(rows.block_of(row), from) : nullptr;
    if (slab == nullptr) return false;
    left->copies.push_back({to, from.data(), bytes, slab, rows.block_of(row).far});
    left->rows.push_back(static_cast<std::uint32_t>(row));
    to += bytes;
  }
  return true;
}

}  // namespace ringfeed
