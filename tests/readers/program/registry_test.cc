#include "ringfeed/compat/registry.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "ringfeed/compat/scope.h"
#include "ringfeed/decorators.h"
#include "ringfeed/status.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// The message of the Error that `call` throws.
template <typename Call>
std::string Refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status().message();
  }
  return "no error";
}

class RegistryTest : public PipelineTest {
 protected:
  Reader Files(std::size_t records) {
    return CreateReader("open_files", {{"file_names", MakeFiles(1, records, 8, 40)}});
  }
};

TEST_F(RegistryTest, BuiltInReadersMakeTheSameChainAsTheFunctions) {
  const std::vector<std::string> files = MakeFiles(3, 50, 8, 200);
  Reader named =
      CreateReader("open_files",
                   {{"file_names", files}, {"cycle", 2}, {"stripe_bytes", 4096}, {"parse", "raw"}});
  named = CreateReader("create_multi_pass_reader", {{"pass_num", 2}}, {named});
  named = CreateReader("create_shuffle_reader", {{"buffer_size", 32}, {"seed", 9}}, {named});
  named = CreateReader("create_batch_reader", {{"batch_size", 8}, {"discard_leftover", false}},
                       {named});
  named = CreateReader("create_double_buffer_reader", {}, {named});

  OpenOptions options;
  options.cycle = 2;
  options.stripe_bytes = 4096;
  const Reader passes = MultiPass(Parse(OpenFiles(files, options), RawParser()), 2);
  const Reader built = DoubleBuffer(Batch(Shuffle(passes, {.block = 32, .seed = 9}), {.size = 8}));
  const Drained expected = Drain(built);
  EXPECT_EQ(expected.ids.size(), 300U);
  EXPECT_EQ(Drain(named), expected);
}

TEST_F(RegistryTest, TheLastShortBatchIsDroppedUnlessAskedFor) {
  Reader dropping = CreateReader("create_batch_reader", {{"batch_size", 10}}, {Files(25)});
  EXPECT_EQ(Drain(dropping).rows, (std::vector<std::size_t>{10, 10}));
  Reader keeping = CreateReader("create_batch_reader",
                                {{"batch_size", 10}, {"discard_leftover", false}}, {Files(25)});
  EXPECT_EQ(Drain(keeping).rows, (std::vector<std::size_t>{10, 10, 5}));
}

TEST_F(RegistryTest, TestModeIsFileAfterFile) {
  const std::vector<std::string> files = MakeFiles(4, 300, 2000, 2000);
  Reader reader = CreateReader("open_files",
                               {{"file_names", files}, {"is_test", true}, {"stripe_bytes", 4096}});
  EXPECT_EQ(Drain(reader).ids, Numbers(1200));
}

TEST_F(RegistryTest, RandomDataHasTheShapesThatPaddleDeclares) {
  const Attributes attributes = {{"low", -1},
                                 {"high", 1.5},
                                 {"shape_concat", std::vector<std::int64_t>{4, 2, 4, 1}},
                                 {"ranks", std::vector<std::int64_t>{2, 2}},
                                 {"count", 3}};
  Reader reader = CreateReader("create_random_data_generator", attributes);
  std::size_t instances = 0;
  for (; reader.HasNext(); ++instances) {
    const Instance instance = reader.ReadNext();
    ASSERT_EQ(instance.size(), 2U);
    EXPECT_EQ(instance[0].shape, (Shape{4, 2}));
    EXPECT_EQ(instance[1].shape, (Shape{4, 1}));
    for (const float value : instance[0].Values<float>()) {
      EXPECT_GE(value, -1);
      EXPECT_LT(value, 1.5);
    }
  }
  EXPECT_EQ(instances, 3U);
  Attributes short_ranks = attributes;
  short_ranks.Set("ranks", std::vector<std::int64_t>{2});
  EXPECT_EQ(Refusal([&] { CreateReader("create_random_data_generator", short_ranks); }),
            "ranks are of 2 dimensions, shape_concat has 4");
  short_ranks.Set("ranks", std::vector<std::int64_t>{2, 3});
  EXPECT_EQ(Refusal([&] { CreateReader("create_random_data_generator", short_ranks); }),
            "ranks has 3 where shape_concat has 2 dimensions left");
}

TEST_F(RegistryTest, StreamsAreJoinedByAMultiplexReader) {
  std::vector<Reader> streams;
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    const std::string fifo = directory_.File("fifo" + std::to_string(i));
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    streams.push_back(CreateReader(
        "open_files", {{"file_names", std::vector<std::string>{fifo}}, {"format", "tfrecord"}}));
    writers.emplace_back([fifo, file = MakeFiles(1, 20, 8, 40).front()] {
      std::ofstream(fifo, std::ios::binary) << std::ifstream(file, std::ios::binary).rdbuf();
    });
  }
  Reader joined = CreateReader("create_multiplex_reader", {{"parse", "raw"}}, streams);
  EXPECT_EQ(Sorted(Drain(joined).ids), Numbers(40));
  for (std::thread& writer : writers) writer.join();
}

TEST_F(RegistryTest, AttributesThatAreUnknownMissingOrOfAnotherTypeAreNamed) {
  EXPECT_EQ(Refusal([&] {
              CreateReader("create_batch_reader", {{"size", 3}}, {Files(1)});
            }),
            "create_batch_reader has no attribute size; it has: batch_size, discard_leftover");
  EXPECT_EQ(Refusal([&] { CreateReader("create_batch_reader", {}, {Files(1)}); }),
            "create_batch_reader needs the attribute batch_size; it has: batch_size, "
            "discard_leftover");
  EXPECT_EQ(Refusal([&] {
              CreateReader("create_batch_reader", {{"batch_size", "3"}}, {});
            }),
            "create_batch_reader: the attribute batch_size is of type integer, not text");
  EXPECT_EQ(Refusal([&] {
              CreateReader("create_batch_reader", {{"batch_size", 0}}, {Files(1)});
            }),
            "batch_size must be at least 1, not 0");
  EXPECT_EQ(Refusal([&] {
              CreateReader("create_batch_reader", {{"batch_size", 3}});
            }),
            "expected one reader as input, found 0");
  const std::string unknown = Refusal([] { CreateReader("create_bach_reader", {}); });
  EXPECT_EQ(unknown.find("no reader create_bach_reader is registered; did you mean "
                         "create_batch_reader?\nthere are: "),
            0U)
      << unknown;
  EXPECT_NE(unknown.find("create_batch_reader, "), std::string::npos) << unknown;
}

TEST_F(RegistryTest, AUsersReaderGetsItsAttributesInputsAndScope) {
  Scope scope;
  scope.Var<int>("seen") = 0;
  RegisterReader("registry_test_take",
                 {{"rows", AttributeType::kInteger},
                  {"rate", AttributeType::kNumber, 0.5},
                  {"labels", AttributeType::kTexts, std::vector<std::string>{"a"}}},
                 [](const Attributes& attributes, const std::vector<Reader>& inputs, Scope* given) {
                   EXPECT_EQ(attributes.Integer("rows"), 4);
                   EXPECT_EQ(attributes.Number("rate"), 2.0);
                   EXPECT_EQ(attributes.Texts("labels"), std::vector<std::string>{"a"});
                   EXPECT_THROW(attributes.Text("rows"), Error);
                   EXPECT_THROW(attributes.Text("none"), Error);
                   ++given->Get<int>("seen");
                   return Batch(OnlyInput(inputs), {.size = attributes.Size("rows")});
                 });
  Reader reader =
      CreateReader("registry_test_take", {{"rows", 4}, {"rate", 2}}, {Files(8)}, &scope);
  EXPECT_EQ(Drain(reader).rows, (std::vector<std::size_t>{4, 4}));
  EXPECT_EQ(scope.Get<int>("seen"), 1);
}

TEST_F(RegistryTest, WhatCannotBeRegisteredIsRefused) {
  const ReaderFactory factory = [](const Attributes&, const auto&, Scope*) { return Reader(); };
  EXPECT_EQ(Refusal([&] { RegisterReader("open_files", {}, factory); }),
            "a reader open_files is registered already");
  EXPECT_THROW(RegisterReader("two words", {}, factory), Error);
  EXPECT_THROW(RegisterReader("", {}, factory), Error);
  EXPECT_THROW(RegisterReader("registry_test_none", {}, nullptr), Error);
  EXPECT_THROW(RegisterReader("registry_test_input", {{"input", AttributeType::kText}}, factory),
               Error);
  EXPECT_THROW(RegisterReader("registry_test_default", {{"a", AttributeType::kText, 1}}, factory),
               Error);
  RegisterReader("registry_test_empty", {}, factory);
  EXPECT_EQ(Refusal([] { CreateReader("registry_test_empty", {}); }),
            "registry_test_empty: the factory made no reader");
}

TEST_F(RegistryTest, OfThreadsThatRegisterOneNameOneSucceeds) {
  std::atomic<int> succeeded = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      try {
        RegisterReader("registry_test_race", {},
                       [](const Attributes&, const auto&, Scope*) { return Reader(); });
        ++succeeded;
      } catch (const Error&) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(succeeded, 1);
  const auto kinds = RegisteredReaders();
  EXPECT_EQ(std::count_if(kinds.begin(), kinds.end(),
                          [](const ReaderKind& kind) { return kind.name == "registry_test_race"; }),
            1);
}

}  // namespace
}  // namespace ringfeed
