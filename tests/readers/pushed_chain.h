#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ringfeed/compat/py_reader.h"
#include "ringfeed/queue/blocking_queue.h"
#include "ringfeed/queue/deadline.h"
#include "ringfeed/tensor.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {

inline Deadline In(int ms) { return DeadlineAfter(std::chrono::milliseconds(ms)); }

/// A chain over a queue: what it delivers is what the test pushes.
class PushedChainTest : public PipelineTest {
 protected:
  PushedChainTest() {
    holder_->InitOnce(64, {{"number", DType::kInt64, {}}});
    queue_ = holder_->GetQueue();
  }
  void Push(std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) ASSERT_TRUE(queue_->Push({MakeScalar(i)}));
  }
  /// For another chain.
  void ReOpen() { queue_ = holder_->ReOpen(); }

  const std::shared_ptr<LoDTensorBlockingQueueHolder> holder_ =
      std::make_shared<LoDTensorBlockingQueueHolder>();
  std::shared_ptr<LoDTensorBlockingQueue> queue_;
};

/// The next `count` deliveries, held.
inline std::vector<Instance> Hold(Reader* reader, std::size_t count) {
  std::vector<Instance> held(count);
  for (Instance& each : held) {
    EXPECT_EQ(reader->TryReadNext(&each, {.deadline = In(60'000)}), ReadResult::kRecord);
  }
  return held;
}

}  // namespace ringfeed
