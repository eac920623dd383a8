#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/memory/arena.h"
#include "readers/engine/blocks/block.h"
#include "readers/engine/sources/lane.h"
#include "ringfeed/open_options.h"

namespace ringfeed {
namespace {

// Records of one byte, then what it was told.
class ScriptedRecords final : public RecordProvider {
 public:
  explicit ScriptedRecords(std::vector<ReadResult> script) : script_(std::move(script)) {}

  ReadResult Next(std::span<const std::byte>* record, const std::stop_token& /*stop*/,
                  Status* /*status*/) override {
    *record = {&byte_, 1};
    return next_ < script_.size() ? script_[next_++] : ReadResult::kEnd;
  }
  bool Ready() const override { return true; }
  bool ReInit() override { return false; }
  std::string name() const override { return "the script"; }

 private:
  const std::vector<ReadResult> script_;
  const std::byte byte_{7};
  std::size_t next_ = 0;
};

TEST(RecordLaneTest, ATimeoutIsNoRecordButAFailureBehindThoseThatCame) {
  const auto arena = Arena::Create({.bytes = std::size_t{16} << 20});
  const OpenOptions options;
  LaneContext context;
  context.options = &options;
  context.arena = arena;
  StageClock read;
  StageClock wait;
  context.read_clock = &read;
  context.wait_clock = &wait;
  ScriptedRecords records({ReadResult::kRecord, ReadResult::kRecord, ReadResult::kTimeout});
  RecordLane lane(&records, 1, &context, {});
  Status status;
  std::size_t rows = 0;
  while (status.ok() && rows <= 2) {  // a block may end early, after a while
    Block block;
    EXPECT_TRUE(lane.Fill(&block));
    rows += block.rows();
    status = block.status;
    for (const SlabRun& run : block.runs) arena->Free(run);
  }
  EXPECT_EQ(rows, 2U);
  EXPECT_EQ(status.code(), StatusCode::kUserError);
  EXPECT_NE(status.message().find("the script returned kTimeout"), std::string::npos)
      << status.ToString();
  EXPECT_EQ(status.place().record, 2);
}

}  // namespace
}  // namespace ringfeed
