#include "readers/parsers/example_scanner.h"

#include <algorithm>
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

// What entry `ordinal` was in the record before.
inline std::uint32_t Expected(const ExampleScanner::KeyOrder& order, std::size_t ordinal) {
  return ordinal < order.size() ? order[ordinal] : FeatureIndex::kNone;
}

void Remember(std::size_t ordinal, std::uint32_t field, ExampleScanner::KeyOrder* order) {
  if (ordinal >= kMostOrdered) return;
  if (ordinal >= order->size()) order->resize(ordinal + 1, FeatureIndex::kNone);
  (*order)[ordinal] = field;
}

std::vector<std::string> KeysOf(const std::vector<ExampleField>& fields) {
  std::vector<std::string> keys;
  for (const ExampleField& field : fields) keys.push_back(field.name);
  return keys;
}

}  // namespace

EntryTemplate::EntryTemplate(const ExampleField& field) {
  constexpr std::size_t kBesidesKey = 10;
  constexpr std::size_t kMostByte = 127;
  const std::size_t key = field.name.size();
  const auto kind = static_cast<std::uint32_t>(field.kind);
  std::vector<std::byte> head{kFirst, static_cast<std::byte>(key + 8), kFirst,
                              static_cast<std::byte>(key)};
  for (const char c : field.name) head.push_back(static_cast<std::byte>(c));
  for (const std::uint32_t byte :
       {WireTag(2, WireType::kDelimited), 4U, WireTag(kind, WireType::kDelimited), 2U,
        WireTag(1, WireType::kDelimited), 0U}) {
    head.push_back(static_cast<std::byte>(byte));
  }
  head_bytes_ = head.size();
  form_ = field.kind == FeatureKind::kBytes    ? kFormBytes
          : field.kind == FeatureKind::kFloats ? kFormFloats
                                               : kFormInts;
  if (key + kBesidesKey > kMostWords * sizeof(std::uint64_t)) {
    head_bytes_ = ~std::size_t{0};  // too long a key: never matches
    return;
  }
  most_run_bytes_ = kMostByte - (key + 8);
  std::vector<std::byte> lengths(head.size());
  for (const std::size_t at : {std::size_t{1}, key + 5, key + 7, key + 9})
    lengths[at] = std::byte{1};
  word_count_ = (head.size() + 7) / 8;
  for (std::size_t i = 0; i < word_count_; ++i) {
    Word& word = words_[i];
    word.at = std::min(8 * i, head.size() - 8);  // the last one overlaps: nothing beyond is read
    word.fixed = LoadLe<std::uint64_t>(head.data() + word.at);
    word.lengths = LoadLe<std::uint64_t>(lengths.data() + word.at);
  }
}

ExampleScanner::ExampleScanner(const std::vector<ExampleField>& fields)
    : field_count_(fields.size()), index_(KeysOf(fields)) {
  for (const ExampleField& field : fields) templates_.emplace_back(field);
}

bool ExampleScanner::ScanEntry(std::span<const std::byte> entry, FieldLocation* locations,
                               KeyOrder* order, std::size_t ordinal) const {
  UsualEntry found;
  if (!ReadUsualEntry(entry, &found)) {
    if (!ReadFeatureKey(entry, &found.key)) return false;
    found.location = {entry.data(), static_cast<std::uint32_t>(entry.size()), 0, kFormEntry};
  }
  std::uint32_t field = Expected(*order, ordinal);
  if (field == FeatureIndex::kNone || !index_.Matches(field, found.key)) {
    field = index_.Find(found.key);
    Remember(ordinal, field, order);
  }
  if (field != FeatureIndex::kNone) locations[field] = found.location;
  return true;
}

// Takes the entry at *at where it is as usual: one of the fields, the one that is expected here or
// any other.
inline bool ExampleScanner::ScanUsual(const std::byte** at, const std::byte* end,
                                      FieldLocation* locations, KeyOrder* order,
                                      std::size_t ordinal) const {
  constexpr std::ptrdiff_t kBeforeKey = 4;
  FieldLocation found;
  std::uint32_t field = Expected(*order, ordinal);
  if (field == FeatureIndex::kNone || !templates_[field].Match(*at, end, &found)) {
    if (end - *at < kBeforeKey) return false;
    const auto key = std::to_integer<std::size_t>((*at)[3]);
    if (key > static_cast<std::size_t>(end - *at - kBeforeKey)) return false;
    field = index_.Find({*at + kBeforeKey, key});
    if (field == FeatureIndex::kNone || !templates_[field].Match(*at, end, &found)) return false;
    Remember(ordinal, field, order);
  }
  locations[field] = found;
  *at = found.data + found.bytes;
  return true;
}

bool ExampleScanner::ScanFeatures(std::span<const std::byte> features, FieldLocation* locations,
                                  KeyOrder* order, std::size_t* ordinal) const {
  const std::byte* at = features.data();
  const std::byte* const end = at + features.size();
  std::size_t size = 0;
  while (at != end) {
    if (ScanUsual(&at, end, locations, order, *ordinal)) {
      ++*ordinal;
      continue;
    }
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
