#include "readers/parsers/example/feature_scanner.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/little_endian.h"
#include "readers/formats/builders/wire_format.h"

namespace ringfeed {
namespace {

constexpr std::byte kFirst{WireTag(1, WireType::kDelimited)};
constexpr std::byte kSecond{WireTag(2, WireType::kDelimited)};

std::vector<std::string> KeysOf(std::span<const FeatureField> fields) {
  std::vector<std::string> keys;
  for (const FeatureField& field : fields) keys.push_back(field.name);
  return keys;
}

}  // namespace

FeatureScanner::FeatureScanner(const FeatureDialect& dialect, Map map,
                               std::span<const FeatureField> fields)
    : dialect_(dialect),
      map_(map),
      map_field_(map == Map::kLists ? dialect.lists_field : dialect.map_field),
      field_count_(fields.size()),
      index_(KeysOf(fields)) {
  if (map == Map::kLists) return;
  for (const FeatureField& field : fields) {
    const auto kind = std::find(dialect.kinds.begin(), dialect.kinds.end(), field.kind);
    const auto number = static_cast<std::uint32_t>(kind - dialect.kinds.begin());
    templates_.emplace_back(field.name, number, static_cast<std::uint32_t>(field.kind));
  }
}

// The usual form of a map's entry: key, then value, each once and nothing else.
bool FeatureScanner::ReadUsualEntry(std::span<const std::byte> entry,
                                    std::span<const std::byte>* key,
                                    FieldLocation* location) const {
  UsualReader reader(entry);
  std::span<const std::byte> value;
  if (!reader.Enter(kFirst, key) || !reader.Enter(kSecond, &value) || !reader.done()) return false;
  if (map_ == Map::kFeatures) return LocateUsualFeature(dialect_, value, location);
  *location = {value.data(), static_cast<std::uint32_t>(value.size()), 0, kFormSteps};
  return true;
}

bool FeatureScanner::ScanEntry(std::span<const std::byte> entry, FieldLocation* locations,
                               KeyOrder* order, std::size_t ordinal) const {
  std::span<const std::byte> key;
  FieldLocation found;
  if (!ReadUsualEntry(entry, &key, &found)) {
    if (!ReadFeatureKey(entry, &key)) return false;
    found = {entry.data(), static_cast<std::uint32_t>(entry.size()), 0, kFormEntry};
  }
  const std::uint32_t field = order->Find(index_, ordinal, key);
  if (field != FeatureIndex::kNone) locations[field] = found;
  return true;
}

// The field whose key stands where a usual entry has it, if it is another than the expected one.
std::uint32_t FeatureScanner::FindUsual(std::span<const std::byte> bytes,
                                        std::uint32_t expected) const {
  constexpr std::size_t kBeforeKey = 4;
  constexpr std::byte kLonger{0x80};  // the length of the entry does not end here
  if (bytes.size() < kBeforeKey || (bytes[1] & kLonger) != std::byte{}) return FeatureIndex::kNone;
  const auto key = Settled(std::to_integer<std::size_t>(bytes[3]));
  if (key > bytes.size() - kBeforeKey) return FeatureIndex::kNone;
  const std::uint32_t field = index_.Find(bytes.subspan(kBeforeKey, key));
  return field != expected ? field : FeatureIndex::kNone;
}

// Takes the entry that stands next where it is as usual: one of the fields, the one that is
// expected here or any other. Neither `map` nor what is found may have its address taken: where the
// next entry stands would go through memory.
inline bool FeatureScanner::ScanTemplate(UsualReader* map, FieldLocation* locations,
                                         KeyOrder* order, std::size_t ordinal) const {
  const std::span<const std::byte> rest = map->rest();
  FieldLocation found;
  std::uint32_t field = order->Expected(ordinal);
  if (field == FeatureIndex::kNone || !templates_[field].Match(rest, &found)) {
    field = FindUsual(rest, field);
    if (field == FeatureIndex::kNone || !templates_[field].Match(rest, &found)) return false;
    order->Remember(ordinal, field);
  }
  locations[field] = found;
  map->MoveTo(found.data + found.bytes);
  return true;
}

bool FeatureScanner::ScanMap(std::span<const std::byte> map, FieldLocation* locations,
                             KeyOrder* order, Progress* progress) const {
  UsualReader usual(map);
  std::span<const std::byte> entry;
  bool found = false;
  while (!usual.done()) {
    if (!templates_.empty() && ScanTemplate(&usual, locations, order, progress->ordinal)) {
      ++progress->ordinal;
      ++progress->templates;
      continue;
    }
    if (!NextField(&usual, 1, &found, &entry)) return false;
    if (found && !ScanEntry(entry, locations, order, progress->ordinal++)) return false;
  }
  return true;
}

bool FeatureScanner::ScanRecord(const RecordSpan& record, FieldLocation* locations,
                                Memory* memory) const {
  for (std::size_t i = 0; i < field_count_; ++i) locations[i] = {};
  if (record.size > std::numeric_limits<std::uint32_t>::max()) return false;
  Progress progress;
  const auto scan = [&](std::span<const std::byte> map) {
    return ScanMap(map, locations, &memory->order, &progress);
  };
  const bool is_one =
      map_field_ == 0 ? scan(record.bytes()) : ForEachDelimited(record.bytes(), map_field_, scan);
  // Only these entries depend on nothing but what stands around their runs.
  if (is_one && progress.templates == progress.ordinal) {
    memory->layout.Note(record, {locations, field_count_});
  }
  return is_one;
}

}  // namespace ringfeed
