#include <gtest/gtest.h>

#include <initializer_list>
#include <random>
#include <string>
#include <utility>

#include "ringfeed/compat/program.h"
#include "ringfeed/decorators.h"
#include "ringfeed/status.h"
#include "tests/readers/program/line_fit.h"

namespace ringfeed {
namespace {

class ProgramErrorsTest : public LineFitTest {
 protected:
  /// What a program "p" is refused with, wherever that is: loading, startup or main.
  std::string Refusal(const std::string& text) {
    try {
      FeedProgram program = FeedProgram::FromText(text, "p");
      program.RunStartup(&scope_);
      program.RunMain(&scope_);
    } catch (const Error& error) {
      return error.status().message();
    }
    return "no error";
  }
  void ExpectStart(const std::string& text, const std::string& start) {
    const std::string refusal = Refusal(text);
    EXPECT_EQ(refusal.substr(0, start.size()), start) << refusal;
  }

  static constexpr char kFiles[] =
      "startup { op { open_files { name: 'files' file_names: 'line.recordio' } } }\n";
  Scope scope_;
};

TEST_F(ProgramErrorsTest, UnknownNamesOfTheLanguageAreNamedWithThoseThatThereAre) {
  ExpectStart("main {\n  op { raed { } } }",
              "p:2:8: Message type \"ringfeed.program.Operation\" has no field named \"raed\". It "
              "has: read, has_next, reset, while, if_else");
  ExpectStart("main {\n  op { read { reader: 'a' out: 'b' } } }",
              "p:2:27: Message type \"ringfeed.program.Read\" has no field named \"out\". It has: "
              "reader, output");
  ExpectStart("startup {\n  op { create_bach_reader { } } }",
              "p:2:8: Message type \"ringfeed.program.Creation\" has no field named "
              "\"create_bach_reader\". It has: create_batch_reader, ");
  ExpectStart("startup {\n  op { create_batch_reader { name: 'b'\n size: 3 } } }",
              "p:3:2: Message type \"ringfeed.program.Reader.create_batch_reader\" has no field "
              "named \"size\". It has: name, input, batch_size, discard_leftover");
  ExpectStart("startup {} strtup {}", "p:1:12: Message type \"ringfeed.program.Program\" has no");
}

TEST_F(ProgramErrorsTest, ValuesOfAnotherTypeAreRefusedAtTheirPlace) {
  ExpectStart("startup {\n op { create_batch_reader { name: 'b' batch_size: 'ten' } } }",
              "p:2:51: batch_size: Expected integer, got: 'ten'");
  ExpectStart("startup {\n op { create_batch_reader { name: 7 } } }",
              "p:2:35: name: Expected string");
  ExpectStart("main {\n op { read { reader: 'a' }\n has_next { } } }",
              "p:3:2: Field \"has_next\" is specified along with field \"read\", another member");
  ExpectStart("main {\n op { read { reader: 'a' reader: 'b' } } }",
              "p:2:26: Non-repeated field \"reader\" is specified multiple times");
  ExpectStart("startup {\n\top { create_batch_reader {\n discard_leftover\n: 'no' } } }",
              "p:4:3: discard_leftover: Expected identifier, got: 'no'");
  ExpectStart("startup {\n op { open_files { file_names: ['a', 7] } } }",
              "p:2:38: file_names: Expected string, got: 7");
  ExpectStart("main {\n op { } }", "p:2:2: op: is empty, expected one of: read, ");
}

TEST_F(ProgramErrorsTest, AttributesThatCannotWorkNameTheirOperation) {
  ExpectStart("startup {\n op { open_files { file_names: 'line.recordio' } } }",
              "p:2:7: open_files: name is missing or empty");
  ExpectStart("startup {\n op { open_files { name: 'files' } } }",
              "p:2:7: open_files: open_files needs the attribute file_names; it has: file_names");
  ExpectStart(
      std::string(kFiles) +
          "startup { op { create_batch_reader { name: 'b' input: 'files' batch_size: 0 } } }",
      "p:2:");
  ExpectStart(
      "startup { op { open_files { name: 'files' file_names: 'line.recordio' } }\n"
      "op { create_batch_reader { name: 'b' input: 'files' batch_size: 0 } } }",
      "p:2:6: create_batch_reader: batch_size must be at least 1, not 0");
  ExpectStart("startup {\n op { create_batch_reader { name: 'b' input: 'none' batch_size: 1 } } }",
              "p:2:7: create_batch_reader: input: there is no reader \"none\"");
  ExpectStart("startup {\n op { open_files { name: 'a' file_names: 'x' parse: 'nonsense' } } }",
              "p:2:7: open_files: parse: ");
  ExpectStart(
      "startup { op { open_files { name: 'a' file_names: 'line.recordio' } }\n"
      " op { open_files { name: 'a' file_names: 'line.recordio' } } }",
      "p:2:7: open_files: the name \"a\" is taken already, by p:1:16: open_files");
}

TEST_F(ProgramErrorsTest, AChainThatCannotWorkIsRefusedWhereItIsCreated) {
  const std::string batches =
      "startup { op { open_files { name: 'a' file_names: 'line.recordio' } }\n"
      " op { create_batch_reader { name: 'b' input: 'a' batch_size: 2 } }\n";
  ExpectStart(batches + " op { create_shuffle_reader { name: 's' input: 'b' buffer_size: 5 } } }",
              "p:3:7: create_shuffle_reader: Shuffle behind Batch");
  ExpectStart(batches + " op { create_batch_reader { name: 'b2' input: 'b' batch_size: 5 } } }",
              "p:3:7: create_batch_reader: Batch of batches");
  ExpectStart("startup {\n op { open_files { name: 'e' file_names: '/dev/stdin' pass_num: 2 } } }",
              "p:2:7: open_files: a stream comes once: MultiPass needs");
}

TEST_F(ProgramErrorsTest, AChainOfCppThatCannotWorkIsNamedWhereItIsRead) {
  const Reader batches = Batch(OpenFiles({"line.recordio"}), {.size = 2});
  scope_.Var<ReaderHolder>("b").Reset(Batch(batches, {.size = 2}));
  ExpectStart("main {\n op { read { reader: 'b' output: 'x' } } }",
              "p:2:7: read: Batch of batches");
}

TEST_F(ProgramErrorsTest, ASecondConsumerOfAReaderIsToldWhatItCanDo) {
  ExpectStart(
      "startup { op { open_files { name: 'a' file_names: 'line.recordio' } }\n"
      " op { create_batch_reader { name: 'b' input: 'a' batch_size: 2 } }\n"
      " op { create_batch_reader { name: 'c' input: 'a' batch_size: 5 } } }",
      "p:3:7: create_batch_reader: the input has a consumer already, and a reader has one: create "
      "another reader of the same data");
}

TEST_F(ProgramErrorsTest, AReaderThatCppSharesIsTheInputOfSeveral) {
  scope_.Var<ReaderHolder>("a").Reset(Share(OpenFiles({"line.recordio"})));
  FeedProgram::FromText(
      "startup { op { create_batch_reader { name: 'b' input: 'a' batch_size: 2 } }\n"
      " op { create_batch_reader { name: 'c' input: 'a' batch_size: 5 } } }",
      "p")
      .RunStartup(&scope_);
  EXPECT_TRUE(scope_.Get<ReaderHolder>("b").HasNext());
}

TEST_F(ProgramErrorsTest, OptionsThatWouldDoNothingAreRefused) {
  for (const auto& [options, refusal] : std::initializer_list<std::pair<std::string, std::string>>{
           {"shape_concat: 2 ranks: 1",
            "\"line.recordio\" is of no registered format: OpenOptions::slots (in a program "
            "shape_concat, ranks, dtypes and lod_levels)"},
           {"shape_concat: 2", "ranks are of 0 dimensions, shape_concat has 1"},
           {"dtypes: 'float32'", "dtypes has 1 entries for 0 slots"},
           {"lod_levels: 1", "lod_levels has 1 entries for 0 slots"},
           {"reopen_limit: 3",
            "reopen_limit is for streams (FIFOs, sockets): \"line.recordio\" is none"}}) {
    ExpectStart(
        "startup {\n op { open_files { name: 'a' file_names: 'line.recordio' " + options + " } } }",
        "p:2:7: open_files: " + refusal);
  }
  ExpectStart("startup {\n op { open_file { name: 'a' filename: 'none' reopen_limit: 1 } } }",
              "p:2:7: open_file: reopen_limit is for streams (FIFOs, sockets): \"none\" is none");
  for (const std::string name : {"-", "/dev/stdin"}) {
    ExpectStart(
        "startup {\n op { open_file { name: 'a' filename: '" + name + "' reopen_limit: 1 } } }",
        "p:2:7: open_file: reopen_limit: \"" + name + "\" comes just once");
  }
  ExpectStart("startup {\n op { open_files { name: 'a' file_names: '-' ranks: 0 } } }",
              "p:2:7: open_files: OpenOptions::slots (in a program shape_concat, ranks");
}

TEST_F(ProgramErrorsTest, NumbersThatDoNotFitAreRefusedAsTheyWereWritten) {
  for (const std::string threads : {"1025", "40000", "3000000000", "5000000000"}) {
    ExpectStart("startup {\n op { open_files { name: 'a' file_names: 'line.recordio' thread_num: " +
                    threads + " } } }",
                "p:2:7: open_files: thread_num must be at most 1024, not " + threads);
  }
  ExpectStart(
      "startup {\n op { open_files { name: 'a' file_names: 'line.recordio' "
      "stripe_bytes: 4611686018427387904 } } }",
      "p:2:7: open_files: stripe_bytes must be a multiple of 4096 up to 1 TiB");
  const std::string random =
      "startup {\n op { create_random_data_generator { name: 'r' low: 0 high: 1 ";
  for (const std::string levels : {"-1", "17", "4294967296"}) {
    ExpectStart(random + "shape_concat: 2 ranks: 1 lod_levels: " + levels + " } } }",
                "p:2:7: create_random_data_generator: lod_levels are from 0 to 16, not " + levels);
  }
  ExpectStart(random + "shape_concat: [4611686018427387904, 4] ranks: 2 } } }",
              "p:2:7: create_random_data_generator: random data: slot \"slot0\" of "
              "[4611686018427387904, 4] has more than 2^40 bytes");
}

TEST_F(ProgramErrorsTest, MainIsCheckedBeforeItRuns) {
  ExpectStart("main {\n op { while { condition: 'more' body { } } } }",
              "p:2:7: while: condition: the variable \"more\" is not set by any step before");
  ExpectStart("main {\n op { read { reader: 'none' output: 'x' } } }",
              "p:2:7: read: reader: there is no reader \"none\"");
  ExpectStart("main {\n op { call { function: 'none' } } }",
              "p:2:7: call: no function \"none\" is registered");
  ExpectStart("main {\n op { less_than { x: 'n' output: 'b' } } }",
              "p:2:7: less_than: expected one of y and value");
  ExpectStart("main {\n op { less_than { x: 'n' y: '' output: 'b' } } }",
              "p:2:7: less_than: y is missing or empty");
  ExpectStart(
      "main {\n op { while { condition: 'n' body {\n op { read { output: 'x' } } } } }\n"
      " op { reset { } } }",
      "p:3:7: read: reader is missing or empty");
  ExpectStart("main {\n op { fill_constant { output: 'n' } }\n op { increase { x: 'm' } } }",
              "p:3:7: increase: x: the variable \"m\" is not set");
  EXPECT_FALSE(scope_.Has("n"));
}

TEST_F(ProgramErrorsTest, AWrongNumberOfOutputsIsAnErrorBeforeAnythingIsRead) {
  ExpectStart(
      std::string(kFiles) + "main { op { read { reader: 'files' output: 'x' output: 'y' } } }",
      "p:2:13: read: output names 2 tensors, \"files\" delivers 1");
  std::size_t records = 0;
  for (auto& files = scope_.Get<ReaderHolder>("files"); files.HasNext(); ++records) {
    files.ReadNext();
  }
  EXPECT_EQ(records, kRecords);
}

TEST_F(ProgramErrorsTest, VariablesOfAnotherTypeAreNamedWithBothTypes) {
  ExpectStart("main { op { fill_constant { output: 'n' } }\n op { while { condition: 'n' } } }",
              "p:2:7: while: the variable \"n\" is a long, not a bool");
  ExpectStart(std::string(kFiles) + "main { op { fill_constant { output: 'files' } } }",
              "p:2:13: fill_constant: the variable \"files\" is a ringfeed::ReaderHolder, not a "
              "long");
}

TEST_F(ProgramErrorsTest, AFileThatIsNotThereIsNamed) {
  try {
    FeedProgram::Load("none.program");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), StatusCode::kNotFound);
    EXPECT_NE(error.status().message().find("none.program"), std::string::npos);
  }
  EXPECT_THROW(FeedProgram::Load("."), Error);
}

TEST_F(ProgramErrorsTest, NestingIsLimited) {
  std::string text = "main {";
  for (int i = 0; i < 100000; ++i) text += "op{while{condition:'a' body{";
  ExpectStart(text, "p:1:");
}

/// Cuts, exchanges and doubles bytes of a good program.
std::string Damaged(std::string text, std::mt19937* random) {
  const auto place = [&] { return (*random)() % (text.size() + 1); };
  for (std::size_t times = 1 + (*random)() % 4; times > 0; --times) {
    const std::size_t at = place();
    switch ((*random)() % 4) {
      case 0:
        text.resize(at);
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>((*random)());
        break;
      case 2:
        text.erase(at, (*random)() % 20);
        break;
      default:
        text.insert(at, text.substr(place(), (*random)() % 60));
    }
  }
  return text;
}

TEST_F(ProgramErrorsTest, DamagedProgramsAreRefusedOrLoadedNeverWorse) {
  std::mt19937 random(5);
  std::size_t refused = 0;
  constexpr int kTimes = 3000;
  for (const char* name : {"passes_counted.program", "multi_pass.program"}) {
    const std::string good = ProgramText(name);
    for (int i = 0; i < kTimes; ++i) {
      Scope scope;
      try {
        FeedProgram program = FeedProgram::FromText(Damaged(good, &random), "p");
        program.RunStartup(&scope);
      } catch (const Error& error) {
        EXPECT_EQ(error.status().message().substr(0, 2), "p:");
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, kTimes);
}

}  // namespace
}  // namespace ringfeed
