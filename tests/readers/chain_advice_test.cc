// What real chains say of themselves, each with one end that is slow because it sleeps: a busy
// machine makes other ends slower, never that one faster.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "ringfeed/dataset.h"
#include "tests/queue/numbered_instance.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

constexpr int kSlowRecords = 60;
constexpr std::chrono::milliseconds kNap{4};

void Nap(std::chrono::milliseconds time = kNap) { std::this_thread::sleep_for(time); }

/// Records of 8 bytes: the first one, or each, comes late.
class LateDataset final : public Dataset {
 public:
  LateDataset(std::chrono::milliseconds first, std::chrono::milliseconds each)
      : first_(first), each_(each) {}
  bool Next(std::string* sample) override {
    if (made_ == kSlowRecords) return false;
    Nap(made_ == 0 ? first_ : each_);
    sample->assign(8, static_cast<char>(made_++));
    return true;
  }
  bool ReInit() override {
    made_ = 0;
    return true;
  }

 private:
  const std::chrono::milliseconds first_;
  const std::chrono::milliseconds each_;
  int made_ = 0;
};

class LateInstances final : public InstanceSource {
 public:
  ReadResult ReadNext(Instance* instance, std::stop_token /*stop*/, Status* /*status*/) override {
    if (made_ == kSlowRecords) return ReadResult::kEnd;
    Nap();
    *instance = Numbered(made_++);
    return ReadResult::kRecord;
  }
  bool ReInit() override { return false; }
  std::vector<SlotSpec> slots() const override { return NumberSlots(); }

 private:
  int made_ = 0;
};

class ChainAdviceTest : public PipelineTest {
 protected:
  Reader Dataset(std::chrono::milliseconds first, std::chrono::milliseconds each) {
    return FromDataset(std::make_unique<LateDataset>(first, each), Options());
  }
  Reader Quick() { return Dataset(std::chrono::milliseconds(0), std::chrono::milliseconds(0)); }

  /// Of batches of four, which the loop takes as fast as it can.
  static std::string AdviceOf(const Reader& rows) {
    Reader reader = Batch(rows, {.size = 4});
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    }
    return reader.Stats().advice;
  }
  /// The same of a loop that takes so long for each batch, and so long as the next one is not
  /// ready: it never waits, however seldom a busy machine lets the threads have a processor.
  static std::string AdviceOfASlowLoop(const Reader& rows, std::chrono::milliseconds step) {
    Reader reader = Batch(rows, {.size = 4});
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      Nap(step);
      // A deadline that is past asks without waiting.
      while (reader.TryHasNext(Deadline{}) == ReadResult::kTimeout) Nap();
    }
    return reader.Stats().advice;
  }
  static bool Says(const std::string& advice, const std::string& words) {
    return advice.find(words) != std::string::npos;
  }
};

TEST_F(ChainAdviceTest, AReaderOfTheProgramsOwnThatIsSlowIsNamed) {
  const std::string of_records = AdviceOf(Dataset(kNap, kNap));
  EXPECT_TRUE(Says(of_records, "wait for your own reader")) << of_records;
  const std::string of_instances =
      AdviceOf(FromInstanceSource(std::make_unique<LateInstances>(), Options()));
  EXPECT_TRUE(Says(of_instances, "wait for your own reader")) << of_instances;
}

TEST_F(ChainAdviceTest, AFunctionThatLooksAtRecordsIsNamed) {
  const std::string advice = AdviceOf(Filter(Quick(), [](const RecordSpan& /*record*/) {
    Nap();
    return true;
  }));
  EXPECT_TRUE(Says(advice, "Filter")) << advice;
}

TEST_F(ChainAdviceTest, AFunctionThatMakesRowsIsNamed) {
  const std::string advice =
      AdviceOf(Map(Quick(), {{"x", kUInt8, {}}}, [](const MapInput& /*input*/, RowWriter& row) {
        Nap();
        row.Fixed(0)[0] = std::byte{1};
      }));
  EXPECT_TRUE(Says(advice, "The Map function takes most")) << advice;
  EXPECT_TRUE(Says(advice, "less work in it")) << advice;
}

TEST_F(ChainAdviceTest, ALoopIsNamedAlsoIfItsFirstBatchWasLate) {
  const std::string advice =
      AdviceOfASlowLoop(Dataset(std::chrono::milliseconds(300), {}), std::chrono::milliseconds(20));
  EXPECT_TRUE(Says(advice, "The loop that takes the batches is the slow end")) << advice;
}

}  // namespace
}  // namespace ringfeed
