// Whole chains beside what a program does that knows Protobuf alone: it parses each record with
// Protobuf's own parser on an arena that is kept, looks up its features by name, and writes them to
// columns. Reading, framing and checksums are on both sides.
#include <google/protobuf/arena.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/bench_data.h"
#include "bench/feed_chain.h"
#include "example.pb.h"
#include "ofrecord.pb.h"
#include "ringfeed/parsers.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

constexpr std::size_t kBatchRows = 8192;
constexpr std::size_t kFloats = 13;
constexpr std::size_t kInts = 26;

template <typename T>
void Store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

std::vector<std::string> FortyNames() {
  std::vector<std::string> names{"label"};
  for (std::size_t i = 1; i <= kFloats; ++i) names.push_back("i" + std::to_string(i));
  for (std::size_t i = 1; i <= kInts; ++i) names.push_back("c" + std::to_string(i));
  return names;
}

bool IsFloat(std::size_t column) { return column >= 1 && column <= kFloats; }

template <typename Features>
const auto& Found(const Features& features, const std::string& name) {
  const auto found = features.find(name);
  if (found == features.end()) throw Error(Status(StatusCode::kDamaged, name + " is missing"));
  return found->second;
}

void WriteForty(const testdata::ExampleMessage& message, const FixedBatches& batches) {
  static const std::vector<std::string> kNames = FortyNames();
  for (std::size_t c = 0; c < kNames.size(); ++c) {
    const auto& feature = Found(message.features().feature(), kNames[c]);
    if (IsFloat(c)) {
      Store(batches.at(c), feature.float_list().value(0));
    } else {
      Store(batches.at(c), std::int64_t{feature.int64_list().value(0)});
    }
  }
}

void WriteSixteen(const ofrecord_testdata::RecordMessage& message, const FixedBatches& batches) {
  const auto& x = Found(message.feature(), "x").float_list();
  if (x.value_size() != 16) throw Error(Status(StatusCode::kDamaged, "bad floats"));
  std::memcpy(batches.at(0), x.value().data(), 64);
  Store(batches.at(1), std::int32_t{Found(message.feature(), "label").int32_list().value(0)});
}

// `frame(block, take)` frames a block's records.
template <typename Message, typename Frame>
BareLoopMaker ByProtobuf(std::vector<std::size_t> columns, Frame frame,
                         void (*write)(const Message&, const FixedBatches&)) {
  return [=](const std::vector<std::string>& files) {
    return [=](const LoopOptions& options) {
      google::protobuf::ArenaOptions arena_options;
      const std::size_t arena_bytes = 256 * 1024;
      const auto block = std::make_unique<char[]>(arena_bytes);
      arena_options.initial_block = block.get();
      arena_options.initial_block_size = arena_bytes;
      google::protobuf::Arena arena(arena_options);
      return FillColumns(columns, options, [&](LoopResult* result, FixedBatches* batches) {
        const auto take = [&](const std::byte* record, std::size_t bytes) {
          arena.Reset();
          auto* message = google::protobuf::Arena::CreateMessage<Message>(&arena);
          if (!message->ParseFromArray(record, static_cast<int>(bytes))) {
            throw Error(Status(StatusCode::kDamaged, "Protobuf refuses a record"));
          }
          write(*message, *batches);
          batches->NextRow();
          ++result->records;
          result->bytes += bytes;
        };
        ForEachBlock(files, [&](std::span<const std::byte> bytes) { return frame(bytes, take); });
      });
    };
  };
}

Work ParserWork(const char* row, std::function<BenchFiles()> files,
                const std::shared_ptr<const Parser>& parser, BareLoopMaker bare) {
  const FeedWork work{
      row, std::move(files), kBatchRows, false, {}, Batches(parser, kBatchRows), std::move(bare)};
  return {{{row, kRecordsPerCpuS}}, [work] { return FeedPair(work); }};
}

}  // namespace

std::vector<Work> Works(int /*threads*/) {
  std::vector<FeatureSpec> forty;
  std::vector<std::size_t> forty_bytes;
  for (const std::string& name : FortyNames()) {
    const bool is_float = IsFloat(forty.size());
    forty.push_back({name, is_float ? kFloat32 : kInt64, {}});
    forty_bytes.push_back(is_float ? 4 : 8);
  }
  const auto examples = [](std::span<const std::byte> block, const auto& take) {
    return TakeTfRecords(block, take);
  };
  const auto of_records = [](std::span<const std::byte> block, const auto& take) {
    return TakeOfRecords(block, take);
  };
  return {
      ParserWork(
          "example_forty_features_vs_protobuf",
          [] { return FortyFeatureExamples(Sized(300'000, 3'000), 4); }, ExampleParser(forty),
          ByProtobuf(forty_bytes, examples, WriteForty)),
      ParserWork(
          "ofrecord_16_floats_vs_protobuf", [] { return OfRecords(Sized(4'000'000, 4'000), 4); },
          OFRecordParser({{"x", kFloat32, {16}}, {"label", kInt32, {}}}),
          ByProtobuf({64, 4}, of_records, WriteSixteen))};
}

}  // namespace ringfeed::bench
