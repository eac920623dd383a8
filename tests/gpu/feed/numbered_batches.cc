#include "tests/gpu/feed/numbered_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ringfeed/devices/emulated_devices.h"

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

class NumberedSupply::DeviceSlabs final : public FarMemory {
 public:
  static constexpr std::size_t kBytes = std::size_t{64} << 10;

  DeviceSlabs(const std::shared_ptr<DeviceBackend>& backend, std::size_t count)
      : devices_(std::dynamic_pointer_cast<EmulatedDevices>(backend)) {
    EXPECT_TRUE(devices_->AllocDevice(0, count * kBytes, &data_).ok());
    for (std::size_t i = 0; i < count; ++i) free_.push_back(data_ + i * kBytes);
  }
  ~DeviceSlabs() override {
    devices_->NoteTakeOver(this);
    EXPECT_TRUE(devices_->FreeDevice(0, data_).ok());
  }
  DeviceSlabs(const DeviceSlabs&) = delete;
  DeviceSlabs& operator=(const DeviceSlabs&) = delete;

  Status CopyToHost(std::byte*, const std::byte*, std::size_t) override {
    return Status(StatusCode::kUnsupported, "nobody asks for that here");
  }

  std::byte* Take() {
    devices_->NoteTakeOver(this);
    std::byte* const slab = free_.back();
    free_.pop_back();
    return slab;
  }
  /// By whoever let the batch go.
  void GiveBack(std::byte* slab, std::size_t bytes, bool poison) {
    Overwrite(slab, bytes, "the next direct read");
    if (poison) std::memset(slab, 0xDB, bytes);
    devices_->NoteHandOver(this);
    free_.push_back(slab);
  }
  /// The disk is an actor of its own: it knows what was asked of it, and whoever sees its
  /// completion knows what it wrote.
  void Read(std::byte* slab, const std::byte* from, std::size_t bytes, bool awaited) {
    devices_->NoteHandOver(&free_);
    devices_->SetActor(kDisk);
    devices_->NoteTakeOver(&free_);
    Overwrite(slab, bytes, "a direct read");
    std::memcpy(slab, from, bytes);
    devices_->NoteHandOver(slab);
    devices_->SetActor(kReader);
    if (awaited) devices_->NoteTakeOver(slab);
  }

 private:
  static constexpr int kReader = 1;  // as FeedDriveOptions::act_as
  static constexpr int kDisk = 9;

  void Overwrite(std::byte* slab, std::size_t bytes, const char* what) {
    devices_->NoteDirectWrite(0, slab, bytes, what);
  }

  const std::shared_ptr<EmulatedDevices> devices_;
  std::byte* data_ = nullptr;
  std::vector<std::byte*> free_;
};

NumberedSupply::NumberedSupply(Options options, std::shared_ptr<DeviceBackend> backend)
    : options_(std::move(options)),
      backend_(std::move(backend)),
      arena_(options_.in_arena ? Arena::Create({.bytes = std::size_t{32} << 20}) : nullptr),
      pending_(options_.batches) {
  if (options_.direct) slabs_ = std::make_shared<DeviceSlabs>(backend_, options_.held);
}

void NumberedSupply::ReadDirectly(const NumberedBatch& numbered, std::byte* slab,
                                  SuppliedBatch* batch) {
  const Tensor& fixed = batch->tensors[0];
  auto* const host = const_cast<std::byte*>(fixed.data);  // this supply's own
  slabs_->Read(slab, host, fixed.bytes, options_.awaits_reads);
  // What the host has of it is nobody's.
  std::memset(host, 0xAB, fixed.bytes);
  const std::size_t row_bytes = fixed.bytes / static_cast<std::size_t>(numbered.rows);
  std::vector<PendingCopy>& pending = pending_[numbered.number];
  pending.clear();
  for (std::size_t at = 0; at < fixed.bytes; at += row_bytes) {
    pending.push_back({host + at, slab + at, row_bytes, slab, slabs_.get()});
  }
  batch->pending = pending;
}

SupplyResult NumberedSupply::Take(SuppliedBatch* batch, Status* status, const std::stop_token&) {
  if (next_ == options_.batches) return SupplyResult::kEnd;
  if (next_ == options_.fail_at) {
    *status = Status(StatusCode::kDamaged, "record 7");
    return SupplyResult::kFailed;
  }
  const std::int64_t now_ns = backend_->NowNanos();
  if (*out_ >= options_.held || now_ns < ready_ns_) return SupplyResult::kNotYet;
  const NumberedBatch numbered{next_, options_.RowsOf(next_), options_.ragged};
  ++next_;
  ++*out_;
  backend_->NoteTakeOver(out_.get());
  batch->origin.batch = numbered.number;
  std::byte* const slab = slabs_ == nullptr ? nullptr : slabs_->Take();
  const auto slab_bytes = static_cast<std::size_t>(numbered.rows * NumberedBatch::kColumns) * 4;
  batch->tensors =
      numbered.Make(arena_, [=, backend = backend_, out = out_, slabs = slabs_,
                             poison = options_.poison](std::byte* data, std::size_t bytes) {
        --*out;
        backend->NoteTakeOver(data);
        if (slabs != nullptr) slabs->GiveBack(slab, slab_bytes, poison);
        // As the next read into that memory does it.
        backend->NoteHostWrite(data, bytes, "the next read");
        backend->NoteHandOver(out.get());
        if (poison) std::memset(data, 0xDB, bytes);
      });
  for (const Tensor& tensor : batch->tensors)
    backend_->NoteHostWrite(tensor.data, tensor.bytes, "a read");
  if (slabs_ != nullptr) ReadDirectly(numbered, slab, batch);
  if (options_.interval_ns) ready_ns_ = std::max(ready_ns_, now_ns) + options_.interval_ns();
  return SupplyResult::kBatch;
}

std::int64_t NumberedSupply::ReadyAt() const {
  return ready_ns_ > backend_->NowNanos() ? ready_ns_ : BatchSupply::ReadyAt();
}

}  // namespace ringfeed
