#include "tests/gpu/feed/numbered_batches.h"

#include <algorithm>
#include <cstring>

namespace ringfeed {

Instance NumberedBatch::Make(
    const std::shared_ptr<Arena>& arena,
    std::function<void(std::byte* data, std::size_t bytes)> on_release) const {
  const auto align = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  const std::size_t fixed_bytes = static_cast<std::size_t>(rows * kColumns) * 4;
  const std::size_t offsets_at = align(fixed_bytes);
  const std::size_t values_at = align(offsets_at + static_cast<std::size_t>(rows + 1) * 8);
  std::int64_t values = 0;
  for (std::int64_t r = 0; r < rows; ++r) values += Length(number, r);
  const std::size_t bytes =
      ragged ? values_at + static_cast<std::size_t>(values) * 2 + 2 : fixed_bytes + 1;
  SlabRun run = arena == nullptr ? SlabRun{new std::byte[bytes], bytes} : arena->Allocate(bytes);
  std::byte* const data = run.data;
  auto* const fixed = reinterpret_cast<std::uint32_t*>(data);
  for (std::int64_t i = 0; i < rows * kColumns; ++i) fixed[i] = Value(number, i / kColumns);
  std::shared_ptr<const void> owner(data, [=](const void*) {
    if (on_release) on_release(run.data, bytes);
    if (arena == nullptr) {
      delete[] run.data;
    } else {
      arena->Free(run);
    }
  });
  Tensor numbers;
  numbers.dtype = DType::kUInt32;
  numbers.shape = {rows, kColumns};
  numbers.data = data;
  numbers.bytes = fixed_bytes;
  numbers.owner = owner;
  Instance batch = {numbers};
  if (!ragged) return batch;
  auto* const offsets = reinterpret_cast<std::int64_t*>(data + offsets_at);
  auto* const tokens = reinterpret_cast<std::uint16_t*>(data + values_at);
  offsets[0] = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    offsets[r + 1] = offsets[r] + Length(number, r);
    for (std::int64_t i = offsets[r]; i < offsets[r + 1]; ++i) {
      tokens[i] = static_cast<std::uint16_t>(Value(number, r) + static_cast<std::uint32_t>(i));
    }
  }
  Tensor text;
  text.dtype = DType::kUInt16;
  text.shape = {values};
  text.data = data + values_at;
  text.bytes = static_cast<std::size_t>(values) * 2;
  text.lod = {{offsets, static_cast<std::size_t>(rows) + 1}};
  text.owner = owner;
  batch.push_back(text);
  return batch;
}

SupplyResult NumberedSupply::Take(SuppliedBatch* batch, Status* status, const std::stop_token&) {
  if (next_ == options_.batches) return SupplyResult::kEnd;
  if (next_ == options_.fail_at) {
    *status = Status(StatusCode::kDamaged, "record 7");
    return SupplyResult::kFailed;
  }
  const std::int64_t now_ns = backend_->NowNanos();
  if (*out_ >= options_.held || now_ns < ready_ns_) return SupplyResult::kNotYet;
  NumberedBatch numbered{next_, options_.rows, options_.ragged};
  if (next_ + 1 == options_.batches && options_.last_rows > 0) numbered.rows = options_.last_rows;
  ++next_;
  ++*out_;
  backend_->NoteTakeOver(out_.get());
  batch->origin.batch = numbered.number;
  batch->tensors = numbered.Make(arena_, [backend = backend_, out = out_, poison = options_.poison](
                                             std::byte* data, std::size_t bytes) {
    --*out;
    backend->NoteTakeOver(data);
    // As the next read into that memory does it.
    backend->NoteHostWrite(data, bytes, "the next read");
    backend->NoteHandOver(out.get());
    if (poison) std::memset(data, 0xDB, bytes);
  });
  for (const Tensor& tensor : batch->tensors)
    backend_->NoteHostWrite(tensor.data, tensor.bytes, "a read");
  if (options_.interval_ns) ready_ns_ = std::max(ready_ns_, now_ns) + options_.interval_ns();
  return SupplyResult::kBatch;
}

std::int64_t NumberedSupply::ReadyAt() const {
  return ready_ns_ > backend_->NowNanos() ? ready_ns_ : BatchSupply::ReadyAt();
}

}  // namespace ringfeed
