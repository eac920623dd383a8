#include <array>

#include "readers/formats/builders/wire_format.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

// Wire format: https://protobuf.dev/programming-guides/encoding. In TensorFlow's example.proto and
// OneFlow's record.proto every field that is needed here is length-delimited and has number 1,
// except the kinds of a feature and the value of a map's entry (2).
constexpr unsigned kFirst = 1;
constexpr unsigned kMapValue = 2;

enum class ExampleKind : unsigned { kBytes = 1, kFloat = 2, kInt64 = 3 };
enum class OFRecordKind : unsigned { kBytes = 1, kFloat = 2, kDouble = 3, kInt32 = 4, kInt64 = 5 };

// An entry of the map from names to features; the feature's list has `values`, each delimited.
void AppendFeature(std::string_view name, unsigned kind, BytesValues values,
                   std::vector<std::byte>* out) {
  std::size_t list = 0;
  for (const auto value : values) list += DelimitedFieldBytes(value.size());
  const std::size_t feature = DelimitedFieldBytes(list);
  AppendDelimitedHead(kFirst, DelimitedFieldBytes(name.size()) + DelimitedFieldBytes(feature), out);
  AppendDelimitedHead(kFirst, name.size(), out);
  const auto name_bytes = std::as_bytes(std::span(name));
  out->insert(out->end(), name_bytes.begin(), name_bytes.end());
  AppendDelimitedHead(kMapValue, feature, out);
  AppendDelimitedHead(kind, list, out);
  for (const auto value : values) {
    AppendDelimitedHead(kFirst, value.size(), out);
    out->insert(out->end(), value.begin(), value.end());
  }
}

// The same of packed numbers. An empty list keeps its kind, but has no packed run.
void AppendPacked(std::string_view name, unsigned kind, std::span<const std::byte> run,
                  std::vector<std::byte>* out) {
  const std::array<std::span<const std::byte>, 1> runs = {run};
  AppendFeature(name, kind, BytesValues(runs).first(run.empty() ? 0 : 1), out);
}

// Negative numbers take ten bytes, those of 32 bits, too.
template <typename Integer>
std::span<const std::byte> PackVarints(std::span<const Integer> values,
                                       std::vector<std::byte>* packed) {
  packed->clear();
  for (const std::int64_t value : values) {
    AppendVarint(static_cast<std::uint64_t>(value), packed);
  }
  return *packed;
}

}  // namespace

std::vector<std::byte>* ExampleBuilder::Features() {
  if (finished_) features_.clear();
  finished_ = false;
  return &features_;
}

ExampleBuilder& ExampleBuilder::AddBytes(std::string_view name, std::span<const std::byte> value) {
  return AddBytesList(name, {&value, 1});
}

ExampleBuilder& ExampleBuilder::AddBytes(std::string_view name, std::string_view value) {
  return AddBytes(name, std::as_bytes(std::span(value)));
}

ExampleBuilder& ExampleBuilder::AddBytesList(std::string_view name, BytesValues values) {
  AppendFeature(name, static_cast<unsigned>(ExampleKind::kBytes), values, Features());
  return *this;
}

ExampleBuilder& ExampleBuilder::AddFloats(std::string_view name, std::span<const float> values) {
  AppendPacked(name, static_cast<unsigned>(ExampleKind::kFloat), std::as_bytes(values), Features());
  return *this;
}

ExampleBuilder& ExampleBuilder::AddInts(std::string_view name,
                                        std::span<const std::int64_t> values) {
  AppendPacked(name, static_cast<unsigned>(ExampleKind::kInt64), PackVarints(values, &values_),
               Features());
  return *this;
}

std::span<const std::byte> ExampleBuilder::Finish() {
  if (finished_) features_.clear();
  finished_ = true;
  record_.clear();
  AppendDelimitedHead(kFirst, features_.size(), &record_);
  record_.insert(record_.end(), features_.begin(), features_.end());
  return record_;
}

std::vector<std::byte>* OFRecordBuilder::Features() {
  if (finished_) record_.clear();
  finished_ = false;
  return &record_;
}

OFRecordBuilder& OFRecordBuilder::AddBytes(std::string_view name,
                                           std::span<const std::byte> value) {
  return AddBytesList(name, {&value, 1});
}

OFRecordBuilder& OFRecordBuilder::AddBytes(std::string_view name, std::string_view value) {
  return AddBytes(name, std::as_bytes(std::span(value)));
}

OFRecordBuilder& OFRecordBuilder::AddBytesList(std::string_view name, BytesValues values) {
  AppendFeature(name, static_cast<unsigned>(OFRecordKind::kBytes), values, Features());
  return *this;
}

OFRecordBuilder& OFRecordBuilder::AddFloats(std::string_view name, std::span<const float> values) {
  AppendPacked(name, static_cast<unsigned>(OFRecordKind::kFloat), std::as_bytes(values),
               Features());
  return *this;
}

OFRecordBuilder& OFRecordBuilder::AddDoubles(std::string_view name,
                                             std::span<const double> values) {
  AppendPacked(name, static_cast<unsigned>(OFRecordKind::kDouble), std::as_bytes(values),
               Features());
  return *this;
}

OFRecordBuilder& OFRecordBuilder::AddInt32s(std::string_view name,
                                            std::span<const std::int32_t> values) {
  AppendPacked(name, static_cast<unsigned>(OFRecordKind::kInt32), PackVarints(values, &values_),
               Features());
  return *this;
}

OFRecordBuilder& OFRecordBuilder::AddInts(std::string_view name,
                                          std::span<const std::int64_t> values) {
  AppendPacked(name, static_cast<unsigned>(OFRecordKind::kInt64), PackVarints(values, &values_),
               Features());
  return *this;
}

std::span<const std::byte> OFRecordBuilder::Finish() {
  if (finished_) record_.clear();
  finished_ = true;
  return record_;
}

}  // namespace ringfeed
