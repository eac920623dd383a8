#include "readers/engine/sources/worker_io.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "io/read_progress.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

using Clock = std::chrono::steady_clock;

/// Holds up every read from an offset on. Relaxed, so that only what WorkerIo does itself orders
/// the thread that reads and the one that takes.
class HeldReads final : public ReadFaultHook {
 public:
  explicit HeldReads(std::uint64_t from) : from_(from) { SetReadFaultHook(this); }
  ~HeldReads() override { SetReadFaultHook(nullptr); }
  std::int64_t OnResult(const InputFile& /*file*/, std::uint64_t offset, std::uint32_t /*bytes*/,
                        std::int64_t result) override {
    while (offset >= from_ && !released_.load(std::memory_order_relaxed)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return result;
  }
  void Release() { released_.store(true, std::memory_order_relaxed); }

 private:
  const std::uint64_t from_;
  std::atomic<bool> released_ = false;
};

TEST(WorkerIoTest, CountsTheBytesOfTheReadsThatAreDone) {
  constexpr std::uint64_t kBlockBytes = 65536;
  constexpr std::uint64_t kFileBytes = 2 * kBlockBytes;
  const TempDir directory;
  const std::string path = directory.File("data");
  WritePatternFile(path, kFileBytes);
  HeldReads hold(kBlockBytes);
  IoOptions options;
  options.path = IoPath::kPread;
  options.direct = false;
  options.block_bytes = kBlockBytes;
  const std::shared_ptr<Arena> arena = Arena::Create({.bytes = 4 << 20, .huge_pages = false});
  const std::shared_ptr<InputFile> file = OpenInput(path, options).file;
  ASSERT_NE(file, nullptr);
  WorkerIo io(options, arena, {});
  Status why_not;
  ReadEngine* const engine = io.EngineFor(*file, &why_not);
  ASSERT_NE(engine, nullptr) << why_not.ToString();

  const SlabRun run = arena->Allocate(kFileBytes);
  const std::unique_ptr<ReadBuffer> buffer = io.Request(file.get(), engine, run, 0, kFileBytes, 0);
  EXPECT_EQ(buffer->bytes_read, 0u);
  io.Pump(buffer.get());
  while (buffer->parts_done == 0) io.Reap(Clock::now() + std::chrono::seconds(1));
  EXPECT_EQ(buffer->bytes_read, kBlockBytes);
  EXPECT_FALSE(buffer->complete());
  hold.Release();
  while (!buffer->complete()) io.Reap(Clock::now() + std::chrono::seconds(1));
  EXPECT_EQ(buffer->bytes_read, kFileBytes);
  EXPECT_EQ(buffer->valid_end, kFileBytes);
  EXPECT_TRUE(buffer->status.ok());
  arena->Free(run);
}

}  // namespace
}  // namespace ringfeed
