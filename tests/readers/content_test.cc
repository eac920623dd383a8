#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>

#include "ringfeed/sequences.h"
#include "tests/readers/pipeline_fixture.h"
#include "tests/support/stress_scale.h"

namespace ringfeed {
namespace {

/// What stands at a place: a record's number, or a damaged one.
using Place = std::optional<std::uint64_t>;
using Places = std::vector<Place>;
using Lists = std::vector<std::vector<std::uint64_t>>;

bool Kept(std::uint64_t id) { return id % 3 != 1; }

/// What a chain does to the places of one pass, slowly.
struct Content {
  enum class Kind { kBatch, kGroup, kBucket, kTokens, kBytes };
  Kind kind = Kind::kBatch;
  bool filter = false;
  std::size_t size = 8;
  std::size_t segment = 50;
  bool drop = false;
  std::vector<std::uint64_t> bounds = {16, 40};
  std::size_t limit = 200;
  const std::vector<std::size_t>* sizes = nullptr;  ///< of the records

  std::uint64_t Group(std::uint64_t id) const {
    if (kind == Kind::kGroup) return id % 5;
    std::uint64_t bucket = 0;
    for (const std::uint64_t bound : bounds) bucket += (*sizes)[id] > bound ? 1 : 0;
    return bucket;
  }
  Lists Of(const Places& all) const {
    Places places;
    for (const Place& place : all) {
      if (!filter || !place || Kept(*place)) places.push_back(place);
    }
    Lists batches;
    if (kind == Kind::kGroup || kind == Kind::kBucket) {
      for (std::size_t at = 0; at < places.size(); at += segment) {
        AddSegment(
            {places.begin() + static_cast<std::ptrdiff_t>(at),
             places.begin() + static_cast<std::ptrdiff_t>(std::min(places.size(), at + segment))},
            &batches);
      }
    } else {
      AddRuns(places, &batches);
    }
    std::erase_if(batches, [](const auto& batch) { return batch.empty(); });
    return batches;
  }

 private:
  void AddSegment(const Places& segment_places, Lists* batches) const {
    std::vector<std::pair<std::uint64_t, std::vector<std::uint64_t>>> open;  // in order of begin
    for (const Place& place : segment_places) {
      if (!place) continue;
      const std::uint64_t group = Group(*place);
      auto at = std::find_if(open.begin(), open.end(),
                             [&](const auto& each) { return each.first == group; });
      if (at == open.end()) at = open.insert(open.end(), {group, {}});
      at->second.push_back(*place);
      if (at->second.size() < size) continue;
      batches->push_back(at->second);
      open.erase(at);
    }
    for (const auto& [group, rows] : open) {
      if (!drop) batches->push_back(rows);
    }
  }
  void AddRuns(const Places& places, Lists* batches) const {
    std::vector<std::uint64_t> rows;
    std::size_t count = 0;
    std::size_t weight = 0;
    const auto close = [&] {
      batches->push_back(rows);
      rows.clear();
      count = weight = 0;
    };
    for (const Place& place : places) {
      const std::size_t own = place ? (*sizes)[*place] : 0;
      if (kind != Kind::kBatch && count > 0 && weight + own > limit) close();
      if (place) rows.push_back(*place);
      weight += own;
      if (++count == size) close();
    }
    if (count > 0 && !drop) close();
  }
};

class ContentTest : public PipelineTest {
 protected:
  /// Three files of numbered records.
  void MakeData() {
    sizes_ = RandomSizes(random_(), kRecords, 8, 60);
    for (std::size_t file = 0; file < 3; ++file) {
      const std::size_t first = file * kRecords / 3;
      files_.push_back(directory_.File(std::to_string(file) + ".tfrecord"));
      const auto some = std::span(sizes_).subspan(first, kRecords / 3);
      offsets_.push_back(WriteTfRecords(files_.back(), first, some));
    }
  }
  void Damage(std::uint64_t id) {
    damaged_.insert(id);
    const std::size_t file = id / (kRecords / 3);
    std::FILE* const out = std::fopen(files_[file].c_str(), "r+b");
    ASSERT_NE(out, nullptr);
    const std::uint64_t at = offsets_[file][id % (kRecords / 3)] + 12;
    std::fseek(out, static_cast<long>(at) + 3, SEEK_SET);
    std::fputc(0x77, out);
    std::fclose(out);
  }
  OpenOptions Skipping() {
    OpenOptions options = Options();
    options.on_damage = OnDamage::kSkip;
    options.cycle = 1 + random_() % 3;
    options.stripe_bytes = 4096;
    return options;
  }
  static Lists BatchesOf(const Drained& drained) {
    Lists batches;
    auto at = drained.ids.begin();
    for (const std::size_t rows : drained.rows) {
      batches.emplace_back(at, at + static_cast<std::ptrdiff_t>(rows));
      at += static_cast<std::ptrdiff_t>(rows);
    }
    return batches;
  }
  static Reader Apply(Reader reader, const Content& content) {
    using Kind = Content::Kind;
    const auto group = [content](const RecordSpan& record) {
      std::uint64_t id = 0;
      std::memcpy(&id, record.data, sizeof(id));
      return static_cast<std::int64_t>(content.Group(id));
    };
    switch (content.kind) {
      case Kind::kBatch:
        return Batch(reader, {.size = content.size, .drop_remainder = content.drop});
      case Kind::kGroup:
        return GroupBatch(reader, {.size = content.size,
                                   .group_of = group,
                                   .segment = content.segment,
                                   .drop_remainder = content.drop});
      case Kind::kBucket:
        return BucketBatch(reader, {.size = content.size,
                                    .field = "bytes",
                                    .bounds = content.bounds,
                                    .segment = content.segment,
                                    .drop_remainder = content.drop});
      case Kind::kTokens:
        return TokenBatch(reader,
                          {.field = "bytes", .tokens = content.limit, .most_rows = content.size});
      default:
        return TokenBatch(reader, {.bytes = content.limit, .most_rows = content.size});
    }
  }
  static bool KeepRecord(const RecordSpan& record) {
    std::uint64_t id = 0;
    std::memcpy(&id, record.data, sizeof(id));
    return Kept(id);
  }

  Content RandomContent() {
    Content content;
    content.kind = static_cast<Content::Kind>(random_() % 5);
    content.filter = random_() % 2 == 0;
    content.size = 1 + random_() % 20;
    content.segment = 1 + random_() % 200;
    content.limit = 1 + random_() % 500;
    content.sizes = &sizes_;
    const bool runs =
        content.kind == Content::Kind::kTokens || content.kind == Content::Kind::kBytes;
    content.drop = !runs && random_() % 3 == 0;
    return content;
  }

  static constexpr std::size_t kRecords = 600;
  std::mt19937_64 random_{11};
  std::vector<std::size_t> sizes_;
  std::vector<std::string> files_;
  std::vector<std::vector<std::uint64_t>> offsets_;
  std::set<std::uint64_t> damaged_;
};

TEST_F(ContentTest, ChainsThatLookIntoRecordsAgreeWithASlowReference) {
  MakeData();
  struct Chain {
    OpenOptions open;
    ShuffleOptions shuffle;
    bool shuffled = false;
    Places order;  // of one pass, from chains over data that are not damaged yet
  };
  std::vector<Chain> chains(9);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    Chain& chain = chains[i];
    chain.open = Skipping();
    chain.shuffled = i % 3 != 0;
    chain.shuffle.seed = random_();
    (i % 3 == 1 ? chain.shuffle.window : chain.shuffle.block) = 1 + random_() % 100;
    Reader plain = OpenFiles(files_, chain.open);
    if (chain.shuffled) plain = Shuffle(plain, chain.shuffle);
    const Drained order = DrainBlocks(plain);
    chain.order.assign(order.ids.begin(), order.ids.end());
    ASSERT_EQ(chain.order.size(), kRecords);
  }
  for (int i = 0; i < 30; ++i) Damage(random_() % kRecords);
  for (std::uint64_t id = 200; id < 230; ++id) Damage(id);
  for (int round = 0; round < (kSanitized ? 40 : 120); ++round) {
    Chain chain = chains[random_() % chains.size()];
    const Content content = RandomContent();
    // Window and block shuffles draw anew in each pass: joined passes are of unshuffled chains.
    const std::uint64_t passes = chain.shuffled ? 1 : 1 + random_() % 3;
    const bool joined = random_() % 2 == 0;
    Places pass = chain.order;
    for (Place& place : pass) {
      if (damaged_.contains(*place)) place.reset();
    }
    Lists wanted;
    Places all;
    for (std::uint64_t p = 0; p < passes; ++p) {
      all.insert(all.end(), pass.begin(), pass.end());
      if (joined && p + 1 < passes) continue;
      const Lists more = content.Of(all);
      wanted.insert(wanted.end(), more.begin(), more.end());
      all.clear();
    }
    for (const int threads : {1, 2, 5}) {
      chain.open.threads = threads;
      Reader reader = OpenFiles(files_, chain.open);
      if (chain.shuffled) reader = Shuffle(reader, chain.shuffle);
      const bool filter_first = round % 2 == 0;
      if (content.filter && filter_first) reader = Filter(reader, KeepRecord);
      reader = Parse(reader, RawParser());
      if (content.filter && !filter_first) reader = Filter(reader, KeepRecord);
      if (joined) reader = MultiPass(reader, passes);
      reader = Apply(reader, content);
      if (!joined) reader = MultiPass(reader, passes);
      const Drained found = Drain(reader);
      ASSERT_EQ(found.end, ReadResult::kEnd) << found.status.ToString();
      ASSERT_EQ(found.strange, 0u);
      ASSERT_EQ(BatchesOf(found), wanted) << "round " << round << ", " << threads << " threads";
    }
  }
}

/// Batches of packed rows of the records of a pass, slowly.
std::vector<Lists> PackedBatches(const Places& all, const PackOptions& options, bool filter,
                                 const std::vector<std::size_t>& sizes) {
  Places places;
  for (const Place& place : all) {
    if (!filter || !place || Kept(*place)) places.push_back(place);
  }
  Lists all_rows;
  for (std::size_t begin = 0; begin < places.size(); begin += options.segment) {
    Lists rows;
    std::vector<std::size_t> rooms;
    for (std::size_t at = begin; at < std::min(places.size(), begin + options.segment); ++at) {
      if (!places[at]) continue;
      const std::size_t units = std::min(sizes[*places[at]], options.length);
      std::size_t row = 0;
      while (row < rooms.size() && rooms[row] < units) ++row;
      if (row == rooms.size()) {
        rooms.push_back(options.length);
        rows.emplace_back();
      }
      rooms[row] -= units;
      rows[row].push_back(*places[at]);
    }
    all_rows.insert(all_rows.end(), rows.begin(), rows.end());
  }
  std::vector<Lists> batches;
  for (std::size_t row = 0; row < all_rows.size(); row += options.rows) {
    const std::size_t end = std::min(all_rows.size(), row + options.rows);
    if (end - row < options.rows && options.drop_remainder) continue;
    batches.emplace_back(all_rows.begin() + static_cast<std::ptrdiff_t>(row),
                         all_rows.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

/// Whether a batch is these packed rows, every unit of it.
void ExpectPacked(const Instance& batch, const Lists& rows, const PackOptions& options,
                  const std::vector<std::size_t>& sizes) {
  const auto length = static_cast<std::int64_t>(options.length);
  const Shape shape{static_cast<std::int64_t>(rows.size()), length};
  std::vector<std::byte> values;
  std::vector<std::int32_t> segments;
  std::vector<std::int32_t> positions;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::int32_t number = 0;
    for (const std::uint64_t id : rows[row]) {
      const std::vector<std::byte> record = RecordPayload(id, sizes[id]);
      const std::size_t units = std::min(record.size(), options.length);
      values.insert(values.end(), record.begin(),
                    record.begin() + static_cast<std::ptrdiff_t>(units));
      segments.insert(segments.end(), units, ++number);
      for (std::size_t i = 0; i < units; ++i) positions.push_back(static_cast<std::int32_t>(i));
    }
    const std::size_t end = (row + 1) * options.length;
    values.resize(end, static_cast<std::byte>(options.pad_value));
    segments.resize(end, 0);
    positions.resize(end, 0);
  }
  ASSERT_EQ(batch.size(), 3u);
  for (const Tensor& tensor : batch) ASSERT_EQ(tensor.shape, shape);
  ASSERT_TRUE(std::equal(values.begin(), values.end(), batch[0].data));
  const auto found_segments = batch[1].Values<std::int32_t>();
  const auto found_positions = batch[2].Values<std::int32_t>();
  ASSERT_TRUE(std::equal(segments.begin(), segments.end(), found_segments.begin()));
  ASSERT_TRUE(std::equal(positions.begin(), positions.end(), found_positions.begin()));
}

TEST_F(ContentTest, PackedRowsAgreeWithASlowReference) {
  MakeData();
  OpenOptions open = Skipping();
  const ShuffleOptions window{.window = 64, .seed = 3};
  const auto order_of = [&](bool shuffled) {
    Reader plain = OpenFiles(files_, open);
    const Drained order = DrainBlocks(shuffled ? Shuffle(plain, window) : plain);
    return Places(order.ids.begin(), order.ids.end());
  };
  const Places orders[] = {order_of(false), order_of(true)};
  for (int i = 0; i < 40; ++i) Damage(random_() % kRecords);
  for (int round = 0; round < 60; ++round) {
    const bool shuffled = round % 2 == 0;
    const bool filter = random_() % 2 == 0;
    const PackOptions options{.field = "bytes",
                              .length = 1 + random_() % 150,
                              .rows = 1 + random_() % 9,
                              .segment = 1 + random_() % 300,
                              .pad_value = static_cast<double>(random_() % 256),
                              .drop_remainder = random_() % 3 == 0};
    Places places = orders[shuffled ? 1 : 0];
    std::uint64_t longer = 0;
    for (Place& place : places) {
      if (damaged_.contains(*place)) {
        place.reset();
      } else if ((!filter || Kept(*place)) && sizes_[*place] > options.length) {
        ++longer;
      }
    }
    const std::vector<Lists> wanted = PackedBatches(places, options, filter, sizes_);
    for (const int threads : {1, 3}) {
      open.threads = threads;
      Reader reader = OpenFiles(files_, open);
      if (shuffled) reader = Shuffle(reader, window);
      if (filter) reader = Filter(reader, KeepRecord);
      // Draws of a window are others in the second pass.
      const std::uint64_t passes = shuffled ? 1 : 2;
      reader = MultiPass(Pack(Parse(reader, RawParser()), options), passes);
      EXPECT_EQ(reader.slots()[2].name, "bytes_positions");
      Instance batch;
      for (std::uint64_t pass = 0; pass < passes; ++pass) {
        for (const Lists& rows : wanted) {
          ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kRecord);
          ExpectPacked(batch, rows, options, sizes_);
          if (HasFatalFailure()) return;
        }
      }
      ASSERT_EQ(reader.TryReadNext(&batch), ReadResult::kEnd);
      EXPECT_EQ(reader.Stats().truncated_records, longer * passes);
    }
  }
}

TEST_F(ContentTest, WhatFilterDropsIsCountedAndNotParsed) {
  MakeData();
  Reader reader = OpenFiles(files_, Options());
  // Dropped records are none that the parser could take.
  reader = Parse(Filter(reader, [](const RecordSpan& record) { return record.size % 2 == 0; }),
                 TokensParser({.dtype = kUInt16}));
  reader = MultiPass(Batch(reader, {.size = 16}), 2);
  std::uint64_t rows = 0;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) rows += batch[0].lod[0].size() - 1;
  EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
  const auto odd = static_cast<std::uint64_t>(
      std::count_if(sizes_.begin(), sizes_.end(), [](std::size_t size) { return size % 2 != 0; }));
  EXPECT_EQ(reader.Stats().filtered_records, 2 * odd);
  EXPECT_EQ(reader.Stats().records, 2 * (kRecords - odd));
  EXPECT_EQ(rows, 2 * (kRecords - odd));
}

TEST_F(ContentTest, SeveralFiltersKeepWhatAllOfThemKeep) {
  MakeData();
  const auto divides = [](std::uint64_t number) {
    return [number](const RecordSpan& record) {
      std::uint64_t id = 0;
      std::memcpy(&id, record.data, sizeof(id));
      return id % number == 0;
    };
  };
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = Filter(Filter(OpenFiles(files_, options), divides(2)), divides(3));
  const Drained found = DrainBlocks(reader);
  std::vector<std::uint64_t> wanted;
  for (std::uint64_t id = 0; id < kRecords; id += 6) wanted.push_back(id);
  EXPECT_EQ(found.ids, wanted);
  EXPECT_EQ(reader.Stats().filtered_records, kRecords - wanted.size());
}

TEST_F(ContentTest, WhatAFilterThrowsFailsTheStreamAtThatRecord) {
  MakeData();
  OpenOptions options = Options();
  options.cycle = 1;
  for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
    options.on_damage = policy;
    Reader reader = Filter(OpenFiles(files_, options), [](const RecordSpan& record) {
      std::uint64_t id = 0;
      std::memcpy(&id, record.data, sizeof(id));
      if (id == 257) throw std::runtime_error("no such word");
      return id % 2 == 0;
    });
    const Drained found = Drain(Batches(reader, 10));
    EXPECT_EQ(found.end, ReadResult::kFailed);
    EXPECT_EQ(found.ids.size(), 129u);
    EXPECT_EQ(found.status.code(), StatusCode::kUserError);
    EXPECT_NE(found.status.message().find("no such word"), std::string::npos);
    EXPECT_EQ(found.status.place().record, 57);
  }
}

TEST_F(ContentTest, PassesWithoutEndOfWhichNothingIsKeptEnd) {
  MakeData();
  Reader reader = Filter(OpenFiles(files_, Options()), [](const RecordSpan&) { return false; });
  const Drained found = Drain(Batch(MultiPass(reader, 0), {.size = 4}));
  EXPECT_EQ(found.end, ReadResult::kFailed);
  EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument);
}

TEST_F(ContentTest, PassesWithoutEndOverRecordsThatPackLeavesOutEnd) {
  std::vector<std::byte> bytes;
  for (int record = 0; record < 15; ++record) AppendTfRecord({}, &bytes);
  const std::string file = directory_.File("empty");
  WriteBytes(file, bytes);
  const PackOptions packing{.field = "bytes", .length = 8, .rows = 2};
  for (const bool joined : {false, true}) {
    Reader rows = Parse(OpenFiles({file}, Options()), RawParser());
    const Drained found =
        Drain(joined ? Pack(MultiPass(rows, 0), packing) : MultiPass(Pack(rows, packing), 0));
    EXPECT_EQ(found.end, ReadResult::kFailed);
    EXPECT_EQ(found.status.code(), StatusCode::kInvalidArgument) << found.status.ToString();
  }
}

// A window or a block holds rows back over the ends of passes: none of those is seen behind it.
TEST_F(ContentTest, PassesWithoutEndEndAlsoWherePackLeavesOutWhatAShuffleHeldBack) {
  std::vector<std::byte> bytes;
  for (int record = 0; record < 15; ++record) AppendTfRecord({}, &bytes);
  const std::string file = directory_.File("empty");
  WriteBytes(file, bytes);
  const PackOptions packing{.field = "bytes", .length = 8, .rows = 2};
  const std::vector<ShuffleOptions> shuffles = {
      {.window = 4}, {.window = 1000}, {.block = 4}, {.block = 1000}};
  for (const ShuffleOptions& shuffle : shuffles) {
    SCOPED_TRACE(testing::Message() << "window " << shuffle.window << ", block " << shuffle.block);
    Reader rows = MultiPass(Parse(OpenFiles({file}, Options()), RawParser()), 0);
    Reader reader = Pack(Shuffle(rows, shuffle), packing);
    Instance batch;
    const ReadResult result =
        reader.TryReadNext(&batch, {.deadline = DeadlineAfter(std::chrono::seconds(5))});
    EXPECT_EQ(result, ReadResult::kFailed);
    EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument) << reader.status().ToString();
  }
}

// What a segment's end drops may be as much as a pass has, while its other rows were delivered.
TEST_F(ContentTest, PassesWithoutEndGoOnThoughAPassDropsAsManyRowsAsItBrings) {
  files_ = MakeFiles(1, 10, 8, 8);
  const GroupFunction one_group = [](const RecordSpan&) { return 0; };
  Reader grouped =
      GroupBatch(Parse(MultiPass(OpenFiles(files_, Options()), 0), RawParser()),
                 {.size = 16, .group_of = one_group, .segment = 30, .drop_remainder = true});
  Reader packed =
      Pack(Parse(MultiPass(OpenFiles(files_, Options()), 0), RawParser()),
           {.field = "bytes", .length = 8, .rows = 16, .segment = 30, .drop_remainder = true});
  for (Reader reader : {grouped, packed}) {
    for (int batch = 0; batch < 100; ++batch) {
      Instance rows;
      ASSERT_EQ(reader.TryReadNext(&rows), ReadResult::kRecord) << reader.status().ToString();
      ASSERT_EQ(rows.Rows(), 16u);
    }
    reader.Close();
  }
}

TEST_F(ContentTest, PassesWithoutEndEndWhereEverySegmentIsDropped) {
  files_ = MakeFiles(1, 15, 8, 8);
  const GroupFunction groups = [](const RecordSpan& record) { return record.size % 2; };
  for (const std::size_t window : std::vector<std::size_t>{0, 4, 1000}) {
    const auto rows = [&] {
      Reader reader = MultiPass(Parse(OpenFiles(files_, Options()), RawParser()), 0);
      return window == 0 ? reader : Shuffle(reader, {.window = window});
    };
    Reader reader = GroupBatch(
        rows(), {.size = 1000, .group_of = groups, .segment = 50, .drop_remainder = true});
    Instance batch;
    ReadResult result = ReadResult::kRecord;
    // In front of a failure nothing is dropped.
    for (int batches = 0; result == ReadResult::kRecord && batches < 1000; ++batches) {
      result = reader.TryReadNext(&batch, {.deadline = DeadlineAfter(std::chrono::seconds(5))});
    }
    EXPECT_EQ(result, ReadResult::kFailed) << window;
    EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(reader.status().message().find("dropped"), std::string::npos)
        << reader.status().ToString();
    // Packed rows of many segments make a batch.
    Reader packed =
        Pack(rows(),
             {.field = "bytes", .length = 8, .rows = 1000, .segment = 50, .drop_remainder = true});
    for (int batches = 0; batches < 3; ++batches) {
      ASSERT_EQ(packed.TryReadNext(&batch), ReadResult::kRecord) << packed.status().ToString();
      EXPECT_EQ(batch[0].shape[0], 1000);
    }
  }
}

TEST_F(ContentTest, TheBytesThatAreCountedAreThoseOfTheRecordsThatAreCounted) {
  constexpr std::size_t kBytes = 64;
  files_ = MakeFiles(2, 300, kBytes, kBytes);
  const auto rows = [&](bool filter, const ShuffleOptions& shuffle) {
    Reader reader = Shuffle(OpenFiles(files_, Options()), shuffle);
    return filter ? Filter(reader,
                           [](const RecordSpan& record) {
                             return std::to_integer<unsigned>(record.data[0]) % 3 != 0;
                           })
                  : reader;
  };
  const ShuffleOptions window{.window = 100, .seed = 3};
  const std::vector<std::pair<std::string, Reader>> chains = {
      {"a part", Batch(rows(true, window), {.size = 9, .rank = {1, 3}})},
      {"groups",
       GroupBatch(
           rows(true, window),
           {.size = 9, .group_of = [](const RecordSpan& record) { return record.size % 2; }})},
      {"packed",
       Pack(Parse(rows(true, window), RawParser()), {.field = "bytes", .length = 100, .rows = 4})},
      {"sought", Batch(rows(true, window), {.size = 9})},
      {"sought records", rows(true, window)},
      {"sought parsed rows", Parse(rows(true, window), RawParser())}};
  for (auto [what, reader] : chains) {
    SCOPED_TRACE(what);
    if (what.starts_with("sought")) reader.SeekTo(7);
    const Drained found = Drain(reader);
    EXPECT_EQ(found.end, ReadResult::kEnd);
    const PipelineStats stats = reader.Stats();
    EXPECT_GT(stats.records, 50u);
    EXPECT_EQ(stats.payload_bytes, stats.records * kBytes);
    reader.Close();
  }
}

TEST_F(ContentTest, OfRecordsThatAShuffleHoldsWhereItFailsNoBytesAreCounted) {
  constexpr std::size_t kBytes = 64;
  files_ = MakeFiles(2, 300, kBytes, kBytes);
  std::string bytes = ReadBytes(files_[0]);
  bytes[200 * (kBytes + 16) + 12] = static_cast<char>(bytes[200 * (kBytes + 16) + 12] ^ 4);
  WriteBytes(files_[0], std::as_bytes(std::span(bytes)));
  for (const ShuffleOptions& shuffle : {ShuffleOptions{.window = 100}, ShuffleOptions{.block = 250},
                                        ShuffleOptions{.mode = ShuffleMode::kNone}}) {
    for (const bool filter : {false, true}) {
      Reader reader = Shuffle(OpenFiles(files_, Options()), shuffle);
      if (filter) reader = Filter(reader, [](const RecordSpan&) { return true; });
      reader = Batches(reader, 9);
      EXPECT_EQ(Drain(reader).end, ReadResult::kFailed);
      const PipelineStats stats = reader.Stats();
      EXPECT_GT(stats.records, 50u);
      EXPECT_EQ(stats.payload_bytes, stats.records * kBytes)
          << shuffle.window << " " << shuffle.block << " " << filter;
    }
  }
}

TEST_F(ContentTest, PaddedBatchesAreOneTensorWithItsLengths) {
  MakeData();
  OpenOptions options = Options();
  options.cycle = 1;
  Reader reader = Truncate(Parse(OpenFiles(files_, options), RawParser()), "bytes", 40);
  reader = Batch(Pad(reader, "bytes", {.length = 40, .value = 255}), {.size = 7});
  EXPECT_EQ(reader.slots()[0].dims, (std::vector<std::int64_t>{-1, 40}));
  EXPECT_EQ(reader.slots()[1].name, "bytes_length");
  std::uint64_t id = 0;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    const auto lengths = batch[1].Values<std::int64_t>();
    ASSERT_EQ(batch[0].shape, (Shape{static_cast<std::int64_t>(lengths.size()), 40}));
    for (std::size_t row = 0; row < lengths.size(); ++row, ++id) {
      std::vector<std::byte> wanted = RecordPayload(id, sizes_[id]);
      wanted.resize(std::min<std::size_t>(40, wanted.size()));
      ASSERT_EQ(static_cast<std::size_t>(lengths[row]), wanted.size());
      wanted.resize(40, std::byte{255});
      ASSERT_EQ(std::memcmp(batch[0].data + row * 40, wanted.data(), 40), 0);
    }
  }
  EXPECT_EQ(id, kRecords);
}

TEST_F(ContentTest, ChainsThatMakeNoSenseAreRefusedWithTheRemedy) {
  MakeData();
  const auto raw = [&] { return Parse(OpenFiles(files_, Options()), RawParser()); };
  const auto why = [](const auto& make) -> std::string {
    try {
      (void)make().slots();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto keep = [](const RecordSpan&) { return true; };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(why([&] { return Shuffle(Filter(raw(), keep), {.window = 9}); }),
      "put Filter behind Shuffle");
  has(why([&] { return Filter(Batch(raw(), {.size = 4}), keep); }), "put Filter before Batch");
  has(why([&] { return Filter(raw(), nullptr); }), "function");
  has(why([&] { return Truncate(OpenFiles(files_, Options()), "bytes", 4); }),
      "put Parse in front");
  has(why([&] { return Truncate(raw(), "words", 4); }), "no field \"words\"; the chain has bytes");
  has(why([&] { return Truncate(Batch(raw(), {.size = 4}), "bytes", 4); }), "before Batch");
  has(why([&] { return Truncate(raw(), "bytes", 0); }), "from 1");
  has(why([&] { return Pad(raw(), "bytes", {}); }), "one of length and multiple");
  has(why([&] {
        return BucketBatch(Pad(raw(), "bytes", {.length = 99}),
                           {.size = 4, .field = "bytes", .bounds = {3}});
      }),
      "not ragged");
  has(why([&] {
        return BucketBatch(raw(), {.size = 4, .field = "bytes", .bounds = {3, 3}});
      }),
      "ascend");
  has(why([&] { return TokenBatch(raw(), {.field = "bytes"}); }), "one of tokens and bytes");
  has(why([&] {
        return Pack(Pad(raw(), "bytes", {.multiple = 8}),
                    {.field = "bytes", .length = 64, .rows = 2});
      }),
      "Pack packs one field");
  has(why([&] { return Pack(raw(), {.field = "bytes", .length = 9, .rows = 2, .pad_value = -1}); }),
      "no number that uint8 holds");
  has(why([&] { return TokenBatch(raw(), {.field = "bytes", .bytes = 4}); }), "of a field");
  has(why([&] { return TokenBatch(Batch(raw(), {.size = 2}), {.field = "bytes", .tokens = 4}); }),
      "before Batch");
}

}  // namespace
}  // namespace ringfeed
