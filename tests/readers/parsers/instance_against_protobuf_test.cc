#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "ringfeed/formats.h"
#include "ringfeed/instance.pb.h"
#include "ringfeed/parsers.h"
#include "tests/readers/parsers/lod_records.h"
#include "tests/readers/parsers/parse_rows.h"

namespace ringfeed {
namespace {

using Strings = std::vector<std::string>;
using Random = std::mt19937_64;

// Those of RandomRecord.
const std::vector<SlotSpec>& Slots() {
  static const std::vector<SlotSpec> slots = {{"image", kFloat32, {-1, 2, 3}},
                                              {"words", kInt64, {-1, 1}, 1},
                                              {"nested", kInt16, {-1}, 2},
                                              {"label", kUInt8, {2}}};
  return slots;
}

template <typename T>
std::string Le(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

proto::Instance MessageOf(const LoDRecord& record) {
  proto::Instance message;
  for (std::size_t i = 0; i < record.size(); ++i) {
    proto::Field* field = message.add_field();
    proto::Description* description = field->mutable_description();
    description->set_name(Slots()[i].name);
    description->set_dtype(static_cast<proto::Description::Type>(PaddleTypeOf(record[i].dtype)));
    for (const std::int64_t dim : record[i].shape) description->add_dims(dim);
    description->set_lod_level(static_cast<std::uint32_t>(record[i].lod.size()));
    field->set_value(record[i].bytes);
    for (const auto& level : record[i].lod) field->add_lod(Le(level));
  }
  return message;
}

// Adds some unknown fields of any wire type.
void AddUnknown(google::protobuf::Message* message, Random* random) {
  google::protobuf::UnknownFieldSet* set = message->GetReflection()->MutableUnknownFields(message);
  for (std::uint64_t n = (*random)() % 3; n > 0; --n) {
    const int number = 5 + static_cast<int>((*random)() % 1000);
    switch ((*random)() % 5) {
      case 0:
        set->AddVarint(number, (*random)());
        break;
      case 1:
        set->AddFixed32(number, 7);
        break;
      case 2:
        set->AddFixed64(number, 7);
        break;
      case 3:
        set->AddLengthDelimited(number, "unknown");
        break;
      default:
        set->AddGroup(number)->AddGroup(1)->AddVarint(2, 3);
    }
  }
}

// What a message has, in one part for each of its values, so that Protobuf merges them.
Strings PartsOf(const proto::Description& description) {
  Strings parts;
  proto::Description part;
  part.set_name(description.name());
  parts.push_back(part.SerializeAsString());
  part.Clear();
  part.set_dtype(description.dtype());
  part.set_lod_level(description.lod_level());
  parts.push_back(part.SerializeAsString());
  // Packed, in pieces, and as single numbers.
  for (int i = 0; i < description.dims_size(); ++i) {
    part.Clear();
    part.add_dims(description.dims(i));
    std::string bytes = part.SerializeAsString();
    if (i % 2 == 0) bytes = "\x18" + bytes.substr(2);
    parts.push_back(bytes);
  }
  return parts;
}

// `bytes` of field `number`, at most 127.
std::string Delimited(int number, const std::string& bytes) {
  EXPECT_LT(bytes.size(), 128U);
  return std::string() + static_cast<char>(number << 3 | 2) + static_cast<char>(bytes.size()) +
         bytes;
}

std::string InParts(const proto::Field& field, Random* random) {
  Strings parts;
  for (const std::string& part : PartsOf(field.description())) parts.push_back(Delimited(1, part));
  proto::Field rest;
  for (const std::string& level : field.lod()) {
    rest.Clear();
    rest.add_lod(level);
    parts.push_back(rest.SerializeAsString());
  }
  rest.Clear();
  rest.set_value("not the last value");
  const std::string overwritten = rest.SerializeAsString();
  rest.set_value(field.value());
  // Anywhere among the others, whose order stands.
  const auto at = static_cast<std::ptrdiff_t>((*random)() % (parts.size() + 1));
  parts.insert(parts.begin() + at, overwritten + std::string("\x12\0", 2) +
                                       (field.value().empty() ? "" : rest.SerializeAsString()));
  std::string bytes;
  for (const std::string& part : parts) bytes += part;
  return bytes;
}

// How the field of a slot is read, where CheckInstance takes it: each level's ends, the values.
std::optional<Strings> ColumnsOf(const SlotSpec& slot, const proto::Field& field) {
  const proto::Description& description = field.description();
  if (!description.has_dtype() || field.lod_size() != static_cast<int>(description.lod_level()) ||
      description.dtype() != static_cast<int>(PaddleTypeOf(slot.dtype))) {
    return std::nullopt;
  }
  std::vector<std::vector<std::int64_t>> levels;
  Strings columns;
  for (const std::string& level : field.lod()) {
    if (level.empty() || level.size() % 8 != 0) return std::nullopt;
    std::memcpy(levels.emplace_back(level.size() / 8).data(), level.data(), level.size());
    columns.push_back(level.substr(8));
  }
  columns.push_back(field.value());
  Tensor tensor;
  tensor.dtype = slot.dtype;
  tensor.shape.assign(description.dims().begin(), description.dims().end());
  // CheckInstance multiplies them.
  for (const std::int64_t dim : tensor.shape) {
    if (dim > 1 << 20) return std::nullopt;
  }
  tensor.data = reinterpret_cast<const std::byte*>(field.value().data());
  tensor.bytes = field.value().size();
  tensor.lod.assign(levels.begin(), levels.end());
  if (!CheckInstance(std::span(&slot, 1), {tensor}).ok()) return std::nullopt;
  return columns;
}

std::optional<Strings> Expected(const proto::Instance& message) {
  Strings all;
  for (const SlotSpec& slot : Slots()) {
    const proto::Field* found = nullptr;
    for (const proto::Field& field : message.field()) {
      if (field.description().name() != slot.name) continue;
      if (found != nullptr) return std::nullopt;
      found = &field;
    }
    const std::optional<Strings> columns =
        found == nullptr ? std::nullopt : ColumnsOf(slot, *found);
    if (!columns) return std::nullopt;
    all.insert(all.end(), columns->begin(), columns->end());
  }
  return all;
}

class InstanceAgainstProtobufTest : public testing::Test {
 protected:
  // 1 where both take it, 0 where the record is not as declared, -1 where Protobuf refuses it.
  int Compare(const std::string& record) {
    proto::Instance message;
    if (!message.ParseFromString(record)) return -1;
    const std::optional<Strings> expected = Expected(message);
    const ParsedRows parsed = runner_.Run({record});
    EXPECT_EQ(parsed.failures.empty(), expected.has_value())
        << (expected ? parsed.failures.at(0).ToString() : "accepted " + message.DebugString());
    if (!expected || !parsed.failures.empty()) return 0;
    for (std::size_t column = 0; column < expected->size(); ++column) {
      EXPECT_EQ(parsed.values[column][0], (*expected)[column]) << column;
    }
    return 1;
  }

  const google::protobuf::LogSilencer silence_;  // about names that are not UTF-8
  RowsRunner runner_{InstanceProtoParser(Slots())};
  Random random_{17};
};

TEST_F(InstanceAgainstProtobufTest, RecordsOfItsEncoderAreRead) {
  for (std::uint16_t i = 0; i < 300; ++i) {
    proto::Instance message = MessageOf(RandomRecord(i, &random_));
    std::shuffle(message.mutable_field()->begin(), message.mutable_field()->end(), random_);
    ASSERT_EQ(Compare(message.SerializeAsString()), 1);
    AddUnknown(&message, &random_);
    for (proto::Field& field : *message.mutable_field()) {
      AddUnknown(&field, &random_);
      AddUnknown(field.mutable_description(), &random_);
    }
    message.add_field()->mutable_description()->set_name("nobody asks for it");
    *message.add_field() = message.field(4);
    message.add_field();
    ASSERT_EQ(Compare(message.SerializeAsString()), 1);
  }
}

TEST_F(InstanceAgainstProtobufTest, PartsAreMerged) {
  for (std::uint16_t i = 0; i < 300; ++i) {
    std::string record;
    const proto::Instance message = MessageOf(RandomRecord(i, &random_));
    for (const proto::Field& field : message.field()) {
      proto::Instance one;
      const std::string bytes = InParts(field, &random_);
      ASSERT_TRUE(one.add_field()->ParseFromString(bytes));
      ASSERT_EQ(one.field(0).SerializeAsString(), field.SerializeAsString());
      record += std::string("\x0a") + static_cast<char>(bytes.size() | 0x80) +
                static_cast<char>(bytes.size() >> 7) + bytes;
    }
    ASSERT_EQ(Compare(record), 1);
  }
}

TEST_F(InstanceAgainstProtobufTest, DamagedRecordsAgreeWhereProtobufTakesThem) {
  std::array<int, 3> seen{};
  for (std::uint16_t i = 0; i < 12; ++i) {
    proto::Instance message = MessageOf(RandomRecord(i, &random_));
    if (i % 2 == 0) AddUnknown(message.mutable_field(1), &random_);
    for (const std::string& damaged : CutAndFlipped(message.SerializeAsString())) {
      ++seen.at(static_cast<std::size_t>(1 + Compare(damaged)));
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 1000);
}

TEST_F(InstanceAgainstProtobufTest, TheBuildersBytesAreProtobufs) {
  InstanceBuilder builder;
  for (std::uint16_t i = 0; i < 100; ++i) {
    const LoDRecord record = RandomRecord(i, &random_);
    for (std::size_t t = 0; t < record.size(); ++t) {
      builder.Add(Slots()[t].name, record[t].dtype, record[t].shape,
                  std::as_bytes(std::span(record[t].bytes)), record[t].lod);
    }
    const auto bytes = builder.Finish();
    ASSERT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
              MessageOf(record).SerializeAsString());
  }
}

}  // namespace
}  // namespace ringfeed
