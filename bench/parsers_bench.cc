// Records to fields of a batch beside the bare loops and beside Protobuf: see paired_rows.h for how
// to run it. Reading, framing and checksums are on both sides.
#include "bench/bare_loop.h"
#include "bench/bench_data.h"
#include "bench/paired_rows.h"
#include "bench/protobuf_columns.h"
#include "bench/stage_loop.h"

namespace ringfeed::bench {
namespace {

using Baseline = LoopResult (*)(const std::vector<std::string>&, const LoopOptions&);

PairedRow ParseRow(const std::string& name, const BenchFiles& files, const std::string& format,
                   const std::string& parser, std::size_t batch_rows, Baseline baseline) {
  const FormatResult found = FindFormat(format);
  const ParserResult made = ParserFromText(parser);
  if (!made.status.ok()) throw Error(made.status);
  return {
      name, "records/CPU s",
      [=](bool digest) {
        return RunStageLoop(files.paths, *found.format, made.parser.get(), {batch_rows, digest});
      },
      [=](bool digest) {
        return baseline(files.paths, {batch_rows, digest});
      }};
}

std::string FortyFeatures() {
  std::string text = "example: label=i8";
  for (int i = 1; i <= 13; ++i) text += " i" + std::to_string(i) + "=f4";
  for (int i = 1; i <= 26; ++i) text += " c" + std::to_string(i) + "=i8";
  return text;
}

std::vector<PairedRow> Rows() {
  const bool smoke = SmokeRun();
  const BenchFiles images = ImageExamples(smoke ? 4 << 20 : 256 << 20, 4);
  const BenchFiles small = SmallExamples(smoke ? 3000 : 1000000, 4);
  const BenchFiles forty = FortyFeatureExamples(smoke ? 3000 : 300000, 4);
  const BenchFiles sixteen = OfRecords(smoke ? 4000 : 4000000, 4);
  const std::string of_features = "ofrecord: x=f4[16] label=i4";
  const BenchFiles rows = Rows160(smoke ? 3000 : 2000000, 4);
  return {ParseRow("example_110KB_and_label", images, "tfrecord", "example: image=u1[] label=i8[1]",
                   64, BareImageLoop),
          ParseRow("example_three_features", small, "tfrecord",
                   "example: dense=f4[13] sparse=i8[26] label=i8[1]", 8192, BareSmallExampleLoop),
          ParseRow("example_forty_features_vs_protobuf", forty, "tfrecord", FortyFeatures(), 8192,
                   RunProtobufFortyFeatures),
          ParseRow("example_forty_features_vs_bare", forty, "tfrecord", FortyFeatures(), 8192,
                   BareFortyFeatureLoop),
          ParseRow("ofrecord_16_floats_vs_protobuf", sixteen, "ofrecord", of_features, 8192,
                   RunProtobufOfRecords),
          ParseRow("ofrecord_16_floats_vs_bare", sixteen, "ofrecord", of_features, 8192,
                   BareOfRecordLoop),
          ParseRow("rows_160B_in_order", rows, "rows:160", "rows: f4[13] i4[26] i4", 16384,
                   BareRowLoop)};
}

}  // namespace
}  // namespace ringfeed::bench

int main(int argc, char** argv) {
  return ringfeed::bench::PairedMain(argc, argv, ringfeed::bench::Rows);
}
