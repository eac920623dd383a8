#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace ringfeed {
namespace {

struct Outcome {
  int status = -1;
  std::string text;
};

Outcome RunPlanted(const std::string& mistake) {
  // The options of this process stop at the first report with a status of their own.
  const std::string command =
      "TSAN_OPTIONS=halt_on_error=1:exitcode=66 " RINGFEED_PLANTED_RACE " " + mistake + " 2>&1";
  Outcome outcome;
  FILE* output = popen(command.c_str(), "r");
  if (output == nullptr) return outcome;
  std::array<char, 4'096> piece{};
  while (const std::size_t count = fread(piece.data(), 1, piece.size(), output)) {
    outcome.text.append(piece.data(), count);
  }
  const int status = pclose(output);
  if (WIFEXITED(status)) outcome.status = WEXITSTATUS(status);
  return outcome;
}

class PlantedRace : public testing::TestWithParam<const char*> {};

TEST_P(PlantedRace, IsReported) {
#ifndef __SANITIZE_THREAD__
  GTEST_SKIP() << "only a build with ThreadSanitizer finds it";
#endif
  const Outcome outcome = RunPlanted(GetParam());
  EXPECT_EQ(outcome.status, 66) << outcome.text;
  EXPECT_NE(outcome.text.find("ThreadSanitizer: data race"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("planted_race.cc"), std::string::npos) << outcome.text;
}

INSTANTIATE_TEST_SUITE_P(Mistakes, PlantedRace,
                         testing::Values("did-not-look", "earlier-event", "enqueued-more",
                                         "recorded-again", "other-stream"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

class NoRace : public testing::TestWithParam<const char*> {};

TEST_P(NoRace, IsNotReported) {
  const Outcome outcome = RunPlanted(GetParam());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(outcome.text, "");
}

INSTANTIATE_TEST_SUITE_P(Right, NoRace, testing::Values("nothing", "synced-stream"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ringfeed
