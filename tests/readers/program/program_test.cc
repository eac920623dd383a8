#include "ringfeed/compat/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/compat/paddle_readers.h"
#include "ringfeed/compat/py_reader.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/tensor.h"
#include "tests/readers/program/line_fit.h"
#include "tests/support/record_data.h"

namespace ringfeed {
namespace {

/// A startup of batches of the line, and `main` behind it.
std::string WithBatches(const std::string& main) {
  return "startup {\n"
         "  op { open_files { name: 'records' file_names: 'line.recordio' "
         "parse: 'lod: x=f4[,2] y=f4[,1]' } }\n"
         "  op { create_batch_reader { name: 'batches' input: 'records' batch_size: 10 } }\n"
         "}\n" +
         main;
}

class ProgramTest : public LineFitTest {
 protected:
  /// Runs both parts of a program in scope_.
  void Run(const std::string& text) {
    FeedProgram program = FeedProgram::FromText(text, "test.program");
    program.RunStartup(&scope_);
    program.RunMain(&scope_);
  }

  /// Has a program of tests/data/programs train a line.
  void Train(const std::string& name, LineFit* fit) {
    FeedProgram program = FeedProgram::Load(RINGFEED_TEST_DATA "/programs/" + name);
    program.RegisterFunction("train", fit->AsFunction());
    program.RunStartup(&scope_);
    program.RunMain(&scope_);
  }

  Scope scope_;
};

TEST_F(ProgramTest, ALineIsFittedByPassesThatMainCounts) {
  LineFit fit;
  Train("passes_counted.program", &fit);
  ExpectFitted(fit);
  EXPECT_EQ(scope_.Get<std::int64_t>("pass_count"), 5);
  EXPECT_FALSE(scope_.Get<bool>("more_passes"));
  EXPECT_EQ(scope_.Get<double>("loss"), fit.losses().back());
}

TEST_F(ProgramTest, ALineIsFittedThroughAMultiPassReader) {
  LineFit fit;
  Train("multi_pass.program", &fit);
  ExpectFitted(fit);
}

TEST_F(ProgramTest, TheSameGraphFromCppGivesTheSameTraining) {
  LineFit by_program;
  FeedProgram program = FeedProgram::FromText(ProgramText("multi_pass.program"), "a");
  program.RegisterFunction("train", by_program.AsFunction());
  program.RunStartup(&scope_);
  program.RunMain(&scope_);

  LineFit by_hand;
  const Reader records =
      Parse(OpenFiles({"line.recordio"}),
            LoDTensorParser({{"x", kFloat32, {-1, 2}}, {"y", kFloat32, {-1, 1}}}));
  Reader batches = Batch(MultiPass(records, 5), {.size = 10, .drop_remainder = true});
  while (batches.HasNext()) {
    const Instance batch = batches.ReadNext();
    by_hand.Train(batch[0], batch[1]);
  }
  EXPECT_EQ(by_program.losses(), by_hand.losses());
}

TEST_F(ProgramTest, StartupMakesEachReaderOnce) {
  FeedProgram program = FeedProgram::FromText(ProgramText("passes_counted.program"), "a");
  program.RunStartup(&scope_);
  auto& holder = scope_.Get<ReaderHolder>("buffered");
  const void* const id = holder.Get().id();
  holder.ReadNext();
  program.RunStartup(&scope_);
  EXPECT_EQ(&scope_.Get<ReaderHolder>("buffered"), &holder);
  EXPECT_EQ(holder.Get().id(), id);
  std::size_t rest = 0;
  for (; holder.HasNext(); ++rest) holder.ReadNext();
  EXPECT_EQ(rest, kRecords / kBatch - 1);
  for (const char* name : {"records", "shuffled", "batches"}) {
    EXPECT_FALSE(scope_.Get<ReaderHolder>(name).empty()) << name;
  }
}

TEST_F(ProgramTest, ReadersOfTheScopeServeAsInputsAndInMain) {
  scope_.Var<ReaderHolder>("mine").Reset(OpenFiles({"line.recordio"}));
  Run("startup { op { create_batch_reader { name: 'batches' input: 'mine' batch_size: 7 } } }"
      "main { op { read { reader: 'batches' output: 'bytes' } } }");
  EXPECT_EQ(scope_.Get<Tensor>("bytes").lod.at(0).size(), 8U);
}

TEST_F(ProgramTest, CloseReaderLeavesReadersThatTheScopeHadBefore) {
  scope_.Var<ReaderHolder>("mine").Reset(Share(OpenFiles({"line.recordio"})));
  FeedProgram program = FeedProgram::FromText(
      "startup { op { create_shuffle_reader { name: 'a' input: 'mine' buffer_size: 3 } }\n"
      "  op { create_batch_reader { name: 'batches' input: 'a' batch_size: 4 } }\n"
      "  op { create_batch_reader { name: 'b' input: 'mine' batch_size: 4 } } }\n"
      "main { op { read { reader: 'batches' output: 'x' } }\n"
      "  op { close_reader { reader: 'batches' } } }",
      "shared.program");
  program.RunStartup(&scope_);
  program.RunMain(&scope_);
  EXPECT_FALSE(scope_.Get<ReaderHolder>("mine").empty());
  EXPECT_TRUE(scope_.Get<ReaderHolder>("a").empty());
  program.RunStartup(&scope_);  // the others again
  EXPECT_FALSE(scope_.Get<ReaderHolder>("batches").empty());
}

TEST_F(ProgramTest, ReadPutsEachSlotIntoItsOutput) {
  Run(WithBatches("main { op { read { reader: 'batches' output: 'x' output: 'y' } } }"));
  EXPECT_EQ(scope_.Get<Tensor>("x").shape, (Shape{10, 2}));
  EXPECT_EQ(scope_.Get<Tensor>("y").shape, (Shape{10, 1}));
  const float x0 = scope_.Get<Tensor>("x").Values<float>()[0];
  const float x1 = scope_.Get<Tensor>("x").Values<float>()[1];
  EXPECT_EQ(scope_.Get<Tensor>("y").Values<float>()[0], 2 * x0 - 3 * x1 + 1);
}

TEST_F(ProgramTest, ReadAtTheEndIsEndOfDataWithItsPlace) {
  try {
    Run(
        WithBatches("main { op { fill_constant { output: 'n' } }\n"
                    "op { less_than { x: 'n' value: 1 output: 'always' } }\n"
                    "op { while { condition: 'always' body {\n"
                    "  op { read { reader: 'batches' output: 'x' output: 'y' } }\n"
                    "  op { increase { x: 'n' by: -2 } } } } } }"));
    FAIL();
  } catch (const EndOfData& end) {
    EXPECT_EQ(std::string(end.what()),
              "test.program:8:8: read: there is no next record: the data are at their end");
  }
  EXPECT_EQ(scope_.Get<std::int64_t>("n"), -40);
}

TEST_F(ProgramTest, TheDocumentationHasEveryReaderAndItsFirstProgramLoads) {
  const std::string page = ReadBytes(RINGFEED_TEST_DATA "/../../docs/PROGRAMS.md");
  for (const ReaderKind& kind : RegisteredReaders()) {
    if (kind.name.find("_test_") != std::string::npos) continue;  // another test's
    EXPECT_NE(page.find("`" + kind.name + "`"), std::string::npos) << kind.name;
    for (const AttributeSpec& attribute : kind.attributes) {
      EXPECT_NE(page.find("`" + attribute.name + "`"), std::string::npos) << attribute.name;
    }
  }
  const std::size_t start = page.find("```\n") + 4;
  FeedProgram::FromText(page.substr(start, page.find("```", start) - start), "PROGRAMS.md");
}

TEST_F(ProgramTest, WhatProducersPushIsReadByName) {
  auto& holder = scope_.Var<LoDTensorBlockingQueueHolder>("feed_queue");
  holder.InitOnce(4, {{"x", kInt64, {-1, 1}, 0}});
  const QueueProducer producer(holder.GetQueue(), [](LoDTensorBlockingQueue& queue, auto) {
    for (std::int64_t i = 0; i < 25; ++i) {
      if (!queue.Push({MakeTensor({1, 1}, std::vector{i})})) return;
    }
  });
  std::int64_t sum = 0;
  FeedProgram program = FeedProgram::FromText(
      "startup {\n"
      "  op { create_py_reader { name: 'pushed' blocking_queue: 'feed_queue' } }\n"
      "  op { create_batch_reader { name: 'b' input: 'pushed' batch_size: 10 "
      "discard_leftover: false } }\n"
      "}\n"
      "main { op { has_next { reader: 'b' output: 'more' } }\n"
      "  op { while { condition: 'more' body {\n"
      "    op { read { reader: 'b' output: 'x' } }\n"
      "    op { call { function: 'sum' input: 'x' } }\n"
      "    op { has_next { reader: 'b' output: 'more' } } } } } }",
      "pushed.program");
  program.RegisterFunction("sum", [&](Scope* scope, const auto&, const auto&) {
    for (const std::int64_t value : scope->Get<Tensor>("x").Values<std::int64_t>()) sum += value;
  });
  program.RunStartup(&scope_);
  program.RunMain(&scope_);
  EXPECT_EQ(sum, 300);
}

// A step that waits for data that do not come is ended by what the user's function throws.
TEST_F(ProgramTest, AWaitIsEndedByWhatThrowsMeanwhileAndTheRunCanBeDoneAgain) {
  for (const std::string step :
       {"read { reader: 'pushed' output: 'x' }", "has_next { reader: 'pushed' output: 'x' }",
        "read_recordio { reader: 'pushed' count: 2 output: 'x' }"}) {
    Scope scope;
    auto& holder = scope.Var<LoDTensorBlockingQueueHolder>("feed_queue");
    holder.InitOnce(4, {{"x", kInt64, {-1, 1}, 0}});
    FeedProgram program = FeedProgram::FromText(
        "startup { op { create_py_reader { name: 'pushed' blocking_queue: 'feed_queue' } } }\n"
        "main { op { " +
            step + " } }",
        "waiting.program");
    program.RunStartup(&scope);
    int calls = 0;
    const auto third = [&] {
      if (++calls == 3) throw std::runtime_error("interrupted");
    };
    EXPECT_THROW(program.RunMain(&scope, third), std::runtime_error) << step;
    EXPECT_EQ(calls, 3);
    EXPECT_FALSE(scope.Has("x"));
    ASSERT_TRUE(holder.GetQueue()->Push({MakeTensor({1, 1}, std::vector<std::int64_t>{7})}));
    holder.GetQueue()->Close();
    program.RunMain(&scope, [] {});
    EXPECT_TRUE(scope.Has("x"));
  }
}

TEST_F(ProgramTest, StepsThatWaitForNothingAreEndedToo) {
  FeedProgram program = FeedProgram::FromText(
      "main { op { fill_constant { output: 'i' } } op { less_than { x: 'i' value: 1 output: 'b' } "
      "}\n"
      "op { while { condition: 'b' body { op { fill_constant { output: 'i' } } } } } }",
      "endless.program");
  const auto end = [] { throw std::runtime_error("interrupted"); };
  EXPECT_THROW(program.RunMain(&scope_, end), std::runtime_error);
}

TEST_F(ProgramTest, RecordsOfAnOpenFileAreReadSoManyAtATimeAndTheReaderIsClosed) {
  std::vector<std::size_t> counts;
  FeedProgram program = FeedProgram::FromText(
      "startup {\n"
      "  op { open_file { name: 'file' filename: 'line.recordio' } }\n"
      "  op { create_recordio_reader { name: 'records' input: 'file' } }\n"
      "}\n"
      "main {\n"
      "  op { has_next { reader: 'records' output: 'more' } }\n"
      "  op { while { condition: 'more' body {\n"
      "    op { read_recordio { reader: 'records' count: 30 output: 'some' } }\n"
      "    op { call { function: 'take' input: 'some' } }\n"
      "    op { has_next { reader: 'records' output: 'more' } } } } }\n"
      "  op { close_reader { reader: 'records' } }\n"
      "}",
      "records.program");
  program.RegisterFunction("take", [&](Scope* scope, const auto& inputs, const auto&) {
    counts.push_back(scope->Get<std::vector<Instance>>(inputs[0]).size());
  });
  for (int run = 0; run < 2; ++run) {
    counts.clear();
    program.RunStartup(&scope_);
    program.RunMain(&scope_);
    ASSERT_GE(counts.size(), 2U);
    for (std::size_t i = 0; i + 1 < counts.size(); ++i) EXPECT_EQ(counts[i], 30U);
    EXPECT_TRUE(scope_.Get<ReaderHolder>("records").empty());
  }
}

TEST_F(ProgramTest, RecordsBeforeAFailureAreThereWhenTheStepFails) {
  const std::string good = ReadBytes("line.recordio");
  const std::string cut = good + good.substr(0, good.size() - 1);
  WriteBytes("cut.recordio", std::as_bytes(std::span(cut)));
  FeedProgram program = FeedProgram::FromText(
      "startup {\n"
      "  op { open_file { name: 'file' filename: 'cut.recordio' } }\n"
      "  op { create_recordio_reader { name: 'records' input: 'file' } }\n"
      "}\n"
      "main { op { read_recordio { reader: 'records' count: 1000000 output: 'some' } } }",
      "cut.program");
  program.RunStartup(&scope_);
  EXPECT_THROW(program.RunMain(&scope_), Error);
  const std::size_t before = scope_.Get<std::vector<Instance>>("some").size();
  EXPECT_GT(before, 0u);
  EXPECT_EQ(ReadRecordIo(OpenFiles({"line.recordio"}), 1000000).size(), before);
  Reader direct = OpenFiles({"cut.recordio"});
  EXPECT_EQ(ReadRecordIo(direct, 1000000).size(), before);
  EXPECT_THROW(ReadRecordIo(direct, 1000000), Error);
}

// Whatever stands between the stream and the reader that is closed: its writer is told at once.
TEST_F(ProgramTest, CloseReaderClosesTheStreamUnderneath) {
  for (const bool batched : {false, true}) {
    const std::string fifo = batched ? "a.fifo" : "b.fifo";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    const std::string reader = batched ? "batches" : "records";
    std::string text = "startup { op { open_file { name: 'file' filename: '" + fifo + "' } }\n";
    text += "op { create_recordio_reader { name: 'records' input: 'file' } }\n";
    if (batched) {
      text += "op { create_batch_reader { name: 'batches' input: 'records' batch_size: 2 } }\n";
    }
    text += "}\nmain { op { read { reader: '" + reader + "' output: 'x' } }\n";
    text += "op { close_reader { reader: '" + reader + "' } } }";
    FeedProgram program = FeedProgram::FromText(text, "close.program");
    Scope scope;
    program.RunStartup(&scope);
    const int writer = open(fifo.c_str(), O_WRONLY);
    ASSERT_GE(writer, 0);
    const std::string bytes = ReadBytes("line.recordio");
    ASSERT_EQ(write(writer, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    program.RunMain(&scope);
    pollfd closed{writer, 0, 0};
    EXPECT_EQ(poll(&closed, 1, 10'000), 1) << "nobody has it open to read: POLLERR";
    close(writer);
    program.RunStartup(&scope);  // all of it again
  }
}

TEST_F(ProgramTest, CountersAndBranches) {
  scope_.Var<std::int64_t>("limit") = 3;
  Run("main {\n"
      "  op { fill_constant { output: 'i' value: -1 } }\n"
      "  op { fill_constant { output: 'sum' } }\n"
      "  op { less_than { x: 'i' y: 'limit' output: 'more' } }\n"
      "  op { while { condition: 'more' body {\n"
      "    op { increase { x: 'i' } }\n"
      "    op { less_than { x: 'i' y: 'limit' output: 'more' } }\n"
      "    op { if_else { condition: 'more' then { op { increase { x: 'sum' by: 10 } } }\n"
      "                   else { op { increase { x: 'sum' by: 1 } } } } } } } }\n"
      "}");
  EXPECT_EQ(scope_.Get<std::int64_t>("i"), 3);
  EXPECT_EQ(scope_.Get<std::int64_t>("sum"), 31);
}

TEST_F(ProgramTest, AUsersReaderIsAnOperationLikeTheOthers) {
  RegisterReader("program_test_halves",
                 {{"parts", AttributeType::kInteger, 2},
                  {"weights", AttributeType::kIntegers, std::vector<std::int64_t>{}}},
                 [](const Attributes& attributes, const std::vector<Reader>& inputs, Scope*) {
                   EXPECT_EQ(attributes.Integers("weights"), (std::vector<std::int64_t>{3, 4}));
                   return Batch(OnlyInput(inputs), {.size = 100 / attributes.Size("parts", 1)});
                 });
  Run("startup { op { open_files { name: 'records' file_names: 'line.recordio' } }\n"
      "  op { program_test_halves { name: 'halves' input: 'records' weights: [3, 4] } } }\n"
      "main { op { read { reader: 'halves' output: 'bytes' } } }");
  EXPECT_EQ(scope_.Get<Tensor>("bytes").lod.at(0).size(), 51U);
  EXPECT_NE(FeedProgram::Grammar().find("message program_test_halves {"), std::string::npos);
  EXPECT_EQ(FeedProgram::Grammar().find("json_name"), std::string::npos) << "no word of ours";
}

TEST_F(ProgramTest, AUsersFunctionGetsTheNamesAndItsExceptionsPass) {
  FeedProgram program = FeedProgram::FromText(
      "main { op { call { function: 'f' input: 'a' output: 'b' output: 'c' } } }", "p");
  scope_.Var<int>("a") = 1;
  struct Mine {};
  program.RegisterFunction("f", [this](Scope* scope, const std::vector<std::string>& inputs,
                                       const std::vector<std::string>& outputs) {
    EXPECT_EQ(scope, &scope_);
    EXPECT_EQ(inputs, std::vector<std::string>{"a"});
    EXPECT_EQ(outputs, (std::vector<std::string>{"b", "c"}));
    throw Mine();
  });
  EXPECT_THROW(program.RunMain(&scope_), Mine);
  EXPECT_THROW(program.RegisterFunction("f", [](Scope*, const auto&, const auto&) {}), Error);
  EXPECT_THROW(program.RegisterFunction("g", nullptr), Error);
}

}  // namespace
}  // namespace ringfeed
