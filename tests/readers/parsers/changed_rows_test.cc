#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <random>

#include "readers/parsers/wrappers/wrappers.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/lod_records.h"
#include "tests/readers/parsers/odd_records.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;
using ParserPtr = std::shared_ptr<const Parser>;

/// A parser and records for it.
struct Case {
  std::string name;
  ParserPtr parser;
  Strings records;
};

Strings OddOfRecords(double oddness) {
  Strings records;
  for (std::uint64_t i = 0; i < 40; ++i) {
    OddRecords odd({"BFDVV", false, true, {{"n", 5, i % 9 + 1}, {"d", 3, i % 5 + 1}, {"e", 1, 1}}},
                   i);
    records.push_back(odd.Make(oddness));
  }
  return records;
}

Strings LodRecords() {
  std::mt19937_64 random(5);
  Strings records;
  for (std::uint16_t i = 0; i < 40; ++i) records.push_back(EncodedRecord(RandomRecord(i, &random)));
  return records;
}

ParserPtr Lods() {
  return ParserFromText("lod: image=f4[,2,3] words=i8[,1]/1 nested=i2[]/2 label=u1[2]").parser;
}

ParserPtr Twice(const ParserPtr& bytes) {
  const MapFunction twice = [](const MapInput& input, RowWriter& output) {
    const std::span<const std::byte> own = input.record.bytes();
    std::vector<std::byte> values(own.begin(), own.end());
    values.insert(values.end(), own.begin(), own.end());
    output.Ragged(0, values);
  };
  return MakeMapParser(bytes, {{"twice", kUInt8, {-1}}}, twice);
}

ParserPtr OfText(const std::string& text) { return ParserFromText(text).parser; }

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"raw", RawParser(), RandomUnits(1, 40)});
  cases.push_back({"tokens", OfText("tokens: u2[] as i8"), RandomUnits(2, 40)});
  cases.push_back({"tokens as they are", OfText("tokens: f4[,3]"), RandomUnits(12, 40)});
  cases.push_back({"rows", OfText("rows: u1[3] i8"), Strings(40, "abcdefghijk")});
  for (const double oddness : {0.0, 0.4}) {
    const std::string odd = " " + std::to_string(oddness);
    const ParserPtr example = OfText("example: s=u1[]? x=f4[]? ids=i8[]? id=i8?0");
    const ParserPtr fixed = OfText("example: id=i8?0 s=u1[3]?abc");
    const ParserPtr narrow = OfText("example: ids=i4[]?");
    const ParserPtr sequence = OfText("sequence: id=i8?0 | steps=i8[]?");
    cases.push_back({"example" + odd, example, OddExamples(oddness, 40)});
    cases.push_back({"fixed example" + odd, fixed, OddExamples(oddness, 40)});
    cases.push_back({"narrow example" + odd, narrow, OddExamples(oddness, 40)});
    cases.push_back({"sequence" + odd, sequence, OddExamples(oddness, 40)});
    cases.push_back({"nested example" + odd, OfText("example: s=u1[,]? x=f4[]? id=i8?0 ids=i8[]?"),
                     OddExamples(oddness, 40)});
    cases.push_back({"nested sequence" + odd, OfText("sequence: id=i8?0 | steps=i8[,]?"),
                     OddExamples(oddness, 40)});
    cases.push_back(
        {"truncated" + odd, MakeTruncateParser(example, "ids", 3), OddExamples(oddness, 40)});
    cases.push_back({"truncated sequence" + odd, MakeTruncateParser(sequence, "steps", 1),
                     OddExamples(oddness, 40)});
    cases.push_back({"padded" + odd,
                     MakePadParser(MakeTruncateParser(example, "ids", 5), "ids", {.length = 5}),
                     OddExamples(oddness, 40)});
    cases.push_back({"padded to a multiple" + odd, MakePadParser(example, "ids", {.multiple = 4}),
                     OddExamples(oddness, 40)});
    cases.push_back({"packed" + odd,
                     MakePackParser(OfText("example: ids=i8[]?"), {.field = "ids", .length = 16}),
                     OddExamples(oddness, 40)});
    cases.push_back(
        {"ofrecord" + odd, OfText("ofrecord: n=i8[]? d=f8[]? e=u1[]?"), OddOfRecords(oddness)});
    cases.push_back({"ofrecord, cut or filled" + odd, OfText("ofrecord: n=i4[3]~?0 d=f4[2]~?0"),
                     OddOfRecords(oddness)});
  }
  Strings lines;
  Strings rows;
  for (std::size_t i = 0; i < 40; ++i) {
    std::string numbers;
    for (std::size_t n = 0; n < i % 9; ++n) numbers += (n > 0 ? "," : "") + std::to_string(n * i);
    lines.push_back("{\"v\": [" + numbers + "], \"text\": \"" + std::string(i % 5, 'x') + "\\n\"}");
    rows.push_back(std::to_string(i) + ",\"" + std::string(i % 5, 'x') + "\"\"y\",plain");
  }
  cases.push_back({"json", OfText("jsonl: text=u1[] v=f8[]"), lines});
  cases.push_back({"csv", OfText("csv: id=i8 note=u1[] more=u1[]"), rows});
  cases.push_back({"fixed csv", OfText("csv: -columns=any id=i8"), rows});
  cases.push_back({"lod", Lods(), LodRecords()});
  cases.push_back({"map", Twice(RawParser()), RandomUnits(1, 40)});
  return cases;
}

/// A column between guards of its own.
class Column {
 public:
  Column(std::size_t bytes, bool ragged, std::size_t rows)
      : bytes_(kGuard + bytes + kGuard, kMark), offsets_(ragged ? rows + 1 : 0) {}

  ColumnTarget target() {
    return {bytes_.data() + kGuard, offsets_.empty() ? nullptr : offsets_.data()};
  }
  bool guarded() const {
    static const std::vector<std::byte> marked(kGuard, kMark);
    return std::memcmp(bytes_.data(), marked.data(), kGuard) == 0 &&
           std::memcmp(bytes_.data() + bytes_.size() - kGuard, marked.data(), kGuard) == 0;
  }
  const std::vector<std::int64_t>& offsets() const { return offsets_; }
  const std::byte* data() const { return bytes_.data() + kGuard; }
  std::string Slice(std::size_t begin, std::size_t bytes) const {
    return {reinterpret_cast<const char*>(data()) + begin, bytes};
  }

 private:
  static constexpr std::ptrdiff_t kGuard = 4096;
  static constexpr std::byte kMark{0xa5};
  std::vector<std::byte> bytes_;
  std::vector<std::int64_t> offsets_;
};

/// What Write made of rows that Locate had seen.
struct Written {
  std::vector<Column> columns;
  std::vector<RowFailure> failures;

  bool Failed(std::size_t row) const {
    return std::any_of(failures.begin(), failures.end(),
                       [&](const RowFailure& failure) { return failure.row == row; });
  }
};

/// Records that are located as they are and written as they have become.
class ChangedRows {
 public:
  ChangedRows(const Parser& parser, const Strings& records)
      : parser_(parser), scratch_(parser.NewScratch()) {
    std::vector<RowFailure> failures;
    for (const std::string& record : records) {
      auto memory = std::make_unique<std::byte[]>(record.size());
      std::memcpy(memory.get(), record.data(), record.size());
      const RecordSpan row{memory.get(), record.size()};
      std::vector<FieldLocation> at(fields());
      failures.clear();
      if (parser.two_phase()) parser.Locate({&row, 1}, at.data(), scratch_.get(), &failures);
      if (!failures.empty()) continue;
      storage_.push_back(parser.TakeStorage(scratch_.get()));
      locations_.insert(locations_.end(), at.begin(), at.end());
      memory_.push_back(std::move(memory));
      rows_.push_back(row);
    }
  }

  std::size_t rows() const { return rows_.size(); }
  std::span<std::byte> record(std::size_t row) { return {memory_[row].get(), rows_[row].size}; }
  Written Write() {
    Written written;
    std::vector<ColumnTarget> targets;
    for (std::size_t f = 0; f < fields(); ++f) {
      const FieldSpec& field = parser_.fields()[f];
      std::size_t units = 0;
      for (std::size_t r = 0; r < rows(); ++r) {
        units += field.ragged() ? locations_[r * fields() + f].units : 1;
      }
      written.columns.emplace_back(units * field.unit_bytes(), field.ragged(), rows());
    }
    for (Column& column : written.columns) targets.push_back(column.target());
    parser_.Write(rows_, parser_.two_phase() ? locations_.data() : nullptr, targets, scratch_.get(),
                  &written.failures);
    return written;
  }
  /// The place of a row in a column holds what it held before another row changed.
  void ExpectSame(const Written& before, const Written& after, std::size_t row) const {
    for (std::size_t f = 0; f < fields(); ++f) {
      const FieldSpec& field = parser_.fields()[f];
      const auto slice = [&](const Column& column) {
        if (!field.ragged()) return column.Slice(row * field.unit_bytes(), field.unit_bytes());
        const auto begin = static_cast<std::size_t>(column.offsets()[row]);
        const auto end = static_cast<std::size_t>(column.offsets()[row + 1]);
        return column.Slice(begin * field.unit_bytes(), (end - begin) * field.unit_bytes());
      };
      ASSERT_EQ(slice(after.columns[f]), slice(before.columns[f])) << field.name;
    }
  }
  /// A level of LoD that is delivered ascends to the rows of what is behind it.
  void ExpectLevels(const Written& written, std::size_t row) const {
    for (std::size_t f = 0; f < fields(); ++f) {
      if (parser_.role(f) != FieldRole::kLodLevel) continue;
      const auto* ends = reinterpret_cast<const std::int64_t*>(written.columns[f].data());
      const std::vector<std::int64_t>& own = written.columns[f].offsets();
      const std::vector<std::int64_t>& next = written.columns[f + 1].offsets();
      std::int64_t before = next[row];
      for (std::int64_t i = own[row]; i < own[row + 1]; ++i) {
        ASSERT_GE(ends[i], before);
        before = ends[i];
      }
      ASSERT_EQ(before, next[row + 1]);
    }
  }

 private:
  std::size_t fields() const { return parser_.fields().size(); }

  const Parser& parser_;
  std::unique_ptr<Parser::Scratch> scratch_;
  std::vector<std::shared_ptr<const void>> storage_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<RecordSpan> rows_;
  std::vector<FieldLocation> locations_;
};

/// Ways in which a record's bytes change where they stand.
using Change = std::function<void(std::span<std::byte>, std::mt19937_64*)>;
std::vector<std::pair<std::string, Change>> Changes() {
  using Span = std::span<std::byte>;
  using Random = std::mt19937_64;
  const auto noise = [](Span record, Random* random) {
    for (std::byte& each : record) each = static_cast<std::byte>((*random)());
  };
  const auto fill = [](std::byte value) {
    return [value](Span record, Random*) { std::fill(record.begin(), record.end(), value); };
  };
  const auto one_byte = [](Span record, Random* random) {
    if (!record.empty()) record[(*random)() % record.size()] = static_cast<std::byte>((*random)());
  };
  // Numbers that were of two bytes are of one, and the other way round.
  const auto high_bits = [](Span record, Random* random) {
    for (std::byte& each : record) {
      if ((*random)() % 4 == 0) each ^= std::byte{0x80};
    }
  };
  const auto cut = [](Span record, Random* random) {
    if (record.empty()) return;
    std::fill(record.begin() + static_cast<std::ptrdiff_t>((*random)() % record.size()),
              record.end(), std::byte{});
  };
  return {{"one byte", one_byte},
          {"noise", noise},
          {"zeros", fill(std::byte{})},
          {"ones", fill(std::byte{1})},
          {"quotes", fill(std::byte{'"'})},
          {"high bits", high_bits},
          {"a cut", cut}};
}

TEST(ChangedRowsTest, RowsThatChangeBetweenThePhasesTouchNothingBesideTheirPlaces) {
  std::mt19937_64 random(11);
  for (const Case& each : Cases()) {
    ASSERT_NE(each.parser, nullptr) << each.name;
    ChangedRows rows(*each.parser, each.records);
    ASSERT_GT(rows.rows(), 10u) << each.name;
    const Written before = rows.Write();
    ASSERT_TRUE(!each.parser->two_phase() || before.failures.empty()) << each.name;
    for (const auto& [how, change] : Changes()) {
      for (std::size_t row = 0; row < rows.rows(); ++row) {
        SCOPED_TRACE(each.name + ", " + how + " in row " + std::to_string(row));
        const std::span<std::byte> record = rows.record(row);
        const std::vector<std::byte> original(record.begin(), record.end());
        change(record, &random);
        const Written after = rows.Write();
        std::copy(original.begin(), original.end(), record.begin());
        for (std::size_t f = 0; f < after.columns.size(); ++f) {
          ASSERT_TRUE(after.columns[f].guarded()) << each.parser->fields()[f].name;
          ASSERT_EQ(after.columns[f].offsets(), before.columns[f].offsets());
        }
        for (std::size_t other = 0; other < rows.rows(); ++other) {
          if (other == row) continue;
          ASSERT_EQ(after.Failed(other), before.Failed(other)) << other;
          ASSERT_NO_FATAL_FAILURE(rows.ExpectSame(before, after, other)) << other;
        }
        if (after.Failed(row)) continue;
        ASSERT_NO_FATAL_FAILURE(rows.ExpectLevels(after, row));
      }
    }
  }
}

TEST(ChangedRowsTest, ARowWhoseNumbersAreFewerThanLocatedFails) {
  // One value of bytes that grow and shrink with the numbers' own lengths.
  const ParserPtr parser = OfText("example: t=i8[]");
  ExampleBuilder builder;
  builder.AddInts("t", std::vector<std::int64_t>(1000, 300));
  const std::span<const std::byte> record = builder.Finish();
  const std::string text(reinterpret_cast<const char*>(record.data()), record.size());
  ChangedRows rows(*parser, Strings(3, text));
  for (std::byte& each : rows.record(1).last(1000)) each &= std::byte{0x7f};
  const Written written = rows.Write();
  EXPECT_TRUE(written.Failed(1));
  EXPECT_FALSE(written.Failed(0));
  EXPECT_FALSE(written.Failed(2));
  EXPECT_TRUE(written.columns[0].guarded());
}

}  // namespace
}  // namespace ringfeed
