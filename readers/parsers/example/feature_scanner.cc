#include "readers/parsers/example/feature_scanner.h"

#include <limits>

#include "readers/formats/builders/wire_format.h"

namespace ringfeed {

EntryTemplate::EntryTemplate(const std::string& key, std::uint32_t number, std::uint32_t form)
    : form_(form) {
  constexpr std::size_t kBesidesKey = 10;
  constexpr std::size_t kMostByte = 127;
  const std::size_t size = key.size();
  if (size + kBesidesKey > kMostWords * sizeof(std::uint64_t)) {
    head_bytes_ = ~std::size_t{0};  // too long a key: never matches
    return;
  }
  constexpr auto kTag = [](std::uint32_t field) {
    return static_cast<std::byte>(WireTag(field, WireType::kDelimited));
  };
  std::vector<std::byte> head{kTag(1), static_cast<std::byte>(size + 8), kTag(1),
                              static_cast<std::byte>(size)};
  for (const char c : key) head.push_back(static_cast<std::byte>(c));
  for (const std::byte byte :
       {kTag(2), std::byte{4}, kTag(number), std::byte{2}, kTag(1), std::byte{0}}) {
    head.push_back(byte);
  }
  head_bytes_ = head.size();
  most_run_bytes_ = kMostByte - (size + 8);
  std::vector<std::byte> lengths(head.size());
  for (const std::size_t at : {std::size_t{1}, size + 5, size + 7, size + 9}) {
    lengths[at] = std::byte{1};
  }
  word_count_ = (head.size() + 7) / 8;
  for (std::size_t i = 0; i < word_count_; ++i) {
    Word& word = words_[i];
    word.at = std::min(8 * i, head.size() - 8);  // the last one overlaps: nothing beyond is read
    word.fixed = LoadLe<std::uint64_t>(head.data() + word.at);
    word.lengths = LoadLe<std::uint64_t>(lengths.data() + word.at);
  }
}

void RecordLayout::Learn(const RecordSpan& record, std::span<const FieldLocation> locations) {
  constexpr std::size_t kWord = sizeof(Bits);
  constexpr std::size_t kMostBytes = 4096;
  misses_ = 0;
  patience_ -= kLearningCost;
  record_bytes_ = kNoRecord;
  word_count_ = run_count_ = 0;
  if (record.size < kWord || record.size > kMostBytes || locations.size() > kMostRuns) return;
  std::vector<std::byte> mask(record.size, std::byte{0xff});
  for (const FieldLocation& at : locations) {
    const bool is_run = at.form >= kFormBytes && at.form <= kFormInt64s;
    if (!is_run && at.form != kFormMissing) return;
    const std::size_t begin = is_run ? static_cast<std::size_t>(at.data - record.data) : 0;
    runs_[run_count_++] = {begin, at.bytes, at.form};
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(begin), at.bytes, std::byte{});
  }
  for (std::size_t at = 0; at < record.size;) {
    const std::size_t begin = std::min(at, record.size - kWord);
    const auto bits = LoadLe<Bits>(mask.data() + begin);
    // The next word starts at the next byte to compare.
    if (mask[at] == std::byte{}) {
      ++at;
      continue;
    }
    if (word_count_ == kMostWords) return;
    words_[word_count_++] = {begin, bits, LoadLe<Bits>(record.data + begin) & bits};
    at = begin + kWord;
  }
  record_bytes_ = record.size;
}

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

// The field whose key is at a usual entry's place for it, if it is another than the expected one.
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

// Takes the next entry if it is as usual: one of the fields, the one that is expected here or any
// other. Neither `map` nor what is found may have its address taken: the place of the next entry
// would then go through memory.
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
  // Only these entries depend on nothing but the bytes around their runs.
  if (is_one && progress.templates == progress.ordinal) {
    memory->layout.Note(record, {locations, field_count_});
  }
  return is_one;
}

}  // namespace ringfeed
