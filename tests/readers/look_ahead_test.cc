#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "ringfeed/dataset.h"
#include "tests/readers/pushed_chain.h"
#include "tests/support/stress_scale.h"

// A thread that looks ahead beside one that reads.

namespace ringfeed {
namespace {

using std::chrono::milliseconds;

void Sleep(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }

class LookAheadTest : public PushedChainTest {};

TEST_F(LookAheadTest, WhoHoldsAllSlotsOfASilentSourceIsToldSoWhileAnotherLooks) {
  for (const bool another_looks : {false, true}) {
    ReOpen();
    Reader reader = Batch(OpenPyReader(holder_, Options()), {.size = 1, .slots = 3});
    Push(0, 3);
    std::vector<Instance> held = Hold(&reader, 3);
    std::jthread looks([&] {
      if (another_looks) (void)reader.HasNext();
    });
    Sleep(50);
    Instance more;
    EXPECT_EQ(reader.TryReadNext(&more, {.deadline = In(3000)}), ReadResult::kFailed)
        << "another looks: " << another_looks;
    held.clear();
    queue_->Close();
  }
}

TEST_F(LookAheadTest, WhoLooksAndHoldsAllSlotsOfASilentSourceIsToldSo) {
  for (const bool another_takes : {false, true}) {
    ReOpen();
    Reader reader = Batch(OpenPyReader(holder_, Options()), {.size = 1, .slots = 3});
    Push(0, 3);
    std::vector<Instance> held = Hold(&reader, 3);
    std::jthread takes([&] {
      Instance instance;
      if (another_takes) (void)reader.TryReadNext(&instance);
    });
    Sleep(50);
    EXPECT_EQ(reader.TryHasNext(In(3000)), ReadResult::kRecord) << "takes: " << another_takes;
    held.clear();
    queue_->Close();
  }
}

/// Samples as the test lets them go.
class Stepped final : public Dataset {
 public:
  struct State {
    std::atomic<int> allowed{0};
    std::atomic<bool> ends{false};
  };
  Stepped(State* state, std::vector<std::string> samples, bool together)
      : state_(state), samples_(std::move(samples)), together_(together) {}
  bool Next(std::string* sample) override {
    while (at_ >= static_cast<std::size_t>(state_->allowed.load())) {
      if (state_->ends) return false;
      Sleep(1);
    }
    if (at_ == samples_.size()) return false;
    *sample = samples_[at_++];
    return true;
  }
  bool Ready() const override { return together_ && at_ < samples_.size() && at_ > 0; }

 private:
  State* const state_;
  const std::vector<std::string> samples_;
  const bool together_;
  std::size_t at_ = 0;
};

TEST_F(LookAheadTest, AFailureIsToldAtOnceWhileAnotherLooksAgainAndAgain) {
  int hung = 0;
  for (int times = 0; times < StressRounds(40); ++times) {
    Stepped::State state;
    Reader reader = Batch(Map(FromDataset(std::make_unique<Stepped>(
                                  &state, std::vector<std::string>{"good", "bad"}, false)),
                              {{"x", DType::kInt64, {}}},
                              [](const MapInput& input, RowWriter& output) {
                                if (input.record.size == 3) throw std::runtime_error("bad");
                                std::memset(output.Fixed(0).data(), 0, 8);
                              }),
                          {.size = 1});
    state.allowed = 1;
    Instance instance;
    ASSERT_EQ(reader.TryReadNext(&instance, {.deadline = In(60'000)}), ReadResult::kRecord);
    std::atomic<bool> ends = false;
    std::jthread looks([&] {
      while (!ends) (void)reader.HasNext();
    });
    state.allowed = 2;
    Sleep(5);
    EXPECT_EQ(reader.TryReadNext(&instance, {.deadline = In(60'000)}), ReadResult::kFailed);
    Sleep(2);
    if (reader.TryReadNext(&instance, {.deadline = In(500)}) != ReadResult::kFailed) ++hung;
    ends = true;
    state.ends = true;
  }
  EXPECT_EQ(hung, 0);
}

TEST_F(LookAheadTest, AReadWithAStopWaitsForWhatItHoldsWhileAnotherLooks) {
  for (const bool another_looks : {false, true}) {
    Reader reader = Batch(Parse(OpenFiles(MakeFiles(2, 200, 8, 100), Options()), RawParser()),
                          {.size = 10, .slots = 3});
    std::vector<Instance> held = Hold(&reader, 3);
    std::jthread looks([&] {
      if (another_looks) (void)reader.HasNext();
    });
    Sleep(50);
    std::jthread lets_go([&] {
      Sleep(500);
      held.pop_back();
    });
    std::stop_source stop;
    Instance more;
    EXPECT_EQ(reader.TryReadNext(&more, {.stop = stop.get_token()}), ReadResult::kRecord)
        << "another looks: " << another_looks << ": " << reader.status().ToString();
  }
}

TEST_F(LookAheadTest, WithAStopTheDeadlineDoesNotCountWhileAnotherLooks) {
  for (const bool another_looks : {false, true}) {
    ReOpen();
    Reader reader = Batch(OpenPyReader(holder_, Options()), {.size = 1});
    std::jthread looks([&] {
      if (another_looks) (void)reader.HasNext();
    });
    Sleep(50);
    std::jthread pushes([&] {
      Sleep(300);
      Push(0, 1);
    });
    std::stop_source stop;
    Instance more;
    EXPECT_EQ(reader.TryReadNext(&more, {.deadline = In(50), .stop = stop.get_token()}),
              ReadResult::kRecord)
        << "another looks: " << another_looks;
    pushes.join();
    queue_->Close();
  }
}

TEST_F(LookAheadTest, TheEndIsNotToldBeforeTheLastRow) {
  int early = 0;
  for (int times = 0; times < StressRounds(100); ++times) {
    Stepped::State state;
    Reader reader = FromDataset(
        std::make_unique<Stepped>(&state, std::vector<std::string>{"a", "b", "c"}, true));
    std::atomic<bool> last = false;
    const auto look = [&] {
      const ReadResult result = reader.TryHasNext(In(60'000));
      if (result == ReadResult::kEnd && !last.load()) ++early;
    };
    std::jthread one(look);
    Sleep(1);
    std::jthread two(look);
    Sleep(1);
    std::jthread lets([&] {
      Sleep(2);
      state.allowed = 4;
    });
    Instance row;
    ASSERT_EQ(reader.TryReadNext(&row, {.deadline = In(60'000)}), ReadResult::kRecord);
    Sleep(2);
    last = true;
    ASSERT_EQ(reader.TryReadNext(&row, {.deadline = In(60'000)}), ReadResult::kRecord);
    ASSERT_EQ(reader.TryReadNext(&row, {.deadline = In(60'000)}), ReadResult::kRecord);
  }
  EXPECT_EQ(early, 0);
}

}  // namespace
}  // namespace ringfeed
