#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/parsers.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// A parser that fits no record is a mistake of the program's, also where damage is skipped.
class UnfitParserTest : public PipelineTest {
 protected:
  OpenOptions Skipping(int threads = 2) const {
    OpenOptions options = Options();
    options.arena = large_;
    options.on_damage = OnDamage::kSkip;
    options.threads = threads;
    options.format = "lines";
    return options;
  }

  /// Lines of JSON: {"label": i, "text": "i"}, where `good` says so, else without a label.
  std::string MakeLines(std::size_t count, const std::function<bool(std::size_t)>& good) {
    const std::string path = directory_.File("lines-" + std::to_string(made_++));
    std::ofstream file(path);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      file << (good(i) ? "{\"label\": " + number + ", " : "{") << "\"text\": \"" << number
           << "\"}\n";
    }
    return path;
  }

  /// One phase, since the fields are fixed; two, since one is ragged.
  static std::vector<std::shared_ptr<const Parser>> Parsers(const std::string& label) {
    return {JsonLinesParser({{label, kInt64, {}}}),
            JsonLinesParser({{label, kInt64, {}}, {"text", kUInt8, {-1}}})};
  }

  struct Read {
    std::uint64_t rows = 0;
    Status status;
    std::uint64_t damaged = 0;
  };
  static Read ReadAll(Reader reader) {
    Read read;
    Instance instance;
    ReadResult result = ReadResult::kRecord;
    while ((result = reader.TryReadNext(&instance)) == ReadResult::kRecord) {
      read.rows += static_cast<std::uint64_t>(instance[0].shape[0]);
      instance.clear();
    }
    if (result == ReadResult::kFailed) read.status = reader.status();
    read.damaged = reader.Stats().damaged_records;
    return read;
  }

 private:
  /// An order by number reads more at a time.
  const std::shared_ptr<PinnedArena> large_ = std::make_shared<PinnedArena>(std::size_t{512} << 20);
  std::size_t made_ = 0;
};

bool Never(std::size_t) { return false; }

TEST_F(UnfitParserTest, AMisspeltKeyFailsWithTheNearestOneAlsoUnderSkip) {
  const std::string path = MakeLines(5000, [](std::size_t) { return true; });
  for (const auto& parser : Parsers("labl")) {
    for (const int threads : {1, 4}) {
      for (const std::size_t batch : {1U, 7U, 64U, 1000U, 9000U}) {
        for (const ShuffleMode mode :
             {ShuffleMode::kNone, ShuffleMode::kWindow, ShuffleMode::kGlobal}) {
          const Reader records =
              Shuffle(OpenFiles({path}, Skipping(threads)),
                      {.window = mode == ShuffleMode::kWindow ? 100U : 0U, .mode = mode});
          const Read read = ReadAll(Batch(Parse(records, parser), {.size = batch}));
          EXPECT_EQ(read.rows, 0u);
          EXPECT_EQ(read.status.code(), StatusCode::kInvalidArgument) << read.status.ToString();
          const std::string message = read.status.message();
          EXPECT_NE(message.find("the first 100 records"), std::string::npos) << message;
          EXPECT_NE(message.find("key \"labl\" is missing; the nearest name there is: \"label\""),
                    std::string::npos)
              << message;
          EXPECT_EQ(read.status.place().file, path);
        }
      }
    }
  }
}

TEST_F(UnfitParserTest, TheFailureIsTheSameWhateverTheThreads) {
  const std::string path = MakeLines(3000, Never);
  for (const auto& parser : Parsers("label")) {
    std::string expected;
    for (const int threads : {1, 2, 4, 1, 4}) {
      for (const std::size_t batch : {3U, 300U}) {
        const Reader records = OpenFiles({path}, Skipping(threads));
        const Read read = ReadAll(Batch(Parse(records, parser), {.size = batch}));
        if (expected.empty()) expected = read.status.ToString();
        EXPECT_EQ(read.status.ToString(), expected);
        EXPECT_EQ(read.status.place().record, 0);
      }
    }
  }
}

TEST_F(UnfitParserTest, UnderFailItFailsAlike) {
  for (const std::size_t count : {1U, 30U, 5000U}) {
    const std::string path = MakeLines(count, [](std::size_t) { return true; });
    for (const auto& parser : Parsers("labl")) {
      for (const std::size_t batch : {1U, 64U, 9000U}) {
        for (const ShuffleMode mode :
             {ShuffleMode::kNone, ShuffleMode::kWindow, ShuffleMode::kGlobal}) {
          const auto read = [&](OnDamage on_damage, bool mapped) {
            OpenOptions options = Skipping();
            options.on_damage = on_damage;
            Reader records =
                Shuffle(OpenFiles({path}, options),
                        {.window = mode == ShuffleMode::kWindow ? 100U : 0U, .mode = mode});
            records = Parse(records, parser);
            if (mapped) {
              records = Map(records, {{"x", DType::kUInt8, {1}}},
                            [](const MapInput&, RowWriter&) { FAIL() << "no record fits"; });
            }
            return ReadAll(Batch(records, {.size = batch}));
          };
          const Read skipping = read(OnDamage::kSkip, false);
          for (const bool mapped : {false, true}) {
            const Read failing = read(OnDamage::kFail, mapped);
            EXPECT_EQ(failing.rows, 0u);
            EXPECT_EQ(failing.damaged, 0u);
            EXPECT_EQ(failing.status.ToString(), skipping.status.ToString());
            EXPECT_EQ(failing.status.code(), StatusCode::kInvalidArgument);
          }
        }
      }
    }
  }
}

TEST_F(UnfitParserTest, UnderFailARecordThatFitsMakesTheFirstDamage) {
  struct Case {
    std::size_t count;
    std::size_t good;
    bool is_mistake;
  };
  for (const auto& [count, good, is_mistake] :
       {Case{400, 1, false}, Case{400, 99, false}, Case{400, 100, true}, Case{50, 49, false}}) {
    const std::size_t only = good;
    const std::string path = MakeLines(count, [only](std::size_t i) { return i == only; });
    for (const auto& parser : Parsers("label")) {
      OpenOptions options = Skipping();
      options.on_damage = OnDamage::kFail;
      Reader reader = Batch(Parse(OpenFiles({path}, options), parser), {.size = 30});
      const Read read = ReadAll(reader);
      EXPECT_EQ(read.rows, 0u);
      EXPECT_EQ(read.status.code(),
                is_mistake ? StatusCode::kInvalidArgument : StatusCode::kDamaged)
          << read.status.ToString();
      EXPECT_EQ(read.status.place().record, 0);
    }
  }
  // What is delivered before it shows that the parser fits.
  const std::string path = MakeLines(300, [](std::size_t i) { return i < 10; });
  OpenOptions options = Skipping();
  options.on_damage = OnDamage::kFail;
  for (const auto& parser : Parsers("label")) {
    const Read read = ReadAll(Batch(Parse(OpenFiles({path}, options), parser), {.size = 4}));
    EXPECT_EQ(read.rows, 10u);
    EXPECT_EQ(read.status.code(), StatusCode::kDamaged);
  }
}

TEST_F(UnfitParserTest, AllOfASmallerSetAreEnough) {
  for (const std::size_t count : {1U, 2U, 99U}) {
    const std::string path = MakeLines(count, Never);
    for (const auto& parser : Parsers("label")) {
      for (const std::uint64_t passes : {1U, 0U}) {
        const Reader records = MultiPass(OpenFiles({path}, Skipping()), passes);
        const Read read = ReadAll(Batch(Parse(records, parser), {.size = 10}));
        EXPECT_EQ(read.rows, 0u);
        EXPECT_EQ(read.status.code(), StatusCode::kInvalidArgument) << read.status.ToString();
        EXPECT_NE(read.status.message().find("for the same reason"), std::string::npos)
            << read.status.ToString();
      }
    }
  }
}

TEST_F(UnfitParserTest, OneRecordThatFitsMakesTheOthersDamage) {
  struct Case {
    std::size_t count;
    std::size_t good;
    bool fails;
  };
  for (const auto& [count, good, fails] :
       {Case{400, 0, false}, Case{400, 99, false}, Case{400, 100, true}, Case{50, 49, false}}) {
    const std::size_t only = good;
    const std::string path = MakeLines(count, [only](std::size_t i) { return i == only; });
    for (const auto& parser : Parsers("label")) {
      for (const std::size_t batch : {1U, 30U, 64U, 1000U}) {
        for (const bool pad : {false, true}) {
          const Reader records = OpenFiles({path}, Skipping(4));
          BatchOptions options{.size = batch};
          options.pad = pad;
          const Read read = ReadAll(Batch(Parse(records, parser), options));
          EXPECT_EQ(read.status.ok(), !fails) << read.status.ToString();
          if (fails) continue;
          EXPECT_EQ(read.rows, pad ? read.rows : 1u);
          EXPECT_EQ(read.damaged, count - 1);
        }
      }
    }
  }
}

TEST_F(UnfitParserTest, ReasonsThatDifferAreDamage) {
  const std::string path = directory_.File("reasons");
  {
    std::ofstream file(path);
    for (std::size_t i = 0; i < 300; ++i) {
      file << (i % 2 == 0 ? "{\"text\": \"\"}\n" : "no object\n");
    }
  }
  for (const auto& parser : Parsers("label")) {
    const Read read = ReadAll(Batch(Parse(OpenFiles({path}, Skipping()), parser), {.size = 16}));
    EXPECT_TRUE(read.status.ok()) << read.status.ToString();
    EXPECT_EQ(read.rows, 0u);
    EXPECT_EQ(read.damaged, 300u);
  }
}

TEST_F(UnfitParserTest, WhatIsLeftBehindAPositionIsNoSmallerSet) {
  const std::string path = MakeLines(100, [](std::size_t i) { return i != 99; });
  for (const auto& parser : Parsers("label")) {
    Reader reader = Batch(Parse(OpenFiles({path}, Skipping()), parser), {.size = 9});
    reader.SeekTo(11);
    const Read read = ReadAll(reader);
    EXPECT_TRUE(read.status.ok()) << read.status.ToString();
    EXPECT_EQ(read.rows, 0u);
  }
}

/// A NumPy file of 20 rows of 3 elements, all of them zero.
void WriteNpy(const std::string& path, const std::string& type, std::size_t item_bytes) {
  std::string dict = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (20, 3), }";
  dict.resize(117, ' ');
  dict += '\n';
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(dict.size()) << '\0' << dict
       << std::string(60 * item_bytes, '\0');
}

TEST_F(UnfitParserTest, ATypeThatTheFileDoesNotHaveIsRefusedWithBoth) {
  struct Case {
    const char* type;
    std::size_t item_bytes;
    DType dtype;
    bool fits;
  };
  const std::string path = directory_.File("array.npy");
  for (const auto& [type, item_bytes, dtype, fits] :
       {Case{"<f4", 4, kInt32, false}, Case{"<f4", 4, kFloat32, true},
        Case{">f8", 8, kFloat64, false}, Case{"<u2", 2, kInt16, false},
        Case{"|u1", 1, kUInt8, true}, Case{"|b1", 1, kBool, true}, Case{">i1", 1, kInt8, true}}) {
    WriteNpy(path, type, item_bytes);
    for (const auto& parser :
         {RowsParser({{"x", dtype, {3}}}), TokensParser({.dtype = dtype, .shape = {3}})}) {
      for (const OnDamage on_damage : {OnDamage::kFail, OnDamage::kSkip}) {
        for (const ShuffleMode mode : {ShuffleMode::kNone, ShuffleMode::kGlobal}) {
          OpenOptions options = Skipping();
          options.format.clear();
          options.on_damage = on_damage;
          Read read;
          try {
            const Reader records = Shuffle(OpenFiles({path}, options), {.mode = mode});
            read = ReadAll(Batch(Parse(records, parser), {.size = 8}));
          } catch (const Error& error) {
            read.status = error.status();
          }
          EXPECT_EQ(read.rows, fits ? 20u : 0u) << type;
          EXPECT_EQ(read.status.code(), fits ? StatusCode::kOk : StatusCode::kInvalidArgument);
          if (fits) continue;
          const std::string message = read.status.message();
          EXPECT_NE(message.find(type), std::string::npos) << message;
          EXPECT_NE(message.find(DTypeName(dtype)), std::string::npos) << message;
          EXPECT_EQ(read.status.place().file, path);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ringfeed
