#include "readers/chain/journal/journal_line.h"

#include <array>
#include <charconv>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

#include "base/crc32c.h"
#include "readers/order/position.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::uint64_t kMostRanks = 1 << 20;
constexpr std::size_t kSumDigits = 8;
constexpr std::string_view kSumMark = " *";
constexpr std::array<std::string_view, 3> kRules = {"once", "at-most-once", "any-times"};

Status Damaged(std::string what) { return Status(StatusCode::kDamaged, std::move(what)); }

std::uint32_t SumOf(std::string_view text) { return Crc32c(std::as_bytes(std::span(text))); }

void AppendNumber(std::uint64_t number, std::string* line) {
  std::array<char, 20> digits;
  const auto result = std::to_chars(digits.begin(), digits.end(), number);
  line->append(digits.begin(), result.ptr);
}

void AppendSum(std::string* line) {
  constexpr char kDigits[] = "0123456789abcdef";
  const std::uint32_t sum = SumOf(*line);
  *line += kSumMark;
  for (int shift = 28; shift >= 0; shift -= 4) *line += kDigits[sum >> shift & 15];
  *line += '\n';
}

void AppendField(std::string_view name, std::uint64_t value, std::string* line) {
  *line += name;
  *line += '=';
  AppendNumber(value, line);
  *line += ' ';
}

void AppendText(std::string_view name, std::string_view text, std::string* line) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  *line += name;
  *line += '=';
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte > ' ' && byte < 0x7F && letter != '%') {
      *line += letter;
      continue;
    }
    *line += '%';
    *line += kDigits[byte >> 4];
    *line += kDigits[byte & 15];
  }
  *line += ' ';
}

// "1000*7,12": seven files of 1000, one of 12.
void AppendCounts(const std::vector<std::uint64_t>& counts, std::string* line) {
  for (std::size_t i = 0; i < counts.size();) {
    std::size_t end = i + 1;
    while (end < counts.size() && counts[end] == counts[i]) ++end;
    if (i > 0) *line += ',';
    AppendNumber(counts[i], line);
    if (end - i > 1) {
      *line += '*';
      AppendNumber(end - i, line);
    }
    i = end;
  }
}

void AppendRanges(const std::vector<RecordRange>& ranges, std::string* line) {
  for (const RecordRange& range : ranges) {
    *line += ' ';
    AppendNumber(range.file, line);
    *line += ':';
    AppendNumber(range.first, line);
    if (range.count == 1) continue;
    *line += '+';
    AppendNumber(range.count, line);
  }
}

// Takes a line apart from the front. After a missing word all later ones are missing too.
class LineWords {
 public:
  explicit LineWords(std::string_view rest) : rest_(rest) {}

  bool Take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool Number(std::uint64_t* value) {
    const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value);
    if (result.ec != std::errc()) return false;
    rest_.remove_prefix(static_cast<std::size_t>(result.ptr - rest_.data()));
    return true;
  }
  std::string_view Word() {
    const std::string_view word = rest_.substr(0, rest_.find(' '));
    rest_.remove_prefix(word.size());
    return word;
  }
  // A batch number to which 1 can be added.
  bool Batch(std::uint64_t* number) { return Number(number) && *number != ~std::uint64_t{0}; }
  bool Field(std::string_view name, std::uint64_t* value) {
    return Take(name) && Take("=") && Number(value) && Take(" ");
  }
  bool Text(std::string_view name, std::string* value) {
    if (!Take(name) || !Take("=")) return false;
    std::string_view word = Word();
    value->clear();
    while (!word.empty()) {
      if (word[0] != '%') {
        *value += word[0];
        word.remove_prefix(1);
        continue;
      }
      unsigned byte = 0;
      if (word.size() < 3) return false;
      const auto result = std::from_chars(word.data() + 1, word.data() + 3, byte, 16);
      if (result.ptr != word.data() + 3) return false;
      *value += static_cast<char>(byte);
      word.remove_prefix(3);
    }
    return Take(" ");
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

bool TakeCounts(LineWords* words, std::vector<std::uint64_t>* counts) {
  counts->clear();
  std::uint64_t sum = 0;
  while (!words->empty()) {
    if (!counts->empty() && !words->Take(",")) return false;
    std::uint64_t count = 0;
    std::uint64_t times = 1;
    if (!words->Number(&count)) return false;
    if (words->Take("*") && !words->Number(&times)) return false;
    if (times == 0 || times > kMostFiles - counts->size()) return false;
    std::uint64_t more = 0;
    const bool countable =
        !__builtin_mul_overflow(count, times, &more) && !__builtin_add_overflow(sum, more, &sum);
    if (!countable) return false;
    counts->insert(counts->end(), times, count);
  }
  return true;
}

// Takes ranges up to the mark of the damaged ones, or the end.
bool TakeRanges(LineWords* words, std::vector<RecordRange>* ranges) {
  ranges->clear();
  while (!words->empty() && !words->Take(" !")) {
    std::uint64_t file = 0;
    RecordRange range;
    range.count = 1;
    if (!words->Take(" ") || !words->Number(&file) || file > ~std::uint32_t{0}) return false;
    if (!words->Take(":") || !words->Number(&range.first)) return false;
    if (words->Take("+") && !words->Number(&range.count)) return false;
    if (range.count == 0 || range.first > ~range.count) return false;
    range.file = static_cast<std::uint32_t>(file);
    ranges->push_back(range);
  }
  return true;
}

bool TakeRule(LineWords* words, DeliveryRule* rule) {
  if (!words->Take("rule=")) return false;
  const std::string_view name = words->Word();
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i] != name) continue;
    *rule = static_cast<DeliveryRule>(i);
    return words->Take(" ");
  }
  return false;
}

// Older lines do not have it.
bool TakeEpoch(LineWords* words, JournalStart* start) {
  if (!words->Take("epoch=")) return true;
  start->epoch.emplace();
  return words->Number(&*start->epoch) && words->Take(" ");
}

// Nor these.
bool TakeReplica(LineWords* words, JournalStart* start) {
  if (!words->Take("replica=")) return true;
  std::uint64_t replica = 0;
  std::uint64_t replicas = 0;
  const bool taken =
      words->Number(&replica) && words->Take(" ") && words->Field("replicas", &replicas);
  if (!taken || replicas > kMostRanks || replica >= replicas) return false;
  start->replica = static_cast<int>(replica);
  start->replicas = static_cast<int>(replicas);
  return true;
}

bool TakeSubset(LineWords* words, JournalStart* start) {
  start->subset = words->Take("subset=1 ");
  return true;
}

bool TakeStart(LineWords* words, JournalStart* start) {
  std::uint64_t rank = 0;
  std::uint64_t ranks = 0;
  std::uint64_t drop = 0;
  std::uint64_t split = 0;
  const bool taken = words->Field("batch", &start->batch) && words->Field("run", &start->run) &&
                     words->Field("rank", &rank) && words->Field("ranks", &ranks) &&
                     words->Field("rows", &start->batch_rows) && words->Field("drop", &drop) &&
                     words->Field("split", &split) && TakeRule(words, &start->rule) &&
                     words->Field("started", &start->started_ns) &&
                     words->Text("launch", &start->launch) && words->Text("data", &start->data) &&
                     words->Field("total", &start->total_records) && TakeEpoch(words, start) &&
                     TakeReplica(words, start) && TakeSubset(words, start) &&
                     words->Take("records=") && TakeCounts(words, &start->records);
  if (!taken || ranks > kMostRanks || rank >= ranks) return false;
  start->rank = static_cast<int>(rank);
  start->ranks = static_cast<int>(ranks);
  start->drop_remainder = drop != 0;
  start->split_by_files = split != 0;
  return true;
}

bool TakeEntry(LineWords* words, JournalEntry* entry) {
  BatchOrigin& origin = entry->origin;
  if (words->Take(kJournalMagic)) {
    entry->kind = JournalEntry::Kind::kStart;
    return TakeStart(words, &entry->start);
  }
  if (words->Take("e ")) {
    entry->kind = JournalEntry::Kind::kEnd;
    return words->Number(&origin.batch) && words->empty();
  }
  if (words->Take("d ")) {
    entry->kind = JournalEntry::Kind::kDamage;
    return words->Number(&entry->damaged) && words->empty();
  }
  const bool cut = words->Take("c ");
  entry->kind = cut ? JournalEntry::Kind::kCut : JournalEntry::Kind::kBatch;
  return (cut || words->Take("b ")) && words->Batch(&origin.batch) && words->Take(" ") &&
         words->Number(&origin.pass) && TakeRanges(words, &origin.records) &&
         TakeRanges(words, &origin.damaged) && words->empty();
}

}  // namespace

void FormatJournalStart(const JournalStart& start, std::string* line) {
  *line = kJournalMagic;
  AppendField("batch", start.batch, line);
  AppendField("run", start.run, line);
  AppendField("rank", static_cast<std::uint64_t>(start.rank), line);
  AppendField("ranks", static_cast<std::uint64_t>(start.ranks), line);
  AppendField("rows", start.batch_rows, line);
  AppendField("drop", start.drop_remainder ? 1 : 0, line);
  AppendField("split", start.split_by_files ? 1 : 0, line);
  AppendText("rule", kRules[static_cast<std::size_t>(start.rule)], line);
  AppendField("started", start.started_ns, line);
  AppendText("launch", start.launch, line);
  AppendText("data", start.data, line);
  AppendField("total", start.total_records, line);
  if (start.epoch) AppendField("epoch", *start.epoch, line);
  if (start.replicas > 1) {
    AppendField("replica", static_cast<std::uint64_t>(start.replica), line);
    AppendField("replicas", static_cast<std::uint64_t>(start.replicas), line);
  }
  if (start.subset) AppendField("subset", 1, line);
  *line += "records=";
  if (start.records.size() <= kMostFiles) AppendCounts(start.records, line);
  AppendSum(line);
}

void FormatJournalBatch(const BatchOrigin& origin, std::string* line) {
  *line = IsCutShort(origin) ? "c " : "b ";
  AppendNumber(origin.batch, line);
  *line += ' ';
  AppendNumber(origin.pass, line);
  AppendRanges(origin.records, line);
  if (!origin.damaged.empty()) {
    *line += " !";
    AppendRanges(origin.damaged, line);
  }
  AppendSum(line);
}

void FormatJournalEnd(std::uint64_t batches, std::string* line) {
  *line = "e ";
  AppendNumber(batches, line);
  AppendSum(line);
}

void FormatJournalDamage(std::uint64_t damaged, std::string* line) {
  *line = "d ";
  AppendNumber(damaged, line);
  AppendSum(line);
}

Status ParseJournalLine(std::string_view line, JournalEntry* entry) {
  constexpr std::size_t kSumBytes = kSumMark.size() + kSumDigits;
  if (line.size() < kSumBytes) return Damaged("it is too short for a checksum");
  const std::string_view text = line.substr(0, line.size() - kSumBytes);
  LineWords sum_words(line.substr(text.size()));
  std::uint32_t sum = 0;
  const char* const digits = line.data() + line.size() - kSumDigits;
  const auto result = std::from_chars(digits, digits + kSumDigits, sum, 16);
  if (!sum_words.Take(kSumMark) || result.ptr != digits + kSumDigits) {
    return Damaged("it has no checksum");
  }
  if (sum != SumOf(text)) return Damaged("its checksum is wrong");
  LineWords words(text);
  if (!TakeEntry(&words, entry)) {
    return Damaged("it is no entry of this version, or has numbers beyond what there can be");
  }
  return Status();
}

}  // namespace ringfeed
