#include "examples/mlp_replica.h"

#include <string>
#include <utility>

namespace mlp {
namespace {

void Check(const ringfeed::Status& status) {
  if (!status.ok()) throw ringfeed::Error(status);
}

// So that each array begins where one of its own would.
constexpr std::size_t Rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Replica::Replica(std::shared_ptr<ringfeed::DeviceBackend> backend, Kernels* kernels, int device,
                 std::size_t most_rows)
    : backend_(std::move(backend)), kernels_(kernels), device_(device), most_rows_(most_rows) {
  try {
    SetUp();
  } catch (const ringfeed::Error&) {
    FreeAll();
    throw;
  }
}

Replica::~Replica() { FreeAll(); }

void Replica::SetUp() {
  Check(backend_->BindThread(device_));
  Check(backend_->CreateStream(device_, ringfeed::StreamPriority::kNormal, &stream_));
  const std::size_t sums_at = Rounded(sizeof(Weights));
  const std::size_t rows_at = sums_at + Rounded(sizeof(Sums));
  Check(backend_->AllocDevice(device_, rows_at + most_rows_ * sizeof(RowState), &block_));
  memory_ = {reinterpret_cast<Weights*>(block_), reinterpret_cast<Sums*>(block_ + sums_at),
             reinterpret_cast<RowState*>(block_ + rows_at)};
  Check(kernels_->Start(stream_, memory_));
}

void Replica::FreeAll() {
  // Nothing more can be done about a failure here, and a lost device's memory is gone anyway.
  if (stream_) (void)backend_->SyncStream(stream_);
  if (block_ != nullptr) (void)backend_->FreeDevice(device_, block_);
  if (stream_) (void)backend_->DestroyStream(stream_);
}

void Replica::Gradient(ringfeed::DeviceLease batch, std::span<float> sums) {
  const std::span<const ringfeed::Tensor> tensors = batch.On(stream_);
  if (batch.rows() > most_rows_) {
    Check(ringfeed::Status(ringfeed::StatusCode::kInvalidArgument,
                           "a batch of " + std::to_string(batch.rows()) + " rows"));
  }
  const Batch rows{reinterpret_cast<const float*>(tensors[0].data),
                   reinterpret_cast<const std::int64_t*>(tensors[1].data), batch.rows()};
  Check(kernels_->Gradient(stream_, rows, memory_));
  batch.Release();  // behind the kernels: the next batch is copied here while the sums are added up
  Check(backend_->CopyToHost(stream_, reinterpret_cast<std::byte*>(sums.data()),
                             reinterpret_cast<const std::byte*>(memory_.sums), sizeof(Sums)));
  Check(backend_->SyncStream(stream_));
}

void Replica::Update(std::span<const float> sums, float rate) {
  Check(backend_->CopyToDevice(stream_, reinterpret_cast<std::byte*>(memory_.sums),
                               reinterpret_cast<const std::byte*>(sums.data()), sizeof(Sums)));
  Check(kernels_->Update(stream_, memory_, rate));
}

}  // namespace mlp
