#include "tools/inspect/example_peek.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ringfeed::tools {
namespace {

using Bytes = std::span<const std::byte>;

// One field of a serialised message.
struct WireField {
  std::uint64_t number = 0;
  unsigned type = 0;
  Bytes bytes;  // of a length-delimited one
};

// Walks the fields of a message; ok() turns false at the first thing that is no field.
class WireWalk {
 public:
  explicit WireWalk(Bytes message) : rest_(message) {}
  bool ok() const { return ok_; }

  bool Next(WireField* field) {
    if (rest_.empty() || !ok_) return false;
    const std::optional<std::uint64_t> tag = Varint();
    field->number = tag.value_or(0) >> 3;
    field->type = static_cast<unsigned>(tag.value_or(0) & 7);
    std::optional<std::uint64_t> length = 0;
    if (field->type == 0) {
      ok_ = tag && Varint();
    } else if (field->type == 2) {
      length = Varint();
    } else if (field->type == 1 || field->type == 5) {
      length = field->type == 1 ? 8 : 4;
    } else {
      ok_ = false;
    }
    ok_ = ok_ && tag && field->number > 0 && length && *length <= rest_.size();
    if (!ok_) return false;
    field->bytes = rest_.first(static_cast<std::size_t>(*length));
    rest_ = rest_.subspan(field->bytes.size());
    return true;
  }

  std::optional<std::uint64_t> Varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(rest_[0]);
      rest_ = rest_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  Bytes rest_;
  bool ok_ = true;
};

std::optional<std::size_t> CountPacked(Bytes packed, char kind) {
  if (kind == 'f') return packed.size() / 4;
  WireWalk walk(packed);
  std::size_t values = 0;
  for (; !walk.at_end(); ++values) {
    if (!walk.Varint()) return std::nullopt;
  }
  return values;
}

// The values of a BytesList, FloatList or Int64List.
std::optional<std::size_t> CountValues(Bytes list, char kind) {
  WireWalk walk(list);
  WireField field;
  std::size_t values = 0;
  while (walk.Next(&field)) {
    const bool packed = kind != 'b' && field.type == 2;
    const std::optional<std::size_t> more = packed ? CountPacked(field.bytes, kind) : 1;
    if (!more) return std::nullopt;
    values += *more;
  }
  return walk.ok() ? std::optional(values) : std::nullopt;
}

struct Entry {
  std::string name;
  char kind = 'b';
  std::size_t values = 0;
};

// A Feature: at most one list of one kind.
bool PeekFeature(Bytes feature, Entry* entry) {
  static constexpr std::string_view kKinds = "?bfi";
  WireWalk walk(feature);
  WireField field;
  while (walk.Next(&field)) {
    if (field.number >= kKinds.size() || field.type != 2) return false;
    entry->kind = kKinds[static_cast<std::size_t>(field.number)];
    const std::optional<std::size_t> values = CountValues(field.bytes, entry->kind);
    if (!values) return false;
    entry->values = *values;
  }
  return walk.ok();
}

bool PeekEntry(Bytes message, Entry* entry) {
  WireWalk walk(message);
  WireField field;
  while (walk.Next(&field)) {
    if (field.type != 2) return false;
    if (field.number == 1) {
      entry->name.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
    } else if (field.number != 2 || !PeekFeature(field.bytes, entry)) {
      return false;
    }
  }
  return walk.ok() && !entry->name.empty();
}

bool PeekRecord(Bytes record, std::map<std::string, PeekedFeature>* features) {
  WireWalk example(record);
  WireField outer;
  while (example.Next(&outer)) {
    if (outer.number != 1 || outer.type != 2) return false;
    WireWalk walk(outer.bytes);
    WireField field;
    while (walk.Next(&field)) {
      Entry entry;
      if (field.number != 1 || field.type != 2 || !PeekEntry(field.bytes, &entry)) return false;
      const auto [place, is_new] =
          features->try_emplace(entry.name, PeekedFeature{entry.kind, 0, entry.values, 0});
      PeekedFeature& peeked = place->second;
      peeked.records += 1;
      peeked.fewest_values = std::min(peeked.fewest_values, entry.values);
      peeked.most_values = std::max(peeked.most_values, entry.values);
    }
    if (!walk.ok()) return false;
  }
  return example.ok();
}

// A name that --parse takes without quotes.
bool IsPlain(const std::string& name) { return name.find_first_of(" =?[]:") == std::string::npos; }

}  // namespace

std::map<std::string, PeekedFeature> PeekExamples(std::span<const RecordSpan> records) {
  std::map<std::string, PeekedFeature> features;
  for (const RecordSpan& record : records) {
    if (!record.damaged() && !PeekRecord(record.bytes(), &features)) return {};
  }
  return features;
}

std::string SuggestParse(const std::map<std::string, PeekedFeature>& features,
                         std::size_t records) {
  std::string text;
  for (const auto& [name, feature] : features) {
    if (!IsPlain(name)) continue;
    const bool fixed = feature.fewest_values == feature.most_values && feature.records == records;
    const std::string shape = fixed ? "[" + std::to_string(feature.most_values) + "]" : "[]";
    if (feature.kind == 'b' && feature.most_values > 1) continue;
    text += " " + name + "=";
    text += feature.kind == 'b' ? "u1[]" : (feature.kind == 'f' ? "f4" : "i8") + shape;
    if (feature.records < records) text += "?";
  }
  return text.empty() ? text : "example:" + text;
}

}  // namespace ringfeed::tools
