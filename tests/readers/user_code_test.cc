// What the functions and sources of a user's throw or return is a failure at its place: what is
// good comes first, nothing ends the process, and only Error comes out of the reader's calls.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringfeed/dataset.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"
#include "ringfeed/source.h"

namespace ringfeed {
namespace {

struct WithoutWords : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

/// The ways in which user code fails.
const std::array<std::function<void()>, 4> kThrows = {
    [] { throw 5; }, [] { throw "text"; }, [] { throw WithoutWords(); },
    [] { throw std::runtime_error("no route to the store"); }};

struct Read {
  std::vector<std::string> rows;
  ReadResult end = ReadResult::kRecord;
  Status status;
};

/// Reads to the end; an Error from a call counts as the status that it carries. Anything else that
/// is thrown fails the test.
Read ReadAll(const std::function<Reader()>& open) {
  Read read;
  try {
    Reader reader = open();
    Instance row;
    while ((read.end = reader.TryReadNext(&row)) == ReadResult::kRecord) {
      const std::span<const std::byte> bytes{row[0].data, row[0].bytes};
      read.rows.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    read.status = reader.status();
  } catch (const Error& error) {
    read.end = ReadResult::kFailed;
    read.status = error.status();
  }
  return read;
}

std::string Lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i) + "\n";
  return text;
}

/// Lines, but for what a test has it do instead.
struct LineSource : Source {
  std::string text = Lines(20000);
  std::function<void()> in_name = [] {};
  std::function<void()> in_size = [] {};
  std::function<void(std::uint64_t)> in_read = [](std::uint64_t) {};
  std::size_t claims = 0;

  std::string name() const override {
    in_name();
    return "lines.txt";
  }
  std::uint64_t Size() const override {
    in_size();
    return text.size();
  }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> to, std::size_t* got) override {
    in_read(offset);
    *got = std::min<std::size_t>(to.size(), text.size() - std::min(text.size(), offset));
    std::memcpy(to.data(), text.data() + offset, *got);
    *got += claims;
    return {};
  }
};

Reader Open(const std::shared_ptr<LineSource>& source, ShuffleMode mode) {
  OpenOptions options;
  options.io.block_bytes = 4096;
  options.stripe_bytes = 4096;
  options.threads = 2;
  Reader records = OpenSources({source}, options);
  if (mode != ShuffleMode::kNone) records = Shuffle(records, {.seed = 3, .mode = mode});
  return Parse(records, RawParser());
}

TEST(UserCodeTest, WhatASourceThrowsIsAUserErrorInEveryOrder) {
  for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
    for (const auto& fails : kThrows) {
      auto names = std::make_shared<LineSource>();
      names->in_name = fails;
      EXPECT_EQ(ReadAll([&] { return Open(names, mode); }).status.code(), StatusCode::kUserError);
      auto sizes = std::make_shared<LineSource>();
      sizes->in_size = fails;
      EXPECT_EQ(ReadAll([&] { return Open(sizes, mode); }).status.code(), StatusCode::kUserError);
      auto reads = std::make_shared<LineSource>();
      reads->in_read = [&](std::uint64_t offset) {
        if (offset > 100'000) fails();
      };
      const Read read = ReadAll([&] { return Open(reads, mode); });
      EXPECT_EQ(read.status.code(), StatusCode::kUserError) << read.status.ToString();
      if (mode != ShuffleMode::kNone) continue;  // its index is made first
      EXPECT_GT(read.rows.size(), 1000U);
      for (std::size_t i = 0; i < read.rows.size(); ++i) {
        ASSERT_EQ(read.rows[i], "line " + std::to_string(i));
      }
    }
  }
}

TEST(UserCodeTest, ASourceThatClaimsMoreThanItWasAskedForFailsInEveryOrder) {
  for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
    for (const std::size_t claims : {std::size_t{1}, std::size_t{100'000}, ~std::size_t{0} / 2}) {
      auto source = std::make_shared<LineSource>();
      source->claims = claims;
      const Read read = ReadAll([&] { return Open(source, mode); });
      EXPECT_EQ(read.status.code(), StatusCode::kUserError) << read.status.ToString();
      EXPECT_NE(read.status.message().find("ReadAt says that it gave"), std::string::npos);
    }
  }
}

struct LineStream : StreamSource {
  std::function<void()> in_read = [] {};
  std::function<void()> in_close = [] {};
  std::size_t claims = 0;
  int calls = 0;

  std::string name() const override { return "lines.txt"; }
  Status Read(std::span<std::byte> to, std::size_t* got, std::stop_token) override {
    if (++calls == 1) {
      std::memcpy(to.data(), "a\nb\n", 4);
      *got = 4;
      return {};
    }
    in_read();
    *got = claims;
    return {};
  }
  void Close() override { in_close(); }
};

Reader OpenStreamOf(std::unique_ptr<LineStream> stream) {
  OpenOptions options;
  options.format = "lines";
  return Parse(OpenStreamSource(std::move(stream), options), RawParser());
}

TEST(UserCodeTest, WhatAStreamThrowsComesAfterTheRowsBeforeIt) {
  for (const auto& fails : kThrows) {
    auto stream = std::make_unique<LineStream>();
    stream->in_read = fails;
    const Read read = ReadAll([&] { return OpenStreamOf(std::move(stream)); });
    EXPECT_EQ(read.status.code(), StatusCode::kUserError) << read.status.ToString();
    EXPECT_EQ(read.rows, (std::vector<std::string>{"a", "b"}));
  }
}

TEST(UserCodeTest, AStreamThatClaimsMoreThanItWasAskedForFails) {
  auto stream = std::make_unique<LineStream>();
  stream->claims = std::size_t{1} << 40;
  const Read read = ReadAll([&] { return OpenStreamOf(std::move(stream)); });
  EXPECT_EQ(read.status.code(), StatusCode::kUserError) << read.status.ToString();
  EXPECT_EQ(read.rows, (std::vector<std::string>{"a", "b"}));
}

TEST(UserCodeTest, WhatCloseOfAStreamThrowsEndsNothing) {
  std::atomic<int> closed = 0;
  std::vector<Reader> streams;
  for (int i = 0; i < 2; ++i) {
    auto stream = std::make_unique<LineStream>();
    stream->in_close = [&] {
      ++closed;
      throw std::runtime_error("no route to the store");
    };
    OpenOptions options;
    options.format = "lines";
    streams.push_back(OpenStreamSource(std::move(stream), options));
  }
  const Read read = ReadAll([&] { return Parse(Multiplex(streams), RawParser()); });
  EXPECT_EQ(read.end, ReadResult::kEnd) << read.status.ToString();
  EXPECT_EQ(read.rows.size(), 4U);
  streams.clear();
  EXPECT_EQ(closed.load(), 2);
}

/// Twenty numbers, but for the tenth, which is what a test makes of it.
struct Numbers : InstanceSource {
  std::function<ReadResult(Instance*)> at_ten = [](Instance*) { return ReadResult::kRecord; };
  std::function<void()> in_ready = [] {};
  std::function<void()> in_reinit = [] {};
  int n = 0;

  ReadResult ReadNext(Instance* instance, std::stop_token, Status*) override {
    if (n == 20) return ReadResult::kEnd;
    std::vector<std::byte> bytes(sizeof n);
    std::memcpy(bytes.data(), &n, sizeof n);
    Tensor tensor = MakeTensor(std::move(bytes));
    tensor.dtype = kInt32;
    tensor.shape = {1};
    instance->push_back(std::move(tensor));
    return n++ == 10 ? at_ten(instance) : ReadResult::kRecord;
  }
  bool Ready() const override {
    if (n == 11) in_ready();
    return true;
  }
  bool ReInit() override {
    in_reinit();
    n = 0;
    return true;
  }
};

Reader OpenNumbers(std::unique_ptr<Numbers> numbers, std::uint64_t passes = 1) {
  return MultiPass(FromInstanceSource(std::move(numbers), {{"x", kInt32, {1}}}), passes);
}

TEST(UserCodeTest, WhatAReaderThrowsOrReturnsComesAfterTheRowsBeforeIt) {
  std::vector<std::function<ReadResult(Instance*)>> wrong;
  for (const auto& fails : kThrows) {
    wrong.emplace_back([&fails](Instance*) {
      fails();
      return ReadResult::kRecord;
    });
  }
  wrong.emplace_back([](Instance*) { return static_cast<ReadResult>(77); });
  wrong.emplace_back([](Instance*) { return ReadResult::kTimeout; });
  wrong.emplace_back([](Instance*) { return ReadResult::kFailed; });
  const auto makes = [&](std::function<void(Tensor*)> change) {
    wrong.emplace_back([change = std::move(change)](Instance* instance) {
      change(&(*instance)[0]);
      return ReadResult::kRecord;
    });
  };
  makes([](Tensor* tensor) { tensor->data = nullptr; });
  makes([](Tensor* tensor) { tensor->shape = {-1}; });
  makes([](Tensor* tensor) { tensor->shape = {std::int64_t{1} << 62, 4}; });
  makes([](Tensor* tensor) { tensor->bytes = 3; });
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    auto numbers = std::make_unique<Numbers>();
    numbers->at_ten = wrong[i];
    const Read read = ReadAll([&] { return OpenNumbers(std::move(numbers)); });
    EXPECT_EQ(read.end, ReadResult::kFailed) << i;
    EXPECT_EQ(read.rows.size(), 10U) << i << ": " << read.status.ToString();
  }
}

TEST(UserCodeTest, WhatReadyOfAReaderThrowsComesAfterTheRowsBeforeIt) {
  for (const auto& fails : kThrows) {
    auto numbers = std::make_unique<Numbers>();
    numbers->in_ready = fails;
    const Read read = ReadAll([&] { return OpenNumbers(std::move(numbers)); });
    EXPECT_EQ(read.status.code(), StatusCode::kUserError) << read.status.ToString();
    EXPECT_EQ(read.rows.size(), 11U);
  }
}

TEST(UserCodeTest, WhatReInitOfAReaderThrowsComesAfterThePass) {
  for (const auto& fails : kThrows) {
    auto numbers = std::make_unique<Numbers>();
    numbers->in_reinit = fails;
    const Read read = ReadAll([&] { return OpenNumbers(std::move(numbers), 2); });
    EXPECT_EQ(read.status.code(), StatusCode::kUserError) << read.status.ToString();
    EXPECT_EQ(read.rows.size(), 20U);
  }
}

/// Ten samples.
struct Samples : Dataset {
  std::function<void()> in_next = [] {};
  std::function<void()> in_ready = [] {};
  std::function<void()> in_pass = [] {};
  std::function<void()> in_name = [] {};
  std::function<void()> in_reinit = [] {};
  int n = 0;

  bool Next(std::string* sample) override {
    if (n == 5) in_next();
    *sample = std::to_string(n);
    return n++ < 10;
  }
  bool Ready() const override {
    if (n == 5) in_ready();
    return true;
  }
  std::uint64_t Pass() const override {
    in_pass();
    return 0;
  }
  bool ReInit() override {
    in_reinit();
    n = 0;
    return true;
  }
  std::string name() const override {
    in_name();
    return "samples";
  }
};

TEST(UserCodeTest, WhatADataSetThrowsIsAUserErrorAfterTheSamplesBeforeIt) {
  using Member = std::function<void()> Samples::*;
  const std::vector<std::pair<Member, std::size_t>> members = {{&Samples::in_next, 5},
                                                               {&Samples::in_ready, 5},
                                                               {&Samples::in_pass, 0},
                                                               {&Samples::in_name, 0},
                                                               {&Samples::in_reinit, 10}};
  for (const auto& [member, rows] : members) {
    for (const auto& fails : kThrows) {
      auto samples = std::make_unique<Samples>();
      (*samples).*member = fails;
      const Read read = ReadAll(
          [&] { return MultiPass(Parse(FromDataset(std::move(samples)), RawParser()), 2); });
      EXPECT_EQ(read.status.code(), StatusCode::kUserError) << read.status.ToString();
      EXPECT_EQ(read.rows.size(), rows) << read.status.ToString();
    }
  }
}

TEST(UserCodeTest, WhatAFunctionThrowsIsAUserErrorAfterTheRowsBeforeIt) {
  for (const auto& fails : kThrows) {
    const auto is_bad = [&](const RecordSpan& record) {
      const std::string_view text(reinterpret_cast<const char*>(record.data), record.size);
      if (text == "line 50") fails();
      return false;
    };
    const Read filtered = ReadAll([&] {
      Reader lines = OpenSources({std::make_shared<LineSource>()});
      return Parse(Filter(lines, [&](const RecordSpan& record) { return !is_bad(record); }),
                   RawParser());
    });
    EXPECT_EQ(filtered.status.code(), StatusCode::kUserError) << filtered.status.ToString();
    EXPECT_EQ(filtered.rows.size(), 50U);
    const Read mapped = ReadAll([&] {
      Reader lines = OpenSources({std::make_shared<LineSource>()});
      return Map(lines, {{"x", kUInt8, {-1}}}, [&](const MapInput& input, RowWriter& row) {
        (void)is_bad(input.record);
        row.Ragged(0, input.record.bytes());
      });
    });
    EXPECT_EQ(mapped.status.code(), StatusCode::kUserError) << mapped.status.ToString();
    EXPECT_EQ(mapped.rows.size(), 50U);
  }
}

}  // namespace
}  // namespace ringfeed
