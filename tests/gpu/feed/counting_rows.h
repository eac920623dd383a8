#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <utility>

#include "ringfeed/decorators.h"
#include "ringfeed/reader.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Instances of one int64: 0, 1, …; as rows of a batch.
class CountingRows final : public InstanceSource {
 public:
  explicit CountingRows(std::int64_t rows) : rows_(rows) {}

  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    if (next_ == rows_) return ReadResult::kEnd;
    *instance = {MakeScalar(next_++)};
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

inline Reader CountingReader(std::int64_t rows) {
  return FromInstanceSource(std::make_unique<CountingRows>(rows), {{"number", DType::kInt64, {}}});
}

/// Batches of them: row r of batch b is b * size + r.
inline Reader CountingBatches(std::int64_t rows, std::size_t size) {
  return Batch(CountingReader(rows), {.size = size});
}

}  // namespace ringfeed
