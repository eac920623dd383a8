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
#include "readers/formats/mds/mds.h"
#include "readers/formats/samples/columns.h"

namespace ringfeed {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kNumberBytes = SampleTable::kNumberBytes;
constexpr std::uint64_t kLeastHead = SampleTable::kLeastHead;
/// Of the text about the columns.
constexpr std::uint64_t kMostText = std::uint64_t{1} << 24;
/// What is looked at of that text if its end is not known.
constexpr std::uint64_t kUsualText = std::uint64_t{1} << 16;

std::uint32_t NumberAt(std::span<const std::byte> head, std::uint64_t number) {
  return LoadLe<std::uint32_t>(head.data() + number * kNumberBytes);
}
std::uint64_t TableEnd(std::uint64_t samples) { return SampleTable::TableEnd(samples); }

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
bool AddColumn(const Json& name, const Json& encoding, const Json& size, SampleLayout* layout) {
  if (!name.is_string() || !encoding.is_string()) return false;
  const SampleColumn column{name, encoding};
  if ((column.name + column.encoding).find_first_of("\t\n") != std::string::npos) return false;
  const SampleEncoding known = EncodingOf(SampleFamily::kMds, column.encoding);
  const bool is_known = known.kind != SampleEncoding::Kind::kUnknown;
  if (size.is_null()) {
    if (is_known && !known.variable()) return false;
    layout->sizes_bytes += kNumberBytes;
  } else {
    constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > kMostBytes) return false;
    if (is_known && (known.variable() || size.get<std::uint64_t>() != known.value_bytes()))
      return false;
    layout->fixed_bytes += size.get<std::uint64_t>();
  }
  layout->columns += ColumnsText({&column, 1});
  return true;
}

std::optional<SampleLayout> ReadColumns(std::string_view text) {
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
  SampleLayout layout;
  for (std::size_t i = 0; i < names->size(); ++i) {
    if (!AddColumn((*names)[i], (*encodings)[i], (*sizes)[i], &layout)) return std::nullopt;
  }
  return layout;
}

}  // namespace

Status ParseMdsLayout(std::string_view text, SampleLayout* layout) {
  *layout = {};
  for (const SampleColumn& column : ColumnsOf(text)) {
    const SampleEncoding known = EncodingOf(SampleFamily::kMds, column.encoding);
    if (known.kind == SampleEncoding::Kind::kUnknown) {
      return Status(StatusCode::kUnsupported, "column \"" + column.name +
                                                  "\" of MDS has the encoding \"" +
                                                  column.encoding + "\", which is not known here");
    }
    (known.variable() ? layout->sizes_bytes : layout->fixed_bytes) +=
        known.variable() ? kNumberBytes : known.value_bytes();
    layout->columns += ColumnsText({&column, 1});
  }
  return {};
}

/// Finds out what a head that may be damaged says. Each of its parts is told by two: the count by
/// the end of the table too, the first offset by the end of the text.
class MdsHeadReader {
 public:
  /// `options` must outlive it.
  MdsHeadReader(std::span<const std::byte> head, const FramerOptions& options)
      : head_(head),
        options_(options),
        known_(options.file_bytes != kUnknownSize),
        most_(SampleTable::MostOffset(options)) {}

  std::uint64_t Needed() const;
  SampleTable Read();

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
  std::uint64_t LongestHead() const { return std::min(most_, SampleTable::kMostHead); }

  const std::span<const std::byte> head_;
  const FramerOptions& options_;
  const bool known_;          // the file's size is
  const std::uint64_t most_;  // that an offset may be
  SampleLayout layout_;
  std::vector<SampleTable::Piece> pieces_;
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
    pieces_.push_back(
        {0, kNumberBytes,
         "its head counts " + std::to_string(told) + " samples, its table " + std::to_string(i)});
    return true;
  }
  return false;
}

void MdsHeadReader::ReadText(std::uint64_t begin) {
  const std::string_view text = TextIn(begin, head_.size());
  const std::size_t bytes = ObjectBytes(text);
  std::optional<SampleLayout> layout = ReadColumns(text.substr(0, bytes));
  if (!layout) return;
  text_end_ = begin + bytes;
  layout_ = *std::move(layout);
}

SampleTable MdsHeadReader::Read() {
  std::uint64_t samples = 0;
  if (head_.size() < kLeastHead || !FindSamples(&samples)) {
    const bool cut = head_.size() < kLeastHead || TableEnd(NumberAt(head_, 0)) > head_.size() ||
                     NumberAt(head_, 1) > head_.size();
    return SampleTable(Status(cut ? StatusCode::kTruncated : StatusCode::kDamaged,
                              "its head is none of an MDS shard: a number of samples, their "
                              "offsets, and their columns as JSON"));
  }
  const std::uint64_t table = TableEnd(samples);
  std::vector<std::uint32_t> offsets;
  for (std::uint64_t i = 0; i <= samples; ++i) offsets.push_back(NumberAt(head_, 1 + i));
  const std::uint32_t first = offsets[0];
  if (text_end_ != 0 && first != text_end_) {
    pieces_.push_back({kNumberBytes, kLeastHead,
                       "its first offset is " + std::to_string(first) + " where " +
                           std::to_string(text_end_) + " is expected"});
    offsets[0] = static_cast<std::uint32_t>(text_end_);
  }
  SampleTable found(std::move(offsets), text_end_ != 0 ? text_end_ : table, std::move(pieces_),
                    std::move(layout_), options_);
  const bool first_lost = found.LostAt(0) != nullptr;
  if (text_end_ == 0 && !first_lost) {
    found.AddHeadPiece({table, first, "what it says of its columns is no JSON of that"}, first);
  }
  return found;
}

SampleHead ReadMdsHead(std::span<const std::byte> head, bool ends, const FramerOptions& options) {
  const auto needed = static_cast<std::size_t>(MdsHeadReader(head, options).Needed());
  if (needed > head.size() && !ends) return {needed, nullptr};
  // No more of it, however much is at hand.
  MdsHeadReader reader(head.first(std::min(needed, head.size())), options);
  return {0, std::make_shared<const SampleTable>(reader.Read())};
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

}  // namespace ringfeed
