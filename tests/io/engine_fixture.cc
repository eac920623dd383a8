#include "tests/io/engine_fixture.h"

#include <algorithm>
#include <array>
#include <utility>

namespace ringfeed {

void PrintTo(const EngineCase& engine_case, std::ostream* out) { *out << engine_case.name; }

void EngineTest::SetUp() {
  if (GetParam().path == IoPath::kUring && !ProbeUring().available) {
    GTEST_SKIP() << "no io_uring here: " << ProbeUring().reason;
  }
  directory_ = std::make_unique<TempDir>();
  ArenaOptions options;
  options.bytes = std::size_t{64} << 20;
  arena_ = Arena::Create(options);
}

void EngineTest::TearDown() { arena_.reset(); }

IoOptions EngineTest::Options() const {
  IoOptions options;
  options.path = GetParam().path;
  options.direct = GetParam().direct;
  return options;
}

std::unique_ptr<ReadEngine> EngineTest::NewEngine(const IoOptions& options) {
  if (GetParam().inlined) return MakeInlineEngine(options);
  const bool by_ring = GetParam().path == IoPath::kUring ||
                       (GetParam().path == IoPath::kAuto && ProbeUring().available);
  if (!by_ring) return MakePoolEngine(options);
  std::unique_ptr<ReadEngine> engine;
  const Status status = MakeUringEngine(options, arena_->data(), arena_->bytes(), &engine);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return engine;
}

std::unique_ptr<InputFile> EngineTest::OpenCase(const std::string& path) {
  GetParam().cold ? MakeCold(path) : MakeWarm(path);
  OpenInputResult result = OpenInput(path, Options());
  EXPECT_TRUE(result.status.ok()) << result.status.ToString();
  return std::move(result.file);
}

std::unique_ptr<InputFile> EngineTest::NewFile(std::uint64_t bytes, const std::string& name) {
  const std::string path = directory_->File(name);
  WritePatternFile(path, bytes);
  return OpenCase(path);
}

std::map<std::uint64_t, Status> EngineTest::ReadAll(ReadEngine* engine, InputFile* file,
                                                    std::uint32_t block_bytes) {
  std::map<std::uint64_t, Status> failed;
  std::map<std::uint64_t, std::pair<ReadRequest, SlabRun>> under_way;
  std::array<ReadRequest*, 8> finished;
  std::uint64_t next = 0;
  std::uint64_t total = 0;
  while (next < file->size() || !under_way.empty()) {
    while (next < file->size()) {
      const SlabRun run = arena_->Allocate(block_bytes);
      const ReadRequest request{file, next, run.data, block_bytes};
      const auto added = under_way.emplace(next, std::pair(request, run)).first;
      if (!SubmitOne(engine, &added->second.first)) {
        arena_->Free(run);
        under_way.erase(added);
        break;
      }
      next += block_bytes;
    }
    EXPECT_EQ(engine->in_flight(), under_way.size());
    const std::size_t count = engine->Reap(finished, Soon());
    EXPECT_GT(count, 0u) << "nothing within a minute";
    if (count == 0) return failed;
    for (const ReadRequest* const read : std::span(finished).first(count)) {
      const std::uint64_t offset = read->offset;
      const auto found = under_way.find(offset);
      EXPECT_NE(found, under_way.end()) << "ended twice, or never asked for";
      if (found == under_way.end()) return failed;
      if (!read->status.ok()) failed[offset] = read->status;
      EXPECT_EQ(FirstDifference({read->buffer, read->got}, offset), read->got);
      total += read->got;
      arena_->Free(found->second.second);
      under_way.erase(found);
    }
  }
  EXPECT_EQ(engine->in_flight(), 0u);
  if (failed.empty()) {
    EXPECT_EQ(total, file->size());
  }
  return failed;
}

ReadRequest EngineTest::ReadOne(ReadEngine* engine, InputFile* file, std::uint64_t offset,
                                std::byte* buffer, std::uint32_t bytes) {
  ReadRequest request{file, offset, buffer, bytes};
  EXPECT_TRUE(SubmitOne(engine, &request));
  EXPECT_TRUE(ReapOne(engine, request));
  return request;
}

std::vector<EngineCase> AllEngineCases() {
  return {
      {"inline_warm", IoPath::kPread, false, true, true},
      {"inline_cold_direct", IoPath::kPread, true, true, true},
      {"pool_warm", IoPath::kPread, false, true, false},
      {"pool_cold_direct", IoPath::kPread, true, true, false},
      {"pool_cold_buffered", IoPath::kPread, true, false, false},
      {"uring_direct", IoPath::kUring, true, true, false},
      {"uring_buffered", IoPath::kUring, true, false, false},
      {"uring_warm", IoPath::kUring, false, true, false},
      {"auto_cold", IoPath::kAuto, true, true, false},
  };
}

}  // namespace ringfeed
