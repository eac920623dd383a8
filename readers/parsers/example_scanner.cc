#include "readers/parsers/example_scanner.h"

#include <limits>

#include "readers/parsers/wire_reader.h"

namespace ringfeed {
namespace {

constexpr std::byte kFirst{WireTag(1, WireType::kDelimited)};
constexpr std::byte kSecond{WireTag(2, WireType::kDelimited)};
constexpr std::byte kThird{WireTag(3, WireType::kDelimited)};
// Orders of more keys than any real record has are not worth remembering.
constexpr std::size_t kMostOrdered = 4096;

// Reads the length behind a tag of one byte and moves *at to the contents. False where they do not
// fit, or the length takes more bytes than any writer spends on it.
inline bool EnterDelimited(const std::byte** at, const std::byte* end, std::size_t* size) {
  const std::byte* p = *at + 1;
  std::uint64_t length = 0;
  for (unsigned shift = 0; shift < 35 && p < end; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(*p++);
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *at = p;
      *size = static_cast<std::size_t>(length);
      return length <= static_cast<std::uint64_t>(end - p);
    }
  }
  return false;
}

// The usual form of a map's entry: key, then value, each once and nothing else; the value one list,
// the list one run.
struct UsualEntry {
  std::span<const std::byte> key;
  FieldLocation location;
};

bool ReadUsualList(const std::byte* at, const std::byte* end, FieldLocation* location) {
  if (at == end) {
    *location = {at, 0, 0, kFormMissing};
    return true;
  }
  const std::byte kind = *at;
  std::size_t size = 0;
  if (kind != kFirst && kind != kSecond && kind != kThird) return false;
  if (!EnterDelimited(&at, end, &size) || at + size != end) return false;
  const std::uint32_t form =
      kind == kFirst ? kFormBytes : (kind == kSecond ? kFormFloats : kFormInts);
  if (at == end) {
    *location = {at, 0, 0, form == kFormBytes ? kFormNoBytes : form};
    return true;
  }
  if (*at != kFirst || !EnterDelimited(&at, end, &size) || at + size != end) return false;
  *location = {at, static_cast<std::uint32_t>(size), 0, form};
  return true;
}

inline bool ReadUsualEntry(std::span<const std::byte> entry, UsualEntry* usual) {
  const std::byte* at = entry.data();
  const std::byte* const end = at + entry.size();
  std::size_t size = 0;
  if (at == end || *at != kFirst || !EnterDelimited(&at, end, &size)) return false;
  usual->key = {at, size};
  at += size;
  if (at == end || *at != kSecond || !EnterDelimited(&at, end, &size)) return false;
  return at + size == end && ReadUsualList(at, end, &usual->location);
}

std::vector<std::string> KeysOf(const std::vector<ExampleField>& fields) {
  std::vector<std::string> keys;
  for (const ExampleField& field : fields) keys.push_back(field.name);
  return keys;
}

}  // namespace

ExampleScanner::ExampleScanner(const std::vector<ExampleField>& fields)
    : field_count_(fields.size()), index_(KeysOf(fields)) {}

bool ExampleScanner::ScanEntry(std::span<const std::byte> entry, FieldLocation* locations,
                               KeyOrder* order, std::size_t ordinal) const {
  UsualEntry found;
  if (!ReadUsualEntry(entry, &found)) {
    if (!ReadFeatureKey(entry, &found.key)) return false;
    found.location = {entry.data(), static_cast<std::uint32_t>(entry.size()), 0, kFormEntry};
  }
  std::uint32_t field = ordinal < order->size() ? (*order)[ordinal] : FeatureIndex::kNone;
  if (field == FeatureIndex::kNone || !index_.Matches(field, found.key)) {
    field = index_.Find(found.key);
    if (ordinal < order->size()) {
      (*order)[ordinal] = field;
    } else if (ordinal < kMostOrdered) {
      order->resize(ordinal + 1, FeatureIndex::kNone);
      (*order)[ordinal] = field;
    }
  }
  if (field != FeatureIndex::kNone) locations[field] = found.location;
  return true;
}

bool ExampleScanner::ScanFeatures(std::span<const std::byte> features, FieldLocation* locations,
                                  KeyOrder* order, std::size_t* ordinal) const {
  const std::byte* at = features.data();
  const std::byte* const end = at + features.size();
  std::size_t size = 0;
  while (at != end) {
    if (*at == kFirst && EnterDelimited(&at, end, &size)) {
      if (!ScanEntry({at, size}, locations, order, (*ordinal)++)) return false;
      at += size;
      continue;
    }
    // Another field, an overlong length, or garbage.
    WireReader reader({at, end});
    std::uint32_t tag = 0;
    std::span<const std::byte> entry;
    if (!reader.ReadTag(&tag)) return false;
    if (tag == WireTag(1, WireType::kDelimited)) {
      if (!reader.ReadDelimited(&entry)) return false;
      if (!ScanEntry(entry, locations, order, (*ordinal)++)) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
    at = reader.at();
  }
  return true;
}

bool ExampleScanner::Scan(const RecordSpan& record, FieldLocation* locations,
                          KeyOrder* order) const {
  for (std::size_t i = 0; i < field_count_; ++i) locations[i] = {};
  if (record.size > std::numeric_limits<std::uint32_t>::max()) return false;
  WireReader reader(record.bytes());
  std::size_t ordinal = 0;
  std::uint32_t tag = 0;
  std::span<const std::byte> features;
  while (!reader.done()) {
    if (!reader.ReadTag(&tag)) return false;
    if (tag == WireTag(1, WireType::kDelimited)) {
      if (!reader.ReadDelimited(&features)) return false;
      if (!ScanFeatures(features, locations, order, &ordinal)) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  return true;
}

}  // namespace ringfeed
