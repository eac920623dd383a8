#include "readers/formats/mds/shard.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/mds/columns.h"

namespace ringfeed {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kNumberBytes = sizeof(std::uint32_t);
constexpr std::uint64_t kLeastHead = 2 * kNumberBytes;
/// Of a head: 64 million samples. A larger one is not read into memory.
constexpr std::uint64_t kMostHead = std::uint64_t{1} << 28;
/// Of the text about the columns.
constexpr std::uint64_t kMostText = std::uint64_t{1} << 24;
/// What is looked at of that text if its end is not known.
constexpr std::uint64_t kUsualText = std::uint64_t{1} << 16;

std::uint32_t NumberAt(std::span<const std::byte> head, std::uint64_t number) {
  return LoadLe<std::uint32_t>(head.data() + number * kNumberBytes);
}
/// Where the offsets of so many samples end.
std::uint64_t TableEnd(std::uint64_t samples) { return kLeastHead + kNumberBytes * samples; }

// The length of the JSON object that begins there; 0 if none does, or it does not end.
std::size_t ObjectBytes(std::string_view text) {
  bool quoted = false;
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (at == 0 && c != '{') return 0;
    if (quoted && c == '\\') {
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == '{') {
      ++depth;
    } else if (!quoted && c == '}' && --depth == 0) {
      return at + 1;
    }
  }
  return 0;
}

// One column of the three lists that an object has.
bool AddColumn(const Json& name, const Json& encoding, const Json& size, MdsLayout* layout) {
  if (!name.is_string() || !encoding.is_string()) return false;
  const MdsColumn column{name, encoding};
  if ((column.name + column.encoding).find_first_of("\t\n") != std::string::npos) return false;
  const MdsEncoding known = MdsEncodingOf(column.encoding);
  std::uint64_t bytes = DTypeBytes(known.dtype.value_or(DType::kUInt8));
  for (const std::int64_t dimension : known.shape) bytes *= static_cast<std::uint64_t>(dimension);
  const bool is_known = known.kind != MdsEncoding::Kind::kUnknown;
  if (size.is_null()) {
    if (is_known && !known.variable()) return false;
    layout->sizes_bytes += kNumberBytes;
  } else {
    constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > kMostBytes) return false;
    if (is_known && (known.variable() || size.get<std::uint64_t>() != bytes)) return false;
    layout->fixed_bytes += size.get<std::uint64_t>();
  }
  layout->columns += MdsColumnsText({&column, 1});
  return true;
}

std::optional<MdsLayout> ReadColumns(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto list = [&](const char* name) {
    const bool is_list = json.is_object() && json.contains(name) && json[name].is_array();
    return is_list ? &json[name] : nullptr;
  };
  const Json* const names = list("column_names");
  const Json* const encodings = list("column_encodings");
  const Json* const sizes = list("column_sizes");
  if (names == nullptr || encodings == nullptr || sizes == nullptr || names->empty() ||
      names->size() != encodings->size() || names->size() != sizes->size()) {
    return std::nullopt;
  }
  MdsLayout layout;
  for (std::size_t i = 0; i < names->size(); ++i) {
    if (!AddColumn((*names)[i], (*encodings)[i], (*sizes)[i], &layout)) return std::nullopt;
  }
  return layout;
}

// Those of the offsets from `least` to `most` that ascend, as many as there can be. In place of a
// wrong number the one after it may be left out.
std::vector<bool> Believed(const std::vector<std::uint32_t>& offsets, std::uint64_t least,
                           std::uint64_t most) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const auto descends = std::adjacent_find(offsets.begin(), offsets.end(), std::greater_equal<>());
  if (descends == offsets.end() && offsets.front() >= least && offsets.back() <= most) {
    return std::vector<bool>(offsets.size(), true);
  }
  std::vector<std::size_t> ends;  // of the chain of each length the one that ends lowest
  std::vector<std::size_t> before(offsets.size(), kNone);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] < least || offsets[i] > most) continue;
    const auto place =
        std::lower_bound(ends.begin(), ends.end(), offsets[i],
                         [&](std::size_t end, std::uint64_t at) { return offsets[end] < at; });
    if (place != ends.begin()) before[i] = *std::prev(place);
    if (place == ends.end()) {
      ends.push_back(i);
    } else {
      *place = i;
    }
  }
  std::vector<bool> believed(offsets.size());
  for (std::size_t i = ends.empty() ? kNone : ends.back(); i != kNone; i = before[i]) {
    believed[i] = true;
  }
  return believed;
}

}  // namespace

/// Finds out what a head that may be damaged says. Each of its parts is told by two: the count by
/// the end of the table too, the first offset by the end of the text.
class MdsHeadReader {
 public:
  /// `options` must outlive it.
  MdsHeadReader(std::span<const std::byte> head, const FramerOptions& options)
      : head_(head),
        options_(options),
        known_(options.file_bytes != kUnknownSize),
        most_(known_ ? options.file_bytes : std::numeric_limits<std::uint32_t>::max()) {}

  std::uint64_t Needed() const;
  MdsShard Read();

 private:
  /// Whether the table of so many samples ends at the file's end.
  bool EndsFile(std::uint64_t samples) const {
    return known_ && TableEnd(samples) <= head_.size() && NumberAt(head_, 1 + samples) == most_;
  }
  /// What stands there, at most.
  std::string_view TextIn(std::uint64_t begin, std::uint64_t end) const {
    return {reinterpret_cast<const char*>(head_.data()) + begin,
            static_cast<std::size_t>(std::min(end - begin, kMostText))};
  }
  bool FindSamples(std::uint64_t* samples);
  void ReadText(std::uint64_t begin);
  void FindLost();
  std::uint64_t LongestHead() const { return std::min(most_, kMostHead); }

  const std::span<const std::byte> head_;
  const FramerOptions& options_;
  const bool known_;          // the file's size is
  const std::uint64_t most_;  // that an offset may be
  MdsShard shard_;
  std::uint64_t text_end_ = 0;  // 0: there is no text of columns
};

std::uint64_t MdsHeadReader::Needed() const {
  if (head_.size() < kLeastHead) return kLeastHead;
  const std::uint64_t first = NumberAt(head_, 1);
  const std::uint64_t table = TableEnd(NumberAt(head_, 0));
  const bool fits = table <= first && first <= LongestHead();
  if (fits && (head_.size() < first || ObjectBytes(TextIn(table, first)) == first - table)) {
    return first;
  }
  if (table <= LongestHead()) {
    const std::uint64_t usual = std::min(table + kUsualText, LongestHead());
    return fits ? std::max(first, usual) : usual;
  }
  return std::min(std::max(first, kLeastHead), LongestHead());
}

bool MdsHeadReader::FindSamples(std::uint64_t* samples) {
  const std::uint64_t told = NumberAt(head_, 0);
  const std::uint64_t table = TableEnd(told);
  if (EndsFile(told)) {
    *samples = told;
    ReadText(table);
    return true;
  }
  if (table < head_.size()) ReadText(table);
  *samples = told;
  if (text_end_ != 0) return true;
  // Only the count is damaged if the text follows numbers that ascend.
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; TableEnd(i) < head_.size() && NumberAt(head_, 1 + i) > before; ++i) {
    before = NumberAt(head_, 1 + i);
    ReadText(TableEnd(i));
    if (text_end_ == 0) continue;
    *samples = i;
    shard_.pieces_.push_back(
        {0, kNumberBytes,
         "its head counts " + std::to_string(told) + " samples, its table " + std::to_string(i)});
    return true;
  }
  return false;
}

void MdsHeadReader::ReadText(std::uint64_t begin) {
  const std::string_view text = TextIn(begin, head_.size());
  const std::size_t bytes = ObjectBytes(text);
  std::optional<MdsLayout> layout = ReadColumns(text.substr(0, bytes));
  if (!layout) return;
  text_end_ = begin + bytes;
  shard_.layout_ = *std::move(layout);
}

MdsShard MdsHeadReader::Read() {
  std::uint64_t samples = 0;
  if (head_.size() < kLeastHead || !FindSamples(&samples)) {
    const bool cut = head_.size() < kLeastHead || TableEnd(NumberAt(head_, 0)) > head_.size() ||
                     NumberAt(head_, 1) > head_.size();
    shard_.hopeless_ = Status(cut ? StatusCode::kTruncated : StatusCode::kDamaged,
                              "its head is none of an MDS shard: a number of samples, their "
                              "offsets, and their columns as JSON");
    return std::move(shard_);
  }
  const std::uint64_t table = TableEnd(samples);
  std::vector<std::uint32_t>& offsets = shard_.offsets_;
  for (std::uint64_t i = 0; i <= samples; ++i) offsets.push_back(NumberAt(head_, 1 + i));
  if (text_end_ != 0 && offsets[0] != text_end_) {
    shard_.pieces_.push_back({kNumberBytes, kLeastHead,
                              "its first offset is " + std::to_string(offsets[0]) + " where " +
                                  std::to_string(text_end_) + " is expected"});
    offsets[0] = static_cast<std::uint32_t>(text_end_);
  }
  shard_.head_bytes_ = text_end_ != 0 ? text_end_ : table;
  FindLost();
  const bool first_lost = shard_.LostAt(0) != nullptr;
  if (text_end_ == 0 && !first_lost) {
    shard_.pieces_.push_back({table, offsets[0], "what it says of its columns is no JSON of that"});
    shard_.head_bytes_ = offsets[0];
  }
  return std::move(shard_);
}

void MdsHeadReader::FindLost() {
  const std::vector<std::uint32_t>& offsets = shard_.offsets_;
  const std::vector<bool> believed = Believed(offsets, shard_.head_bytes_, most_);
  std::vector<MdsShard::Lost>& lost = shard_.lost_;
  for (std::uint64_t i = 0; i + 1 < offsets.size(); ++i) {
    // Where the first offset of a row of them is not believed it is the file's first.
    MdsShard::Lost one{
        .first = i, .count = 1, .begin = believed[i] ? offsets[i] : shard_.head_bytes_};
    const std::uint32_t bytes = offsets[i + 1] - offsets[i];
    if (!believed[i] || !believed[i + 1]) {
      const bool cut = known_ && offsets[i] < offsets[i + 1] && offsets[i + 1] > most_;
      one.code = cut ? StatusCode::kTruncated : StatusCode::kDamaged;
      one.reason = "its head has the sample " + std::to_string(i) + " from " +
                   std::to_string(offsets[i]) + " to " + std::to_string(offsets[i + 1]) +
                   (cut ? ", where the file ends before" : ", among others that ascend");
    } else if (bytes > options_.max_record_bytes) {
      one.code = StatusCode::kResourceExhausted;
      one.reason = "a sample of " + std::to_string(bytes) + " bytes is longer than " +
                   "max_record_bytes (" + std::to_string(options_.max_record_bytes) + ")";
    } else {
      continue;
    }
    one.end =
        believed[i + 1] ? offsets[i + 1] : (i + 2 == offsets.size() ? options_.file_bytes : 0);
    if (!lost.empty() && lost.back().first + lost.back().count == i) {
      ++lost.back().count;
      lost.back().end = one.end;
    } else {
      lost.push_back(std::move(one));
    }
  }
  if (!lost.empty() && lost.back().begin == lost.back().end) {
    shard_.pieces_.push_back({TableEnd(lost.back().first), TableEnd(offsets.size() - 1),
                              lost.back().reason, StatusCode::kTruncated});
  }
  const bool goes_on = known_ && believed.back() && offsets.back() < most_;
  if (goes_on) shard_.tail_begin_ = offsets.back();
}

const MdsShard::Lost* MdsShard::LostAt(std::uint64_t sample) const {
  const auto after =
      std::upper_bound(lost_.begin(), lost_.end(), sample,
                       [](std::uint64_t one, const Lost& lost) { return one < lost.first; });
  if (after == lost_.begin()) return nullptr;
  const Lost& lost = *std::prev(after);
  return sample - lost.first < lost.count ? &lost : nullptr;
}

bool MdsLayout::Fills(std::span<const std::byte> sample) const {
  if (columns.empty()) return true;
  if (sample.size() < sizes_bytes) return false;
  std::uint64_t bytes = sizes_bytes + fixed_bytes;
  for (std::size_t at = 0; at < sizes_bytes; at += kNumberBytes) {
    bytes += LoadOnceLe<std::uint32_t>(sample.data() + at);
  }
  return bytes == sample.size();
}

Status MdsShard::CheckColumns(const FramerOptions& options) const {
  if (options.check_elements == nullptr || layout_.columns.empty()) return {};
  return options.check_elements({layout_.columns, {}, {}}).WithPlace({options.file, -1, -1});
}

MdsHead ReadMdsHead(std::span<const std::byte> head, bool ends, const FramerOptions& options) {
  const auto needed = static_cast<std::size_t>(MdsHeadReader(head, options).Needed());
  if (needed > head.size() && !ends) return {needed, nullptr};
  // No more of it, however much is at hand.
  MdsHeadReader reader(head.first(std::min(needed, head.size())), options);
  return {0, std::make_shared<const MdsShard>(reader.Read())};
}

bool StartsAsMdsShard(std::span<const std::byte> head) {
  if (head.size() <= TableEnd(1)) return false;
  const std::uint64_t samples = NumberAt(head, 0);
  const std::uint64_t table = TableEnd(samples);
  std::uint64_t before = NumberAt(head, 1);
  if (samples == 0 || before <= table || before - table > kMostText) return false;
  for (std::uint64_t i = 1; i <= samples && TableEnd(i) <= head.size(); ++i) {
    const std::uint64_t offset = NumberAt(head, 1 + i);
    if (offset <= before) return false;
    before = offset;
  }
  return table + 1 >= head.size() ||
         (head[table] == std::byte{'{'} && head[table + 1] == std::byte{'"'});
}

std::size_t MdsHeadBytes(std::span<const std::byte> head) {
  return static_cast<std::size_t>(MdsHeadReader(head, FramerOptions()).Needed());
}

MdsRecords::MdsRecords(std::shared_ptr<const MdsShard> shard, std::uint64_t file_bytes)
    : shard_(std::move(shard)) {
  if (!shard_->hopeless().ok() && file_bytes > 0) {
    damage_.push_back({0, file_bytes, IndexDamage::kNoRecord, shard_->hopeless().message()});
  }
  for (const MdsShard::Piece& piece : shard_->pieces()) {
    damage_.push_back({piece.begin, piece.end, IndexDamage::kNoRecord, piece.reason});
  }
  for (const MdsShard::Lost& lost : shard_->lost()) {
    if (lost.begin == lost.end) continue;  // a piece tells
    damage_.push_back({lost.begin, lost.end, lost.first, lost.reason});
  }
  if (shard_->tail_begin() != kUnknownSize) {
    damage_.push_back({shard_->tail_begin(), file_bytes, IndexDamage::kNoRecord, MdsShard::kTail});
  }
  std::sort(damage_.begin(), damage_.end());
}

Status MdsRecords::Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const MdsShard::Lost* const lost = shard_->LostAt(records[i]);
    units[i] = {.offset = lost != nullptr ? lost->begin : shard_->begin(records[i]),
                .bytes = 0,
                .first_record = records[i],
                .lost = lost != nullptr};
    if (lost == nullptr) units[i].bytes = shard_->end(records[i]) - units[i].offset;
  }
  return {};
}

// Lost samples stand where the one before them begins, as they are framed.
Status MdsRecords::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  const auto place = [&](std::uint64_t sample) -> std::uint64_t {
    const MdsShard::Lost* const lost = shard_->LostAt(sample);
    if (lost == nullptr) return shard_->begin(sample);
    return lost->first == 0 ? 0 : shard_->begin(lost->first - 1);
  };
  std::uint64_t low = 0;
  std::uint64_t high = records();
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (place(middle) < offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *record = low;
  return {};
}

}  // namespace ringfeed
