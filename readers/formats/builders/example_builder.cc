#include <string>

#include "readers/formats/builders/wire_writer.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

// Wire format: https://protobuf.dev/programming-guides/encoding. In example.proto every field that
// is needed here is length-delimited and has number 1, but for the kinds of a feature (1 to 3) and
// the value of a map's entry (2).
constexpr unsigned kFirst = 1;
constexpr unsigned kMapValue = 2;
constexpr unsigned kBytesKind = 1;
constexpr unsigned kFloatKind = 2;
constexpr unsigned kInt64Kind = 3;

}  // namespace

void ExampleBuilder::AddFeature(std::string_view name, unsigned kind,
                                std::span<const std::byte> values) {
  if (finished_) features_.clear();
  finished_ = false;
  // An empty list keeps its kind, but has no packed run.
  const bool has_run = !values.empty() || kind == kBytesKind;
  const std::size_t list = has_run ? DelimitedFieldBytes(values.size()) : 0;
  const std::size_t feature = DelimitedFieldBytes(list);
  AppendDelimitedHead(kFirst, DelimitedFieldBytes(name.size()) + DelimitedFieldBytes(feature),
                      &features_);
  AppendDelimitedHead(kFirst, name.size(), &features_);
  const auto name_bytes = std::as_bytes(std::span(name));
  features_.insert(features_.end(), name_bytes.begin(), name_bytes.end());
  AppendDelimitedHead(kMapValue, feature, &features_);
  AppendDelimitedHead(kind, list, &features_);
  if (!has_run) return;
  AppendDelimitedHead(kFirst, values.size(), &features_);
  features_.insert(features_.end(), values.begin(), values.end());
}

ExampleBuilder& ExampleBuilder::AddBytes(std::string_view name, std::span<const std::byte> value) {
  AddFeature(name, kBytesKind, value);
  return *this;
}

ExampleBuilder& ExampleBuilder::AddBytes(std::string_view name, std::string_view value) {
  return AddBytes(name, std::as_bytes(std::span(value)));
}

ExampleBuilder& ExampleBuilder::AddFloats(std::string_view name, std::span<const float> values) {
  AddFeature(name, kFloatKind, std::as_bytes(values));
  return *this;
}

ExampleBuilder& ExampleBuilder::AddInts(std::string_view name,
                                        std::span<const std::int64_t> values) {
  values_.clear();
  for (const std::int64_t value : values) {
    AppendVarint(static_cast<std::uint64_t>(value), &values_);
  }
  AddFeature(name, kInt64Kind, values_);
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

}  // namespace ringfeed
