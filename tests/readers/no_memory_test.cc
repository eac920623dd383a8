// A chain that gets no memory fails, and says so. This program has an operator new of its own,
// which refuses what a test says.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"
#include "ringfeed/source.h"

namespace {

std::atomic<bool> refuses = false;
std::atomic<std::int64_t> calls = 0;  ///< of other threads than the consumer's, since refuses
std::atomic<std::int64_t> first = 0;  ///< so many are served
std::atomic<std::int64_t> last = 0;   ///< and those behind this one
thread_local bool is_consumer = false;

bool IsRefused() {
  if (!refuses.load(std::memory_order_relaxed) || is_consumer) return false;
  const std::int64_t call = calls.fetch_add(1, std::memory_order_relaxed);
  return call >= first.load(std::memory_order_relaxed) &&
         call <= last.load(std::memory_order_relaxed);
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = IsRefused() ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// As libstdc++'s; without it AddressSanitizer answers, and takes what it gave for another
// allocator's.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return IsRefused() ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace ringfeed {
namespace {

constexpr std::int64_t kTried = 60;  ///< calls of a chain
constexpr std::int64_t kEver = std::numeric_limits<std::int64_t>::max();

/// Records of 8 bytes: their numbers.
class NumberSource final : public Source {
 public:
  explicit NumberSource(std::int64_t first) : numbers_(600) {
    std::iota(numbers_.begin(), numbers_.end(), first);
  }
  std::string name() const override { return "numbers.raw"; }
  std::uint64_t Size() const override { return numbers_.size() * 8; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> to, std::size_t* got) override {
    const auto bytes = std::as_bytes(std::span(numbers_)).subspan(offset);
    *got = std::min(to.size(), bytes.size());
    std::copy_n(bytes.begin(), *got, to.begin());
    return {};
  }

 private:
  std::vector<std::int64_t> numbers_;
};

struct Outcome {
  std::vector<std::int64_t> rows;
  ReadResult end = ReadResult::kRecord;
  Status status;
  std::int64_t calls = 0;
};

class NoMemoryTest : public testing::Test {
 protected:
  NoMemoryTest() { is_consumer = true; }
  ~NoMemoryTest() override { is_consumer = false; }

  Reader Open(const std::vector<std::shared_ptr<Source>>& sources) const {
    OpenOptions options;
    options.format = "rows:8";
    options.threads = threads_;
    static const auto arena = std::make_shared<PinnedArena>(std::size_t{256} << 20);
    options.arena = arena;
    return OpenSources(sources, options);
  }

  /// Reads the chain while its threads' calls of operator new from `from` to `to` are refused.
  Outcome Run(const std::function<Reader(Reader)>& chain, std::int64_t from, std::int64_t to) {
    Outcome outcome;
    Reader reader = Parse(chain(Open(sources_)), RecordParser());
    if (batches_) reader = Batch(reader, {.size = 7});
    first = from;
    last = to;
    calls = 0;
    refuses = true;
    try {
      Instance batch;
      while ((outcome.end = reader.TryReadNext(&batch)) == ReadResult::kRecord) {
        const auto numbers = batch[0].Values<std::int64_t>();
        outcome.rows.insert(outcome.rows.end(), numbers.begin(), numbers.end());
      }
      outcome.status = reader.status();
      reader.Close();
    } catch (const Error& error) {
      outcome.end = ReadResult::kFailed;
      outcome.status = error.status();
    }
    refuses = false;
    outcome.calls = calls;
    return outcome;
  }

  void Check(const std::function<Reader(Reader)>& chain, bool for_ever) {
    const Outcome whole = Run(chain, kEver, kEver);
    ASSERT_EQ(whole.end, ReadResult::kEnd) << whole.status.ToString();
    ASSERT_GT(whole.calls, 0);
    const std::int64_t step = std::max<std::int64_t>(1, whole.calls / kTried);
    for (std::int64_t call = 0; call < whole.calls; call += step) {
      const Outcome found = Run(chain, call, for_ever ? kEver : call);
      ASSERT_LE(found.rows.size(), whole.rows.size());
      EXPECT_TRUE(std::equal(found.rows.begin(), found.rows.end(), whole.rows.begin())) << call;
      if (found.end == ReadResult::kEnd) {
        EXPECT_EQ(found.rows.size(), whole.rows.size()) << call;
      } else {
        EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted)
            << call << ": " << found.status.ToString();
      }
    }
  }

  int threads_ = 2;
  bool batches_ = true;

  /// So many that several threads open them.
  void UseManySources() {
    for (std::int64_t i = 3; i < 40; ++i) {
      sources_.push_back(std::make_shared<NumberSource>(1000 * i));
    }
  }

 private:
  static std::shared_ptr<const Parser> RecordParser() {
    return RowsParser({{"number", kInt64, {1}}});
  }
  std::vector<std::shared_ptr<Source>> sources_ = {std::make_shared<NumberSource>(0),
                                                   std::make_shared<NumberSource>(1000),
                                                   std::make_shared<NumberSource>(2000)};
};

Reader InOrder(Reader records) { return records; }
Reader InWindows(Reader records) { return Shuffle(records, {.window = 100, .seed = 5}); }
Reader ByNumber(Reader records) {
  return MultiPass(Shuffle(records, {.seed = 5, .mode = ShuffleMode::kGlobal}), 2);
}
Reader Filtered(Reader records) {
  return Filter(records,
                [](const RecordSpan& record) { return record.bytes()[0] != std::byte{7}; });
}

TEST_F(NoMemoryTest, OneRefusedCallFailsTheChainOrIsOvercome) {
  for (auto* const chain : {InOrder, InWindows, ByNumber, Filtered}) Check(chain, false);
}

TEST_F(NoMemoryTest, SoItDoesWithOneThreadOrWithoutBatches) {
  threads_ = 1;
  Check(InOrder, false);
  batches_ = false;
  Check(InOrder, false);
  threads_ = 2;
  Check(InOrder, false);
}

TEST_F(NoMemoryTest, WithoutMemoryForTheThreadsThatOpenFilesTheChainFails) {
  UseManySources();
  for (int round = 0; round < 20; ++round) {
    const Outcome found = Run(ByNumber, round % 4, kEver);
    EXPECT_EQ(found.end, ReadResult::kFailed);
    EXPECT_EQ(found.status.code(), StatusCode::kResourceExhausted) << found.status.ToString();
  }
}

TEST_F(NoMemoryTest, WithoutMemoryForEverTheChainFails) {
  for (auto* const chain : {InOrder, InWindows, ByNumber, Filtered}) Check(chain, true);
}

}  // namespace
}  // namespace ringfeed
