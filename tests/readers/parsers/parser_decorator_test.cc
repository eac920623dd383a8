#include "readers/parsers/parser_decorator.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

/// Answers each call with a value of its own, not the one of Parser, and notes it.
class NotingParser final : public Parser {
 public:
  struct Memory final : Scratch {
    std::vector<std::string> calls;
  };

  explicit NotingParser(bool has_lod) {
    AddField({"ends", DType::kInt64, {-1}});
    AddField({"ids", DType::kInt64, {-1}});
    if (has_lod) roles_ = {FieldRole::kLodLevel, FieldRole::kLodValues};
    gives_records_ = has_lod;
  }

  std::string name() const override { return "noting"; }
  std::string function_name() const override { return "its function"; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Memory>(); }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    Note(scratch, "Locate");
    locations[0].units = static_cast<std::uint32_t>(rows.size());
    failures->push_back({1, Status(StatusCode::kDamaged, "located")});
  }
  Status CheckElements(const FileElements& /*elements*/) const override {
    return Status(StatusCode::kInvalidArgument, "elements");
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override {
    return {.reason = why.message(), .message = std::to_string(record.size)};
  }
  std::string HintOfFirst(const RecordSpan& record,
                          std::span<const std::byte> before) const override {
    return std::to_string(record.size) + " after " + std::to_string(before.size());
  }
  bool Cut(std::size_t field, std::uint32_t units, FieldLocation* location) const override {
    location->units = units + static_cast<std::uint32_t>(field);
    return true;
  }
  bool CopiesBytesOf(std::size_t field) const override { return field == 1; }
  std::span<const std::byte> BytesOf(std::size_t field, const RecordSpan& record,
                                     const FieldLocation& location) const override {
    return record.bytes().subspan(field, location.bytes);
  }
  bool ReadsBytes() const override { return false; }
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    Note(scratch, "TakeStorage");
    return storage_;
  }
  std::uint32_t TakeTruncated(Scratch* scratch) const override {
    Note(scratch, "TakeTruncated");
    return 7;
  }
  std::size_t max_rows_per_write() const override { return 9; }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override {
    Note(scratch, "Write");
    targets[0].offsets[0] = static_cast<std::int64_t>(rows.size() + locations[0].units);
    failures->push_back({2, Status(StatusCode::kDamaged, "written")});
  }

  const std::shared_ptr<const void>& storage() const { return storage_; }

 private:
  static void Note(Scratch* scratch, std::string call) {
    dynamic_cast<Memory&>(*scratch).calls.push_back(std::move(call));
  }

  const std::shared_ptr<const void> storage_ = std::make_shared<const int>(1);
};

class PlainDecorator final : public ParserDecorator {
 public:
  explicit PlainDecorator(std::shared_ptr<const Parser> inner)
      : ParserDecorator(std::move(inner)) {}
};

class ParserDecoratorTest : public testing::Test {
 protected:
  const std::shared_ptr<const NotingParser> inner_ = std::make_shared<const NotingParser>(true);
  const PlainDecorator decorator_{inner_};
  const Parser& parser_ = decorator_;
  const std::array<std::byte, 8> bytes_{};
  const RecordSpan record_{bytes_.data(), bytes_.size()};
};

TEST_F(ParserDecoratorTest, HasTheFieldsOfTheInnerParser) {
  ASSERT_EQ(parser_.fields().size(), 2U);
  EXPECT_EQ(parser_.fields()[1].name, "ids");
  EXPECT_EQ(parser_.role(0), FieldRole::kLodLevel);
  EXPECT_EQ(parser_.role(1), FieldRole::kLodValues);
  EXPECT_TRUE(parser_.has_lod());
  EXPECT_TRUE(parser_.gives_records());
  EXPECT_TRUE(parser_.two_phase());
  const PlainDecorator without_lod(std::make_shared<const NotingParser>(false));
  EXPECT_FALSE(without_lod.has_lod());
}

TEST_F(ParserDecoratorTest, ForwardsWhatTellsOfTheParser) {
  EXPECT_EQ(parser_.name(), "noting");
  EXPECT_EQ(parser_.function_name(), "its function");
  EXPECT_EQ(parser_.max_rows_per_write(), 9U);
  EXPECT_FALSE(parser_.ReadsBytes());
  EXPECT_FALSE(parser_.CopiesBytesOf(0));
  EXPECT_TRUE(parser_.CopiesBytesOf(1));
}

TEST_F(ParserDecoratorTest, ForwardsWhatTellsOfARecord) {
  EXPECT_EQ(parser_.CheckElements({}).message(), "elements");
  const Refusal refusal = parser_.Explain(record_, Status(StatusCode::kDamaged, "why"));
  EXPECT_EQ(refusal.reason, "why");
  EXPECT_EQ(refusal.message, "8");
  EXPECT_EQ(parser_.HintOfFirst(record_, std::span(bytes_).first(3)), "8 after 3");
  FieldLocation location;
  EXPECT_TRUE(parser_.Cut(1, 4, &location));
  EXPECT_EQ(location.units, 5U);
  location.bytes = 2;
  const std::span<const std::byte> found = parser_.BytesOf(1, record_, location);
  EXPECT_EQ(found.data(), bytes_.data() + 1);
  EXPECT_EQ(found.size(), 2U);
}

TEST_F(ParserDecoratorTest, ForwardsTheWorkWithTheInnerParsersMemory) {
  const std::unique_ptr<Parser::Scratch> scratch = parser_.NewScratch();
  std::array<FieldLocation, 2> locations;
  std::vector<RowFailure> failures;
  parser_.Locate({&record_, 1}, locations.data(), scratch.get(), &failures);
  EXPECT_EQ(locations[0].units, 1U);
  EXPECT_EQ(parser_.TakeStorage(scratch.get()), inner_->storage());
  EXPECT_EQ(parser_.TakeTruncated(scratch.get()), 7U);
  std::array<std::int64_t, 2> offsets{};
  const std::array<ColumnTarget, 2> targets{{{nullptr, offsets.data()}, {}}};
  parser_.Write({&record_, 1}, locations.data(), targets, scratch.get(), &failures);
  EXPECT_EQ(offsets[0], 2);
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0].status.message(), "located");
  EXPECT_EQ(failures[1].status.message(), "written");
  const auto& memory = dynamic_cast<const NotingParser::Memory&>(
      *dynamic_cast<const DecoratorScratch&>(*scratch).inner);
  EXPECT_EQ(memory.calls,
            (std::vector<std::string>{"Locate", "TakeStorage", "TakeTruncated", "Write"}));
}

/// Has two fixed fields, which one location of a row tells: the number of the row's first byte.
class RowLocatingParser final : public Parser {
 public:
  RowLocatingParser() {
    AddField({"a", DType::kUInt8, {}});
    AddField({"b", DType::kUInt8, {}});
    two_phase_ = locates_rows_ = true;
  }

  std::string name() const override { return "row locating"; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Scratch>(); }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* /*scratch*/,
              std::vector<RowFailure>* /*failures*/) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) locations[row] = {rows[row].data, 2};
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* /*scratch*/,
             std::vector<RowFailure>* /*failures*/) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      targets[0].data[row] = locations[row].data[0];
      targets[1].data[row] = locations[row].data[1];
    }
  }
};

TEST(RowLocationsTest, ADecoratorWithAFieldMoreHasTheInnerParsersLocationOfARow) {
  const auto parser =
      FolderLabelParser(std::make_shared<const RowLocatingParser>(), {"cats"}, "label");
  ASSERT_EQ(parser->fields().size(), 3U);
  EXPECT_EQ(parser->row_locations(), 1U);
  const std::array<std::byte, 6> bytes = {std::byte{1}, std::byte{2}, std::byte{3},
                                          std::byte{4}, std::byte{5}, std::byte{6}};
  const std::array<RecordSpan, 3> rows = {
      {{bytes.data(), 2}, {bytes.data() + 2, 2}, {bytes.data() + 4, 2}}};
  const auto scratch = parser->NewScratch();
  std::array<FieldLocation, 3> locations;
  std::vector<RowFailure> failures;
  parser->Locate(rows, locations.data(), scratch.get(), &failures);
  std::array<std::byte, 3> a{};
  std::array<std::byte, 3> b{};
  std::array<std::int64_t, 3> label{};
  const std::array<ColumnTarget, 3> targets = {
      {{a.data()}, {b.data()}, {reinterpret_cast<std::byte*>(label.data())}}};
  parser->Write(rows, locations.data(), targets, scratch.get(), &failures);
  EXPECT_EQ(a, (std::array{std::byte{1}, std::byte{3}, std::byte{5}}));
  EXPECT_EQ(b, (std::array{std::byte{2}, std::byte{4}, std::byte{6}}));
}

}  // namespace
}  // namespace ringfeed
