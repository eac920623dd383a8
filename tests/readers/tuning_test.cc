#include "ringfeed/tuning.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <string>

#include "ringfeed/decorators.h"
#include "ringfeed/open_options.h"
#include "ringfeed/status.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {
namespace {

Tuning SomeTuning() {
  Tuning tuning;
  tuning.machine = ThisMachine();
  tuning.format = "lines";
  tuning.threads = 3;
  tuning.io.path = IoPath::kPread;
  tuning.io.block_bytes = 131072;
  tuning.io.in_flight_bytes = 1 << 20;
  tuning.io.direct = false;
  tuning.slots = 6;
  tuning.device_slots = 4;
  tuning.transfer = "members";
  tuning.devices = "cuda: NVIDIA H200";
  tuning.device_count = 2;
  tuning.cache = "cold";
  return tuning;
}

class TuningTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  // The message of the Error that reading `text` throws; "" without one.
  std::string Refused(const std::string& text) const {
    try {
      (void)ReadTuning(Write("refused", text));
    } catch (const Error& error) {
      EXPECT_EQ(error.status().code(), StatusCode::kInvalidArgument);
      return error.status().message();
    }
    return {};
  }

  const TempDir folder_;
};

TEST_F(TuningTest, IsReadAsItWasWritten) {
  const Tuning tuning = SomeTuning();
  const Tuning read = ReadTuning(Write("tuned", TuningText(tuning)));
  EXPECT_EQ(read.machine, tuning.machine);
  EXPECT_EQ(read.format, "lines");
  EXPECT_EQ(read.threads, 3);
  EXPECT_EQ(read.io.path, IoPath::kPread);
  EXPECT_EQ(read.io.block_bytes, 131072U);
  EXPECT_EQ(read.io.in_flight_bytes, 1U << 20);
  EXPECT_FALSE(read.io.direct);
  EXPECT_EQ(read.slots, 6U);
  EXPECT_EQ(read.device_slots, 4U);
  EXPECT_EQ(read.transfer, "members");
  EXPECT_EQ(read.devices, "cuda: NVIDIA H200");
  EXPECT_EQ(read.device_count, 2U);
  EXPECT_EQ(read.cache, "cold");
}

TEST_F(TuningTest, ANumberIsTakenAsItIsWrittenOrRefused) {
  const std::string text = TuningText(SomeTuning());
  for (const std::string key : {"ringfeed_tuning", "threads", "block_bytes", "in_flight_bytes",
                                "slots", "device_slots", "device_count"}) {
    const std::size_t begin = text.find("\"" + key + "\": ") + key.size() + 4;
    const std::size_t end = text.find_first_not_of("0123456789", begin);
    const std::string deep = std::string(20'000, '[') + std::string(20'000, ']');
    for (const char* const other :
         {"-1", "1.0", "1e1", "18446744073709551616", "true", "\"1\"", deep.c_str()}) {
      EXPECT_NE(Refused(text.substr(0, begin) + other + text.substr(end)), "") << key << other;
    }
  }
  EXPECT_NE(Refused("{\"threads\": 1," + text.substr(1)).find("twice"), std::string::npos);
}

TEST_F(TuningTest, OfAnotherMachineIsRefusedWithBothNames) {
  Tuning tuning = SomeTuning();
  tuning.machine = "Z80, 1 CPU";
  const std::string why = Refused(TuningText(tuning));
  EXPECT_NE(why.find("Z80, 1 CPU"), std::string::npos) << why;
  EXPECT_NE(why.find(ThisMachine()), std::string::npos) << why;
  EXPECT_NE(why.find("ringfeed tune"), std::string::npos) << why;
}

TEST_F(TuningTest, WhatIsNoneIsRefused) {
  EXPECT_THROW(ReadTuning(folder_.path() + "/not_there"), Error);
  EXPECT_THROW(ReadTuning(folder_.path()), Error);
  const std::string good = TuningText(SomeTuning());
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"machine\": \"x\"}"),
        good.substr(0, good.size() / 2), good + std::string(1 << 17, ' ')}) {
    EXPECT_NE(Refused(text), "") << text.substr(0, 60);
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
  };
  EXPECT_NE(Refused(with("\"threads\": 3", "\"threads\": -1")), "");
  EXPECT_NE(Refused(with("\"threads\": 3", "\"threads\": 99999")), "");
  EXPECT_NE(Refused(with("\"threads\": 3", "\"threads\": 1.5")), "");
  EXPECT_NE(Refused(with("131072", "\"many\"")), "");
  EXPECT_NE(Refused(with("\"pread\"", "\"telepathy\"")), "");
  EXPECT_NE(Refused(with("\"members\"", "\"telepathy\"")), "");
  EXPECT_EQ(Refused(with(",\n  \"transfer\": \"members\"", "")), "") << "of an older version";
  EXPECT_NE(Refused(with("\"cold\"", "\"lukewarm\"")), "");
  EXPECT_NE(Refused(with("\"device_count\": 2", "\"device_count\": -2")), "");
  EXPECT_NE(Refused(with("\"cuda: NVIDIA H200\"", "7")), "");
  EXPECT_EQ(Refused(with("\"device_count\": 2,", "")), "") << "of an older version";
  EXPECT_NE(Refused(with("\"ringfeed_tuning\": 1", "\"ringfeed_tuning\": 2")), "");
}

TEST_F(TuningTest, OpensFilesOfItsFormatAlone) {
  const std::string tuned = Write("tuned", TuningText(SomeTuning()));
  OpenOptions options = OpenOptions::Tuned(tuned);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.io.block_bytes, 131072U);
  EXPECT_EQ(options.io.retries, IoOptions().retries);
  const std::string lines = Write("a.txt", "one\ntwo\n");
  options.format = "lines";
  RecordBlock block;
  Reader reader = OpenFiles({lines}, options);
  EXPECT_EQ(reader.TryReadBlock(&block), ReadResult::kRecord);
  options.format = "rows:4";
  EXPECT_THROW(OpenFiles({lines}, options), Error);
  options.tuned_format = "rows:4";
  EXPECT_NO_THROW(OpenFiles({lines}, options));
}

TEST_F(TuningTest, OfAFormatThatIsNotToldFailsWhereTheFileIsRead) {
  OpenOptions options = OpenOptions::Tuned(Write("tuned", TuningText(SomeTuning())));
  Reader reader = OpenFiles({folder_.path() + "/not_there"}, options);
  RecordBlock block;
  EXPECT_EQ(reader.TryReadBlock(&block), ReadResult::kFailed);
  EXPECT_EQ(reader.status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace ringfeed
