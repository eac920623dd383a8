#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "ringfeed/dataset.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/record_data.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// Numbered records, of the sizes that it is given.
class NumberedDataset final : public Dataset {
 public:
  struct Plan {
    std::vector<std::size_t> sizes;
    std::size_t throws_at = SIZE_MAX;
    bool rewinds = true;
    bool ready = true;
    std::atomic<int>* granted = nullptr;  ///< waits until so many were granted
  };
  explicit NumberedDataset(Plan plan) : plan_(std::move(plan)) {}

  bool Next(std::string* sample) override {
    EXPECT_TRUE(sample->empty());
    if (next_ == plan_.throws_at) throw std::runtime_error("no more of these");
    if (next_ == plan_.sizes.size()) return false;
    while (plan_.granted != nullptr && plan_.granted->load() <= static_cast<int>(next_)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    const auto payload = RecordPayload(next_, plan_.sizes[next_]);
    sample->assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    ++next_;
    return true;
  }
  bool ReInit() override {
    if (plan_.rewinds) next_ = 0;
    return plan_.rewinds;
  }
  bool Ready() const override { return plan_.ready; }
  std::string name() const override { return "numbered"; }

 private:
  const Plan plan_;
  std::size_t next_ = 0;
};

class DatasetRecordsTest : public PipelineTest {
 protected:
  Reader Open(NumberedDataset::Plan plan) const {
    return FromDataset(std::make_unique<NumberedDataset>(std::move(plan)), Options());
  }
};

TEST_F(DatasetRecordsTest, ItsSamplesAreRecordsLikeThoseOfFiles) {
  for (const std::size_t most : {20U, 5000U, 900'000U}) {
    const auto sizes = RandomSizes(most, most > 100'000 ? 40 : kSanitized ? 300 : 3000, 8, most);
    const std::size_t count = sizes.size();
    EXPECT_EQ(Drain(Open({.sizes = sizes})).ids, Numbers(count));
    EXPECT_EQ(DrainBlocks(Open({.sizes = sizes})).ids, Numbers(count));
    EXPECT_EQ(Drain(Batches(Open({.sizes = sizes}), 32)).ids, Numbers(count));
    const Drained shuffled = Drain(Batches(Shuffle(Open({.sizes = sizes}), {.window = 16}), 5));
    EXPECT_EQ(shuffled.ids.size(), count);
    EXPECT_EQ(shuffled.strange, 0U);
  }
}

// What comes behind it may take for ever.
TEST_F(DatasetRecordsTest, ThePositionThatWasSoughtIsToldOnceWhatIsLeftOutCame) {
  for (const bool another_reads : {false, true}) {
    std::atomic<int> granted{10};
    Reader samples =
        Open({.sizes = RandomSizes(1, 100, 8, 60), .ready = false, .granted = &granted});
    Reader reader = Batches(Filter(samples, [](const RecordSpan&) { return true; }), 5);
    reader.SeekTo(2);
    std::jthread reads([&] {
      Instance batch;
      if (another_reads) (void)reader.TryReadNext(&batch);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(another_reads ? 20 : 0));
    EXPECT_TRUE(reader.AwaitPosition(DeadlineAfter(std::chrono::seconds(3)))) << another_reads;
    EXPECT_TRUE(reader.KnowsPosition());
    granted = 100;
  }
  // Without a deadline, too, and from the beginning of the wait on.
  std::atomic<int> granted{0};
  Reader samples = Open({.sizes = RandomSizes(1, 100, 8, 60), .ready = false, .granted = &granted});
  Reader reader = Batches(Filter(samples, [](const RecordSpan&) { return true; }), 5);
  reader.SeekTo(2);
  const auto before = std::chrono::steady_clock::now();
  std::atomic<bool> is_told = false;
  std::jthread grants([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    granted = 10;
    while (!is_told && std::chrono::steady_clock::now() - before < std::chrono::seconds(3)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    granted = 100;
  });
  (void)reader.Position();
  is_told = true;
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(2));
}

/// Calls the reader that reads it, from one of its functions.
class CallingDataset final : public Dataset {
 public:
  struct Calls {
    std::atomic<const char*> from;  ///< the function's name
    std::function<void()> call;     ///< before the first read
    std::atomic<int> refused = 0;
    std::atomic<int> throws = 0;  ///< so many calls throw in place of calling
  };
  explicit CallingDataset(Calls* calls) : calls_(calls) {}
  bool Next(std::string* sample) override {
    *sample = std::to_string(next_);
    return next_++ < 20;
  }
  bool ReInit() override {
    Call("ReInit");
    next_ = 0;
    return true;
  }
  std::uint64_t Pass() const override {
    Call("Pass");
    return 0;
  }
  std::string name() const override {
    Call("name");
    return "calling";
  }

 private:
  void Call(std::string_view from) const {
    if (calls_->from.load() != from) return;
    if (calls_->throws > 0 && --calls_->throws >= 0) throw std::runtime_error("not now");
    try {
      if (calls_->call) calls_->call();
    } catch (const Error& error) {
      ++calls_->refused;
      EXPECT_NE(error.status().message().find("the reader that waits for it"), std::string::npos);
    }
  }

  Calls* const calls_;
  int next_ = 0;
};

// It has the reader's lock, and would wait for itself.
TEST_F(DatasetRecordsTest, AFunctionThatCallsTheReaderWhichWaitsForItIsRefused) {
  const std::vector<std::function<void(Reader&)>> all = {
      [](Reader& reader) { (void)reader.Stats(); },
      [](Reader& reader) { (void)reader.status(); },
      [](Reader& reader) { (void)reader.KnowsPosition(); },
      [](Reader& reader) { (void)reader.Position(); },
      [](Reader& reader) { (void)reader.HasNext(); },
      [](Reader& reader) { reader.ReInit(); },
      [](Reader& reader) { reader.ResetAll(); },
      [](Reader& reader) { reader.Close(); }};
  for (const std::string from : {"ReInit", "Pass"}) {  // its name is asked before the first read
    for (std::size_t i = 0; i < all.size(); ++i) {
      SCOPED_TRACE(from + " " + std::to_string(i));
      CallingDataset::Calls calls{from.c_str(), {}};
      Reader reader = Batches(FromDataset(std::make_unique<CallingDataset>(&calls), Options()), 5);
      calls.call = [&] { all[i](reader); };
      EXPECT_EQ(Drain(reader).rows.size(), 4u);
      reader.ReInit();
      EXPECT_EQ(Drain(reader).rows.size(), 4u);
      EXPECT_GT(calls.refused, 0);
      calls.from = "";
      reader.Close();
    }
  }
}

TEST_F(DatasetRecordsTest, APassThatThrowsFailsWhatIsReadBehindTheStart) {
  CallingDataset::Calls calls{"", {}};
  Reader reader = Batches(FromDataset(std::make_unique<CallingDataset>(&calls), Options()), 5);
  (void)reader.ReadNext();
  calls.from = "Pass";
  calls.throws = 1;
  EXPECT_THROW(reader.ReInit(), Error);
  Instance batch;
  EXPECT_EQ(reader.TryReadNext(&batch, {.deadline = DeadlineAfter(std::chrono::seconds(3))}),
            ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kUserError);
  reader.ReInit();
  EXPECT_EQ(Drain(reader).rows.size(), 4u);
}

TEST_F(DatasetRecordsTest, ItStartsAgainWhereItCan) {
  const auto sizes = RandomSizes(1, 700, 8, 60);
  Reader reader = MultiPass(Open({.sizes = sizes}), 3);
  EXPECT_EQ(Drain(reader).ids.size(), 2100U);
  reader.ReInit();
  (void)Drain(reader, 800);
  reader.ReInit();
  EXPECT_EQ(Drain(reader).ids.size(), 2100U);
  const Drained once = Drain(MultiPass(Open({.sizes = sizes, .rewinds = false}), 2));
  EXPECT_EQ(once.ids, Numbers(700));
  EXPECT_EQ(once.status.code(), StatusCode::kUnsupported);
}

TEST_F(DatasetRecordsTest, WhatItThrowsFailsTheStreamBehindItsSamples) {
  const Drained found = Drain(Open({.sizes = RandomSizes(1, 700, 8, 60), .throws_at = 333}));
  EXPECT_EQ(found.ids, Numbers(333));
  EXPECT_EQ(found.status.code(), StatusCode::kUserError);
  EXPECT_EQ(found.status.place().record, 333);
  EXPECT_NE(found.status.message().find("no more of these"), std::string::npos);
}

TEST_F(DatasetRecordsTest, ASampleThatIsTooLongIsAFailure) {
  OpenOptions options = Options();
  options.max_record_bytes = 100;
  NumberedDataset::Plan plan;
  plan.sizes = {8, 100, 101, 8};
  const Drained found =
      Drain(FromDataset(std::make_unique<NumberedDataset>(std::move(plan)), options));
  EXPECT_EQ(found.ids, Numbers(2));
  EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted);
}

TEST_F(DatasetRecordsTest, ASampleIsDeliveredAtOnceWhereTheNextMayWait) {
  std::atomic<int> granted{0};
  Reader reader = Open({.sizes = RandomSizes(1, 20, 8, 60), .ready = false, .granted = &granted});
  for (int i = 1; i <= 20; ++i) {
    granted.store(i);
    EXPECT_EQ(Drain(reader, 1).ids, std::vector<std::uint64_t>{static_cast<std::uint64_t>(i - 1)});
  }
}

}  // namespace
}  // namespace ringfeed
