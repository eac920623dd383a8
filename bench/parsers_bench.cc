// Records to fields of a batch beside the bare loops and beside Protobuf: see paired_rows.h for how
// to run it. Reading, framing and checksums are on both sides.
#include <google/protobuf/arena.h>

#include <cstring>
#include <memory>

#include "bench/bare_loop.h"
#include "bench/bare_stores.h"
#include "bench/bench_data.h"
#include "bench/paired_rows.h"
#include "bench/stage_loop.h"
#include "example.pb.h"
#include "ofrecord.pb.h"
#include "readers/formats/format.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kFloats = 13;
constexpr std::size_t kInts = 26;
constexpr std::size_t kArenaBytes = 256 * 1024;

std::vector<std::size_t> FortyRowBytes() {
  std::vector<std::size_t> bytes{8};
  bytes.insert(bytes.end(), kFloats, 4);
  bytes.insert(bytes.end(), kInts, 8);
  return bytes;
}

// The columns of examples.
class FortyColumns {
 public:
  explicit FortyColumns(const LoopOptions& options) : batches_(FortyRowBytes(), options) {
    names_.push_back("label");
    for (std::size_t i = 1; i <= kFloats; ++i) names_.push_back("i" + std::to_string(i));
    for (std::size_t i = 1; i <= kInts; ++i) names_.push_back("c" + std::to_string(i));
  }

  void Add(const testdata::ExampleMessage& message) {
    const auto& features = message.features().feature();
    for (std::size_t c = 0; c < names_.size(); ++c) {
      const auto found = features.find(names_[c]);
      if (found == features.end()) throw Error(Status(StatusCode::kDamaged, names_[c]));
      if (c >= 1 && c <= kFloats) {
        const float value = found->second.float_list().value(0);
        std::memcpy(batches_.at(c), &value, sizeof(value));
      } else {
        const std::int64_t value = found->second.int64_list().value(0);
        std::memcpy(batches_.at(c), &value, sizeof(value));
      }
    }
    batches_.NextRow();
  }
  void Finish() { batches_.Finish(); }
  std::uint64_t digest() const { return batches_.digest(); }

 private:
  FixedBatches batches_;
  std::vector<std::string> names_;
};

// The columns of OFRecords.
class SixteenColumns {
 public:
  explicit SixteenColumns(const LoopOptions& options)
      : batches_({kFloatBytes, sizeof(std::int32_t)}, options) {}

  void Add(const ofrecord_testdata::RecordMessage& message) {
    const auto& features = message.feature();
    const auto x = features.find("x");
    const auto label = features.find("label");
    if (x == features.end() || label == features.end() ||
        x->second.float_list().value_size() * 4 != static_cast<int>(kFloatBytes)) {
      throw Error(Status(StatusCode::kDamaged, "a feature is missing"));
    }
    std::memcpy(batches_.at(0), x->second.float_list().value().data(), kFloatBytes);
    const std::int32_t value = label->second.int32_list().value(0);
    std::memcpy(batches_.at(1), &value, sizeof(value));
    batches_.NextRow();
  }
  void Finish() { batches_.Finish(); }
  std::uint64_t digest() const { return batches_.digest(); }

 private:
  static constexpr std::size_t kFloatBytes = 64;

  FixedBatches batches_;
};

template <typename Message, typename Columns>
LoopResult RunProtobuf(const std::vector<std::string>& files, const char* format_name,
                       const LoopOptions& options) {
  Columns columns(options);
  const auto block = std::make_unique<char[]>(kArenaBytes);
  google::protobuf::ArenaOptions arena_options;
  arena_options.initial_block = block.get();
  arena_options.initial_block_size = kArenaBytes;
  google::protobuf::Arena arena(arena_options);
  const auto format = FindFormat(format_name).format;
  LoopResult result;
  const LoopTimer timer;
  for (const std::string& file : files) {
    BlockReader reader(file);
    const auto framer = format->NewFramer({.file = file, .file_bytes = reader.file_bytes()});
    FrameOutput output;
    std::span<const std::byte> bytes;
    for (std::size_t used = 0; reader.Next(used, &bytes);) {
      output.records.clear();
      used = framer->Frame({bytes, reader.offset(), reader.file_bytes(), reader.at_end()}, &output)
                 .consumed;
      for (const RecordSpan& record : output.records) {
        arena.Reset();
        auto* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
        if (!message->ParseFromArray(record.data, static_cast<int>(record.size))) {
          throw Error(Status(StatusCode::kDamaged, "Protobuf refuses a record"));
        }
        columns.Add(*message);
        ++result.records;
        result.bytes += record.size;
      }
    }
  }
  columns.Finish();
  timer.Stop(&result);
  result.digest = columns.digest();
  return result;
}

// What a program does that knows Protobuf alone: parses each record with Protobuf's own parser on
// an arena that is kept, looks its 40 features up by name, and writes them to the columns of
// BareFortyFeatureLoop. Same reads, framing and CRCs as the bare loops.
LoopResult RunProtobufFortyFeatures(const std::vector<std::string>& files,
                                    const LoopOptions& options) {
  return RunProtobuf<testdata::ExampleMessage, FortyColumns>(files, "tfrecord", options);
}

// The same of OFRecords, into the columns of BareOfRecordLoop.
LoopResult RunProtobufOfRecords(const std::vector<std::string>& files, const LoopOptions& options) {
  return RunProtobuf<ofrecord_testdata::RecordMessage, SixteenColumns>(files, "ofrecord", options);
}

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
