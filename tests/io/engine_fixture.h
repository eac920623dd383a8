#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/memory/arena.h"
#include "io/input_file.h"
#include "io/read_engine.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {

/// One engine over files opened in one way.
struct EngineCase {
  std::string name;
  IoPath path = IoPath::kPread;
  bool cold = false;     ///< dropped from the page cache before it is opened
  bool direct = true;    ///< of the options
  bool inlined = false;  ///< the inline engine, else the one of the path
};

/// gtest prints a case by its name.
void PrintTo(const EngineCase& engine_case, std::ostream* out);

/// A test of one engine: an arena, a directory, files with the pattern.
class EngineTest : public testing::TestWithParam<EngineCase> {
 protected:
  static constexpr std::chrono::seconds kLong{60};

  void SetUp() override;
  void TearDown() override;

  IoOptions Options() const;
  std::unique_ptr<ReadEngine> NewEngine(const IoOptions& options);
  std::unique_ptr<ReadEngine> NewEngine() { return NewEngine(Options()); }
  /// Opens `path` in the way of the case; fails the test where that fails.
  std::unique_ptr<InputFile> OpenCase(const std::string& path);
  std::unique_ptr<InputFile> NewFile(std::uint64_t bytes, const std::string& name = "data");

  /// Reads all of `file` in blocks through `engine`, as much in flight as it takes, and checks
  /// every byte. The blocks that failed are returned, by offset.
  std::map<std::uint64_t, Status> ReadAll(ReadEngine* engine, InputFile* file,
                                          std::uint32_t block_bytes = 65536);
  /// Reads one range and waits for it.
  static ReadRequest ReadOne(ReadEngine* engine, InputFile* file, std::uint64_t offset,
                             std::byte* buffer, std::uint32_t bytes);

  static bool SubmitOne(ReadEngine* engine, ReadRequest* request) {
    return engine->Submit({&request, 1}) == 1;
  }
  /// Whether it returned that request in time.
  static bool ReapOne(ReadEngine* engine, const ReadRequest& request) {
    ReadRequest* finished = nullptr;
    return engine->Reap({&finished, 1}, Soon()) == 1 && finished == &request;
  }
  static std::chrono::steady_clock::time_point Soon() {
    return std::chrono::steady_clock::now() + kLong;
  }

  std::unique_ptr<TempDir> directory_;
  std::shared_ptr<Arena> arena_;
};

/// Every engine and every way in which a file can be open for it.
std::vector<EngineCase> AllEngineCases();

}  // namespace ringfeed
