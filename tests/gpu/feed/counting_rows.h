#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <utility>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"

namespace ringfeed {

/// Instances of one int64: 0, 1, …; as rows of a batch.
class CountingRows final : public InstanceSource {
 public:
  explicit CountingRows(std::int64_t rows) : rows_(rows) {}

  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    if (next_ == rows_) return ReadResult::kEnd;
    auto value = std::make_shared<std::int64_t>(next_++);
    Tensor tensor;
    tensor.dtype = DType::kInt64;
    tensor.data = reinterpret_cast<const std::byte*>(value.get());
    tensor.bytes = sizeof(std::int64_t);
    tensor.owner = std::move(value);
    *instance = {std::move(tensor)};
    return ReadResult::kRecord;
  }
  bool ReInit() override {
    next_ = 0;
    return true;
  }
  bool Ready() const override { return true; }

 private:
  const std::int64_t rows_;
  std::int64_t next_ = 0;
};

/// Batches of them: row r of batch b is b * size + r.
inline Reader CountingBatches(std::int64_t rows, std::size_t size) {
  return Batch(
      FromInstanceSource(std::make_unique<CountingRows>(rows), {{"number", DType::kInt64, {}}}),
      {.size = size});
}

}  // namespace ringfeed
