// What a Map function may ask of its row, and how it refuses one.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "tests/readers/pipeline_fixture.h"

namespace ringfeed {
namespace {

/// The draws of a record: its number, and what Draw(0) and Draw(5) gave.
using Drawn = std::array<std::uint64_t, 3>;

class MapRowTest : public PipelineTest {
 protected:
  static std::uint64_t IdOf(const MapInput& input) {
    const auto id = IdOfPayload(input.record.bytes());
    return id ? *id : ~std::uint64_t{0};
  }
  static void Write(RowWriter& output, std::size_t field, const auto& values) {
    std::memcpy(output.Fixed(field).data(), &values, sizeof(values));
  }
  /// A Map that gives Drawn, and, if it is ragged, so many more values as the number modulo 3.
  static Reader Draws(const Reader& reader, bool ragged, std::uint64_t seed = 7) {
    std::vector<FieldSpec> fields{{"drawn", kUInt64, {3}}};
    if (ragged) fields.push_back({"more", kUInt8, {-1}});
    return Map(reader, fields,
               [ragged](const MapInput& input, RowWriter& output) {
                 const std::vector<std::byte> more(IdOf(input) % 3);
                 if (ragged) output.Ragged(1, more);
                 Write(output, 0, Drawn{IdOf(input), input.Draw(0), input.Draw(5)});
               },
               {.seed = seed});
  }
  static std::vector<Drawn> Read(Reader reader, std::size_t batches = ~std::size_t{0}) {
    std::vector<Drawn> drawn;
    Instance batch;
    for (; batches > 0 && reader.TryReadNext(&batch) == ReadResult::kRecord; --batches) {
      const auto values = batch[0].Values<std::uint64_t>();
      for (std::size_t i = 0; i < values.size(); i += 3) {
        drawn.push_back({values[i], values[i + 1], values[i + 2]});
      }
    }
    return drawn;
  }
  static std::vector<Drawn> SortedDraws(std::vector<Drawn> drawn) {
    std::sort(drawn.begin(), drawn.end());
    return drawn;
  }
};

TEST_F(MapRowTest, ADrawIsThatOfTheFormula) {
  const auto files = MakeFiles(3, 50, 8, 60);
  OpenOptions options = Options();
  options.first_epoch = 3;
  for (const bool ragged : {false, true}) {
    const auto drawn =
        Read(Batch(Draws(OpenFiles(files, options), ragged, 0x500000009), {.size = 10}));
    ASSERT_EQ(drawn.size(), 150u);
    for (const auto& [id, first, sixth] : drawn) {
      const auto record = static_cast<std::uint32_t>(id % 50);
      const auto file = static_cast<std::uint32_t>(id / 50);
      const auto key = Philox4x32({record, file << 8, 3, 8}, {9, 5});
      const auto at_0 = Philox4x32({0, 0, key[2], key[3]}, {key[0], key[1]});
      const auto at_5 = Philox4x32({5, 0, key[2], key[3]}, {key[0], key[1]});
      EXPECT_EQ(first, std::uint64_t{at_0[1]} << 32 | at_0[0]);
      EXPECT_EQ(sixth, std::uint64_t{at_5[1]} << 32 | at_5[0]);
    }
  }
}

TEST_F(MapRowTest, DrawsAreTheSameInEveryOrderOnAnyThreadsAndRanks) {
  const auto files = MakeFiles(4, 120, 8, 200);
  const auto wanted =
      SortedDraws(Read(Batch(Draws(OpenFiles(files, Options()), false), {.size = 7})));
  ASSERT_EQ(wanted.size(), 480u);
  const std::optional<ShuffleOptions> orders[] = {
      std::nullopt,
      ShuffleOptions{.window = 50, .seed = 2},
      ShuffleOptions{.block = 30, .seed = 2},
      ShuffleOptions{.seed = 2, .mode = ShuffleMode::kStripes},
      ShuffleOptions{.seed = 2, .mode = ShuffleMode::kGlobal},
  };
  for (const auto& order : orders) {
    for (const int ranks : {1, 2, 4}) {
      for (const bool ragged : {false, true}) {
        SCOPED_TRACE(testing::Message() << &order - orders << " " << ranks << " " << ragged);
        std::vector<Drawn> drawn;
        for (int rank = 0; rank < ranks; ++rank) {
          OpenOptions options = Options();
          options.threads = 1 + rank * 3;
          Reader reader = OpenFiles(files, options);
          if (order) reader = Shuffle(reader, *order);
          const auto part = Read(Batch(Draws(reader, ragged),
                                       {.size = 8, .rank = {.rank = rank, .world_size = ranks}}));
          drawn.insert(drawn.end(), part.begin(), part.end());
        }
        EXPECT_EQ(SortedDraws(drawn), wanted);
      }
    }
  }
}

TEST_F(MapRowTest, DrawsGoOnAfterRestoreAsIfNothingHadHappened) {
  const auto files = MakeFiles(3, 100, 8, 200);
  for (const bool global : {false, true}) {
    const auto chain = [&] {
      Reader reader = OpenFiles(files, Options());
      if (global) reader = Shuffle(reader, {.seed = 3, .mode = ShuffleMode::kGlobal});
      return Batch(MultiPass(Draws(reader, true), 3), {.size = 32});
    };
    const auto whole = Read(chain());
    ASSERT_EQ(whole.size(), 900u);
    for (const std::size_t batches : {1u, 9u, 10u, 20u}) {
      Reader first = chain();
      std::vector<Drawn> drawn = Read(first, batches);
      Reader second = chain();
      second.Restore(first.Position());
      const auto rest = Read(second);
      drawn.insert(drawn.end(), rest.begin(), rest.end());
      EXPECT_EQ(drawn, whole);
    }
  }
}

TEST_F(MapRowTest, EachEpochAndSeedDrawsAnew) {
  const auto files = MakeFiles(2, 60, 8, 60);
  const auto epoch = [&](std::uint32_t first, std::uint64_t passes, std::uint64_t seed) {
    OpenOptions options = Options();
    options.first_epoch = first;
    return Read(
        Batch(MultiPass(Draws(OpenFiles(files, options), false, seed), passes), {.size = 60}));
  };
  const auto two = epoch(0, 2, 7);
  std::set<std::uint64_t> numbers;
  for (const Drawn& each : two) numbers.insert({each[1], each[2]});
  EXPECT_EQ(numbers.size(), 480u);
  EXPECT_EQ(epoch(1, 1, 7), std::vector<Drawn>(two.begin() + 120, two.end()));
  EXPECT_NE(epoch(0, 1, 8), epoch(0, 1, 7));
}

TEST_F(MapRowTest, TellsFileRecordPassAndEpoch) {
  const auto files = MakeFiles(2, 40, 8, 60);
  for (const bool global : {false, true}) {
    OpenOptions options = Options();
    options.first_epoch = 4;
    Reader reader = OpenFiles(files, options);
    if (global) reader = Shuffle(reader, {.seed = 3, .mode = ShuffleMode::kGlobal});
    std::mutex mutex;
    std::map<std::uint64_t, int> calls;
    const MapFunction check = [&](const MapInput& input, RowWriter& output) {
      const std::uint64_t id = IdOf(input);
      EXPECT_EQ(input.Place().file, files[id / 40]);
      EXPECT_EQ(input.Place().record, static_cast<std::int64_t>(id % 40));
      EXPECT_GE(input.Place().offset, 0);
      EXPECT_EQ(input.epoch, input.pass + 4);
      Write(output, 0, input.pass);
      const std::lock_guard lock(mutex);
      ++calls[id];
    };
    Reader batches = Batch(MultiPass(Map(reader, {{"pass", kUInt64, {}}}, check), 2), {.size = 40});
    Instance batch;
    for (std::uint64_t pass = 0; pass < 2; ++pass) {
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(batches.TryReadNext(&batch), ReadResult::kRecord);
        for (const std::uint64_t of : batch[0].Values<std::uint64_t>()) EXPECT_EQ(of, pass);
      }
    }
    EXPECT_EQ(calls.size(), 80u);
  }
}

TEST_F(MapRowTest, AFunctionOfAUsersOwnTestsMayDraw) {
  const MapInput input{.seed = 3};
  EXPECT_NE(input.Draw(0), input.Draw(1));
  EXPECT_EQ(input.Place().record, -1);
}

// Rows 30 and 31 of a file of 100, by Skip or by an Error.
TEST_F(MapRowTest, ARefusedRowIsDamaged) {
  const auto files = MakeFiles(2, 100, 8, 60);
  for (const bool ragged : {false, true}) {
    for (const bool throws : {false, true}) {
      for (const bool global : {false, true}) {
        const auto chain = [&](OnDamage policy, std::uint64_t most) {
          OpenOptions options = Options();
          options.on_damage = policy;
          options.max_damaged = most;
          Reader reader = OpenFiles(files, options);
          if (global) reader = Shuffle(reader, {.seed = 3, .mode = ShuffleMode::kGlobal});
          std::vector<FieldSpec> fields{{"id", kUInt64, {3}}};
          if (ragged) fields.push_back({"more", kUInt8, {-1}});
          const MapFunction function = [=](const MapInput& input, RowWriter& output) {
            const std::uint64_t id = IdOf(input);
            if (id == 130 || id == 131) {
              if (throws) throw Error(Status(StatusCode::kDamaged, "no JPEG"));
              return output.Skip("no JPEG");
            }
            Write(output, 0, Drawn{id});
            if (ragged) output.Ragged(1, {});
          };
          return Batch(Map(reader, fields, function), {.size = 20});
        };
        Reader skipping = chain(OnDamage::kSkip, 10);
        EXPECT_EQ(Read(skipping).size(), 198u);
        EXPECT_TRUE(skipping.status().ok()) << skipping.status().ToString();
        const PipelineStats stats = skipping.Stats();
        EXPECT_EQ(stats.damaged_records, 2u);
        ASSERT_EQ(stats.damage.size(), 2u);
        for (const DamagedRange& range : stats.damage) {
          EXPECT_EQ(range.file, files[1]);
          EXPECT_NE(range.reason.find("the Map function refused the row: no JPEG"),
                    std::string::npos)
              << range.reason;
          EXPECT_NE(range.reason.find("record 3"), std::string::npos);
        }
        Reader strict = chain(OnDamage::kFail, 10);
        const auto before = Read(strict);
        EXPECT_EQ(strict.status().code(), StatusCode::kDamaged);
        EXPECT_EQ(strict.status().place().file, files[1]);
        if (!global) {
          EXPECT_EQ(before.size(), 130u);
        }
        Reader limited = chain(OnDamage::kSkip, 1);
        Read(limited);
        EXPECT_EQ(limited.status().code(), StatusCode::kDamaged);
      }
    }
  }
}

TEST_F(MapRowTest, AFunctionThatRefusesEveryRowIsAMistake) {
  const auto files = MakeFiles(1, 300, 8, 60);
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  for (const bool parsed : {false, true}) {
    Reader reader = OpenFiles(files, options);
    if (parsed) reader = Parse(reader, RawParser());
    Reader batches = Batch(Map(reader, {{"id", kUInt64, {}}},
                               [](const MapInput&, RowWriter& output) { output.Skip("no cat"); }),
                           {.size = 20});
    EXPECT_TRUE(Read(batches).empty());
    EXPECT_FALSE(batches.status().ok());
    EXPECT_NE(batches.status().message().find("no cat"), std::string::npos)
        << batches.status().ToString();
  }
}

TEST_F(MapRowTest, KeepsFieldsUnchangedAfterItsOwn) {
  const auto files = MakeFiles(2, 100, 8, 60);
  for (const bool ragged : {false, true}) {
    Reader sized = Map(OpenFiles(files, Options()), {{"size", kUInt64, {3}}, {"id", kUInt64, {3}}},
                       [](const MapInput& input, RowWriter& output) {
                         Write(output, 0, Drawn{input.record.size});
                         Write(output, 1, Drawn{IdOf(input)});
                       });
    if (ragged) sized = Parse(OpenFiles(files, Options()), RawParser());
    const std::string name = ragged ? "bytes" : "id";
    Reader reader =
        Batch(Map(sized, {{"one", kUInt8, {}}},
                  [](const MapInput&, RowWriter& output) { output.Fixed(0)[0] = std::byte{1}; },
                  {.keep = {name}}),
              {.size = 16});
    std::uint64_t next = 0;
    Instance batch;
    while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
      ASSERT_EQ(batch.size(), 2u);
      const auto rows = static_cast<std::size_t>(batch["one"].shape[0]);
      for (std::size_t row = 0; row < rows; ++row, ++next) {
        EXPECT_EQ(batch["one"].Values<std::uint8_t>()[row], 1);
        if (!ragged) {
          EXPECT_EQ(batch["id"].Values<std::uint64_t>()[3 * row], next);
          continue;
        }
        const auto begin = static_cast<std::size_t>(batch[1].lod[0][row]);
        const auto end = static_cast<std::size_t>(batch[1].lod[0][row + 1]);
        EXPECT_EQ(IdOfPayload({batch[1].data + begin, end - begin}), next);
      }
    }
    EXPECT_EQ(next, 200u) << reader.status().ToString();
  }
}

TEST_F(MapRowTest, WhatItCannotKeepIsRefusedWithTheNamesThereAre) {
  const auto files = MakeFiles(1, 5, 8, 60);
  const MapFunction nothing = [](const MapInput&, RowWriter&) {};
  const auto why = [&](Reader reader, const std::vector<FieldSpec>& fields,
                       const std::string& keep) {
    try {
      Instance row;
      (void)Map(std::move(reader), fields, nothing, {.keep = {keep}}).TryReadNext(&row);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const std::vector<FieldSpec> one{{"one", kUInt8, {}}};
  const Reader parsed = Parse(OpenFiles(files, Options()), RawParser());
  EXPECT_NE(why(parsed, one, "label").find("there are \"bytes\""), std::string::npos);
  EXPECT_NE(why(OpenFiles(files, Options()), one, "label").find("Parse"), std::string::npos);
  EXPECT_NE(why(Parse(OpenFiles(files, Options()), RawParser()), {{"bytes", kUInt8, {}}}, "bytes")
                .find("two fields of the name"),
            std::string::npos);
}

TEST_F(MapRowTest, ReservedMemoryIsWrittenInPlace) {
  const auto files = MakeFiles(2, 200, 8, 60);
  Reader reader = Batch(
      Map(OpenFiles(files, Options()), {{"a", kUInt64, {-1}}, {"b", kUInt8, {-1}}},
          [](const MapInput& input, RowWriter& output) {
            const std::uint64_t id = IdOf(input);
            std::span<std::byte> a = output.Reserve(0, 8 * 8);
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % alignof(std::uint64_t), 0u);
            if (id % 2 == 0) a = output.Reserve(0, 8 * 20);  // more, after all
            const std::span<std::byte> b = output.Reserve(1, id % 7);
            std::fill(b.begin(), b.end(), static_cast<std::byte>(id));
            for (std::size_t i = 0; i < id % 5; ++i) std::memcpy(a.data() + 8 * i, &id, 8);
            output.Ragged(1, b);
            output.Ragged(0, a.first(8 * (id % 5)));
          }),
      {.size = 30});
  std::uint64_t next = 0;
  Instance batch;
  while (reader.TryReadNext(&batch) == ReadResult::kRecord) {
    for (std::size_t row = 0; row + 1 < batch[0].lod[0].size(); ++row, ++next) {
      const auto begin = batch[0].lod[0][row];
      ASSERT_EQ(batch[0].lod[0][row + 1] - begin, static_cast<std::int64_t>(next % 5));
      for (auto i = begin; i < batch[0].lod[0][row + 1]; ++i) {
        ASSERT_EQ(batch[0].Values<std::uint64_t>()[static_cast<std::size_t>(i)], next);
      }
      ASSERT_EQ(batch[1].lod[0][row + 1] - batch[1].lod[0][row],
                static_cast<std::int64_t>(next % 7));
      for (auto i = batch[1].lod[0][row]; i < batch[1].lod[0][row + 1]; ++i) {
        ASSERT_EQ(batch[1].data[i], static_cast<std::byte>(next));
      }
    }
  }
  EXPECT_EQ(next, 400u) << reader.status().ToString();
}

// Row 130 does not return until it is released.
TEST_F(MapRowTest, ARowThatTakesTooLongIsGivenUp) {
  const auto files = MakeFiles(2, 100, 8, 60);
  for (const bool ragged : {false, true}) {
    for (const OnDamage policy : {OnDamage::kFail, OnDamage::kSkip}) {
      std::atomic<bool> released{false};
      std::atomic<int> held{0};
      OpenOptions options = Options();
      options.on_damage = policy;
      std::vector<FieldSpec> fields{{"id", kUInt64, {3}}};
      if (ragged) fields.push_back({"more", kUInt8, {-1}});
      const MapFunction function = [&, ragged](const MapInput& input, RowWriter& output) {
        const std::uint64_t id = IdOf(input);
        if (id == 130) {
          ++held;
          while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        Write(output, 0, Drawn{id, input.Draw(0), input.pass});
        if (ragged) output.Ragged(1, std::vector<std::byte>(id % 3));
        if (id == 130) --held;
      };
      Reader reader = Batch(Map(OpenFiles(files, options), fields, function,
                                {.name = "Decode", .row_timeout_ms = 1500}),
                            {.size = 10});
      const auto found = Read(reader);
      const PipelineStats stats = reader.Stats();
      if (policy == OnDamage::kFail) {
        EXPECT_EQ(found.size(), 130u);
        EXPECT_EQ(reader.status().code(), StatusCode::kDeadlineExceeded);
        EXPECT_EQ(reader.status().place().record, 30);
        EXPECT_EQ(reader.status().place().file, files[1]);
      } else {
        EXPECT_EQ(found.size(), 199u);
        EXPECT_TRUE(reader.status().ok()) << reader.status().ToString();
        ASSERT_EQ(stats.damage.size(), 1u);
        EXPECT_NE(stats.damage[0].reason.find("record 30: Decode did not return within 1500 ms"),
                  std::string::npos)
            << stats.damage[0].reason;
      }
      EXPECT_EQ(stats.given_up_rows, 1u);
      ASSERT_FALSE(stats.slowest_rows.empty());
      EXPECT_LE(stats.slowest_rows.size(), 10u);
      EXPECT_EQ(stats.slowest_rows[0].record, 30);
      EXPECT_GE(stats.slowest_rows[0].seconds, 1.5);
      reader.Close();
      released = true;
      while (held > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

TEST_F(MapRowTest, ARowThatReturnsInTimeIsWhatItIsWithoutALimit) {
  const auto files = MakeFiles(3, 80, 8, 200);
  const auto chain = [&](std::int64_t timeout_ms) {
    return Read(Batch(
        Map(Parse(Shuffle(OpenFiles(files, Options()), {.seed = 1, .mode = ShuffleMode::kGlobal}),
                  RawParser()),
            {{"drawn", kUInt64, {3}}},
            [](const MapInput& input, RowWriter& output) {
              EXPECT_EQ((*input.fields)[0].bytes, input.record.size);
              Write(output, 0, Drawn{IdOf(input), input.Draw(0), input.Place().file.size()});
            },
            {.keep = {"bytes"}, .row_timeout_ms = timeout_ms}),
        {.size = 16}));
  };
  const auto without = chain(0);
  EXPECT_EQ(without.size(), 240u);
  EXPECT_EQ(chain(60'000), without);
}

TEST_F(MapRowTest, ALackOfMemoryIsNoDamage) {
  OpenOptions options = Options();
  options.on_damage = OnDamage::kSkip;
  for (const bool ragged : {false, true}) {
    Reader reader = Batch(Map(OpenFiles(MakeFiles(1, 50, 8, 60), options),
                              {{"id", kUInt64, ragged ? Shape{-1} : Shape{3}}},
                              [](const MapInput&, RowWriter&) { throw std::bad_alloc(); }),
                          {.size = 10});
    EXPECT_TRUE(Read(reader).empty());
    EXPECT_EQ(reader.status().code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(reader.Stats().damaged_records, 0u);
  }
}

}  // namespace
}  // namespace ringfeed
