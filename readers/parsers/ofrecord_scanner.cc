#include "readers/parsers/ofrecord_scanner.h"

#include <limits>

#include "readers/parsers/example_values.h"
#include "readers/parsers/wire_reader.h"

namespace ringfeed {
namespace {

constexpr std::byte kFirst{WireTag(1, WireType::kDelimited)};
constexpr std::byte kSecond{WireTag(2, WireType::kDelimited)};
// Orders of more keys than any real record has are not worth remembering.
constexpr std::size_t kMostOrdered = 4096;

// What is left of a message in which every length has at most four bytes, as all writers write
// them; anything else is WireReader's.
class UsualReader {
 public:
  explicit UsualReader(std::span<const std::byte> message)
      : at_(message.data()), end_(message.data() + message.size()) {}

  bool done() const { return at_ == end_; }
  const std::byte* at() const { return at_; }
  std::byte tag() const { return *at_; }

  /// What the tag of one byte that stands next is the length of. False, and nothing is read, where
  /// it is not here whole.
  bool Enter(std::span<const std::byte>* bytes) {
    const std::byte* p = at_ + 1;
    std::size_t length = 0;
    for (unsigned shift = 0; shift < 28 && p < end_; shift += 7) {
      const auto byte = std::to_integer<std::size_t>(*p++);
      length |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      if (length > static_cast<std::size_t>(end_ - p)) return false;
      *bytes = {p, length};
      at_ = p + length;
      return true;
    }
    return false;
  }
  bool Enter(std::byte tag, std::span<const std::byte>* bytes) {
    return !done() && this->tag() == tag && Enter(bytes);
  }

 private:
  const std::byte* at_;
  const std::byte* end_;
};

// Of a feature: one list, the list one run. An empty list of bytes is left to the slow way.
bool ReadUsualFeature(std::span<const std::byte> feature, FieldLocation* location) {
  UsualReader reader(feature);
  if (reader.done()) {
    *location = {feature.data(), 0, 0, kOFRecordMissing};
    return true;
  }
  const auto tag = std::to_integer<std::uint32_t>(reader.tag());
  const std::uint32_t kind = tag >> 3;
  std::span<const std::byte> list;
  if (kind - 1 >= 5 || tag != WireTag(kind, WireType::kDelimited)) return false;
  if (!reader.Enter(&list) || !reader.done()) return false;
  std::span<const std::byte> run = list;
  if (!list.empty() || kind == static_cast<std::uint32_t>(OFRecordKind::kBytes)) {
    UsualReader inside(list);
    if (!inside.Enter(kFirst, &run) || !inside.done()) return false;
  }
  *location = {run.data(), static_cast<std::uint32_t>(run.size()), 0, kind};
  return true;
}

// The usual form of a map's entry: key, then value, each once and nothing else.
bool ReadUsualEntry(std::span<const std::byte> entry, std::span<const std::byte>* key,
                    FieldLocation* location) {
  UsualReader reader(entry);
  std::span<const std::byte> feature;
  if (!reader.Enter(kFirst, key) || !reader.Enter(kSecond, &feature)) return false;
  return reader.done() && ReadUsualFeature(feature, location);
}

// What entry `ordinal` was in the record before.
std::uint32_t Expected(const OFRecordScanner::KeyOrder& order, std::size_t ordinal) {
  return ordinal < order.size() ? order[ordinal] : FeatureIndex::kNone;
}

void Remember(std::size_t ordinal, std::uint32_t field, OFRecordScanner::KeyOrder* order) {
  if (ordinal >= kMostOrdered) return;
  if (ordinal >= order->size()) order->resize(ordinal + 1, FeatureIndex::kNone);
  (*order)[ordinal] = field;
}

std::vector<std::string> KeysOf(const std::vector<OFRecordField>& fields) {
  std::vector<std::string> keys;
  for (const OFRecordField& field : fields) keys.push_back(field.name);
  return keys;
}

}  // namespace

OFRecordScanner::OFRecordScanner(const std::vector<OFRecordField>& fields)
    : field_count_(fields.size()), index_(KeysOf(fields)) {}

bool OFRecordScanner::ScanEntry(std::span<const std::byte> entry, FieldLocation* locations,
                                KeyOrder* order, std::size_t ordinal) const {
  std::span<const std::byte> key;
  FieldLocation found;
  if (!ReadUsualEntry(entry, &key, &found)) {
    // Entries of all such maps have their keys in the same place.
    if (!ReadFeatureKey(entry, &key)) return false;
    found = {entry.data(), static_cast<std::uint32_t>(entry.size()), 0, kOFRecordEntry};
  }
  std::uint32_t field = Expected(*order, ordinal);
  if (field == FeatureIndex::kNone || !index_.Matches(field, key)) {
    field = index_.Find(key);
    Remember(ordinal, field, order);
  }
  if (field != FeatureIndex::kNone) locations[field] = found;
  return true;
}

bool OFRecordScanner::Scan(const RecordSpan& record, FieldLocation* locations,
                           KeyOrder* order) const {
  for (std::size_t i = 0; i < field_count_; ++i) locations[i] = {};
  if (record.size > std::numeric_limits<std::uint32_t>::max()) return false;
  UsualReader usual(record.bytes());
  std::size_t ordinal = 0;
  std::span<const std::byte> entry;
  while (!usual.done()) {
    if (usual.Enter(kFirst, &entry)) {
      if (!ScanEntry(entry, locations, order, ordinal++)) return false;
      continue;
    }
    // Another field, an overlong length, or garbage.
    const std::span<const std::byte> left{usual.at(), record.data + record.size};
    WireReader reader(left);
    std::uint32_t tag = 0;
    if (!reader.ReadTag(&tag)) return false;
    if (tag == WireTag(1, WireType::kDelimited)) {
      if (!reader.ReadDelimited(&entry)) return false;
      if (!ScanEntry(entry, locations, order, ordinal++)) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
    usual = UsualReader(left.subspan(static_cast<std::size_t>(reader.at() - left.data())));
  }
  return true;
}

}  // namespace ringfeed
