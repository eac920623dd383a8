#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/chain/session.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

class RunStartTest : public PipelineTest {
 protected:
  using Chain = std::function<Reader(Reader)>;

  /// What a run of the chain delivers that leaves its first `outputs` out.
  static Drained DrainWithout(const Reader& reader, std::uint64_t outputs) {
    ExecutionPlan plan = LowerChain(*ReaderAccess::NodeOf(reader));
    plan.source.options.index = IndexUse::kNever;
    const auto session = std::make_shared<ReaderSession>(std::move(plan));
    session->AimAt(outputs);
    Drained drained;
    Instance instance;
    while ((drained.end = session->ReadNext(&instance)) == ReadResult::kRecord) {
      AddInstance(instance, &drained);
    }
    drained.status = session->status();
    return drained;
  }
  static Reader ByThirds(Reader reader) {
    GroupBatchOptions options;
    options.size = 8;
    options.segment = 100;
    options.group_of = [](const RecordSpan& record) {
      std::uint64_t number = 0;
      std::memcpy(&number, record.data, sizeof(number));
      return static_cast<std::int64_t>(number % 3);
    };
    return GroupBatch(std::move(reader), options);
  }
};

TEST_F(RunStartTest, TheFirstOutputsAreLeftOutAndTheOthersComeAsTheyWould) {
  const auto files = MakeFiles(4, 300, 8, 900);
  const std::vector<Chain> chains = {
      [](Reader reader) { return reader; },
      [](Reader reader) { return Parse(std::move(reader), RawParser()); },
      [](Reader reader) { return Shuffle(std::move(reader), {.window = 90}); },
      [](Reader reader) { return Parse(Shuffle(std::move(reader), {.block = 70}), RawParser()); },
      [](Reader reader) { return Batches(std::move(reader), 7); },
      [](Reader reader) { return MultiPass(Batches(std::move(reader), 64, true), 3); },
      [](Reader reader) {
        return Batches(MultiPass(Shuffle(std::move(reader), {.window = 200}), 2), 33);
      },
      [](Reader reader) { return MultiPass(ByThirds(std::move(reader)), 2); },
  };
  for (std::size_t chain = 0; chain < chains.size(); ++chain) {
    const Drained all = Drain(chains[chain](OpenFiles(files, Options())));
    ASSERT_EQ(all.end, ReadResult::kEnd);
    const std::size_t count = all.rows.size();
    for (const std::size_t outputs :
         {std::size_t{0}, std::size_t{1}, count / 3, count - 1, count, count + 5}) {
      const std::size_t from = std::min(outputs, count);
      std::size_t rows = 0;
      for (std::size_t i = 0; i < from; ++i) rows += all.rows[i];
      const Drained rest = DrainWithout(chains[chain](OpenFiles(files, Options())), outputs);
      EXPECT_EQ(rest.end, ReadResult::kEnd) << rest.status.ToString();
      EXPECT_EQ(rest.strange, 0u);
      ASSERT_EQ(rest.ids, std::vector<std::uint64_t>(
                              all.ids.begin() + static_cast<std::ptrdiff_t>(rows), all.ids.end()))
          << chain << ": " << outputs;
      ASSERT_EQ(rest.rows,
                std::vector<std::size_t>(all.rows.begin() + static_cast<std::ptrdiff_t>(from),
                                         all.rows.end()));
    }
  }
}

TEST_F(RunStartTest, PassesCountTheirEpochsFromTheFirst) {
  const auto files = MakeFiles(5, 100, 8, 50);
  const std::vector<Chain> chains = {
      [](Reader reader) { return Shuffle(std::move(reader), {.window = 60, .seed = 3}); },
      [](Reader reader) { return Shuffle(std::move(reader), {.block = 60, .seed = 3}); }};
  OpenOptions options = Options();
  options.files.shuffle = true;
  options.files.from_pass = 1;
  for (const Chain& chain : chains) {
    options.first_epoch = 0;
    const std::vector<std::uint64_t> four =
        Drain(MultiPass(chain(OpenFiles(files, options)), 4)).ids;
    ASSERT_EQ(four.size(), 2000u);
    for (std::uint32_t first = 1; first < 4; ++first) {
      options.first_epoch = first;
      const auto rest = Drain(MultiPass(chain(OpenFiles(files, options)), 4 - first)).ids;
      EXPECT_EQ(rest, std::vector<std::uint64_t>(four.begin() + 500 * first, four.end())) << first;
    }
  }
}

}  // namespace
}  // namespace ringfeed
