// A user's program that shows what it does, by a text of its own and by RINGFEED_METRICS.

#include <ringfeed/metrics.h>
#include <ringfeed/ringfeed.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main() {
  ringfeed::UseMetrics();
  (void)setenv("RINGFEED_METRICS", "./consumer.prom", 1);
  (void)ringfeed::MetricsNow();
  if (ringfeed::MetricsCollector() == nullptr) return 1;  // what a registry of prometheus-cpp takes
  std::FILE* const file = std::fopen("metrics.txt", "w");
  if (file == nullptr) return 1;
  std::fputs("one\ntwo\n", file);
  std::fclose(file);
  ringfeed::Reader lines = ringfeed::OpenFiles({"metrics.txt"});
  while (lines.HasNext()) (void)lines.ReadNext();
  const std::string text = ringfeed::MetricsNow();
  const bool is_there = text.find("chain=\"0:metrics.txt\"") != std::string::npos;
  std::printf("ringfeed::metrics is installed: %zu bytes\n", text.size());
  return is_there && text.ends_with("# EOF\n") ? 0 : 1;
}
