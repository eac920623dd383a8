// Framing and checksums beside plain loops that do the same: see paired_rows.h for how to run it.
#include "bench/bare_loop.h"
#include "bench/bench_data.h"
#include "bench/paired_rows.h"
#include "bench/stage_loop.h"

namespace ringfeed::bench {
namespace {

PairedRow FrameRow(const std::string& name, const BenchFiles& files) {
  const auto format = FindFormat("tfrecord").format;
  return {name, "records/CPU s",
          [=](bool digest) {
            return RunStageLoop(files.paths, *format, nullptr, {1, digest});
          },
          [=](bool digest) {
            return BareFrameLoop(files.paths, {1, digest});
          }};
}

std::vector<PairedRow> Rows() {
  const bool smoke = SmokeRun();
  return {
      FrameRow("tfrecord_250B_framed_and_checked", SmallExamples(smoke ? 3000 : 1000000, 4)),
      FrameRow("tfrecord_110KB_framed_and_checked", ImageExamples(smoke ? 4 << 20 : 256 << 20, 4))};
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  return ringfeed::bench::PairedMain(argc, argv, ringfeed::bench::Rows);
}
