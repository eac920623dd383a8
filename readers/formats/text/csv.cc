#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include "base/edit_distance.h"
#include "readers/formats/text/text_formats.h"
#include "readers/formats/text/text_framer.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

// Finds the LF outside of quotes. Between calls it remembers whether the next byte is inside of
// quotes, which depends on every earlier byte of the row.
class CsvScanner {
 public:
  static constexpr bool kPassesByteOrderMark = true;
  static constexpr bool kHasQuotes = true;

  static bool IsNoRow(const std::byte* /*row*/, std::size_t size) { return size == 0; }

  explicit CsvScanner(char delimiter) : delimiter_(static_cast<std::byte>(delimiter)) {}

  void Start() {
    scanned_ = 0;
    state_ = State::kFieldStart;
  }
  bool IsAtStart() const { return scanned_ == 0 && state_ == State::kFieldStart; }
  std::size_t FindEnd(const std::byte* row, std::size_t size);
  void DropScanned() { scanned_ = 0; }
  /// Outside of quotes.
  bool HasBareReturn(const std::byte* row, std::size_t size) const;
  std::string_view OpenReason() const {
    return state_ == State::kQuoted ? "the file ends inside quotes" : std::string_view();
  }

 private:
  enum class State : std::uint8_t {
    kFieldStart,
    kPlain,      // in a field that has no quotes, or after its quoted part
    kQuoted,     // between quotes
    kQuoteSeen,  // after a quote that ends the quoted part unless another follows
  };

  std::size_t Walk(const std::byte* row, std::size_t size);

  std::byte delimiter_;
  State state_ = State::kFieldStart;
  std::size_t scanned_ = 0;  // bytes of the row that state_ covers
};

std::size_t CsvScanner::FindEnd(const std::byte* row, std::size_t size) {
  if (!IsAtStart() || size == 0) return Walk(row, size);
#ifdef __SSE2__
  // Most rows are short: one look for both bytes; two calls take longer than the row is read.
  if (size >= kLookBytes) {
    const std::uint64_t ends = EqualBytes(row, '\n');
    const std::uint64_t up_to_end = ends ^ (ends - 1);
    if (ends != 0 && (EqualBytes(row, '"') & up_to_end) == 0) {
      return static_cast<std::size_t>(std::countr_zero(ends));
    }
  }
#endif
  const void* found = std::memchr(row, '\n', size);
  const bool ended = found != nullptr;
  const std::size_t end =
      ended ? static_cast<std::size_t>(static_cast<const std::byte*>(found) - row) : size;
  if (std::memchr(row, '"', end) != nullptr) return Walk(row, size);
  if (ended) return end;
  scanned_ = size;
  state_ = row[size - 1] == delimiter_ ? State::kFieldStart : State::kPlain;
  return kNoRowEnd;
}

std::size_t CsvScanner::Walk(const std::byte* row, std::size_t size) {
  constexpr std::byte kQuote{'"'};
  constexpr std::byte kLineFeed{'\n'};
  std::size_t at = scanned_;
  while (at < size) {
    if (state_ == State::kQuoted) {
      const void* quote = std::memchr(row + at, '"', size - at);
      at = size;
      if (quote == nullptr) break;
      at = static_cast<std::size_t>(static_cast<const std::byte*>(quote) - row) + 1;
      state_ = State::kQuoteSeen;
    } else if (state_ != State::kPlain && row[at] == kQuote) {
      state_ = State::kQuoted;
      ++at;
    } else {
      state_ = State::kPlain;
      while (at < size && row[at] != delimiter_ && row[at] != kLineFeed) ++at;
      if (at == size) break;
      if (row[at] == kLineFeed) return at;
      state_ = State::kFieldStart;
      ++at;
    }
  }
  scanned_ = std::max(scanned_, at);
  return kNoRowEnd;
}

bool CsvScanner::HasBareReturn(const std::byte* row, std::size_t size) const {
  const std::byte* const end = row + size;
  CsvScanner before(static_cast<char>(delimiter_));
  for (const std::byte* at = row; (at = std::find(at, end, std::byte{'\r'})) != end; ++at) {
    (void)before.Walk(row, static_cast<std::size_t>(at - row));
    if (before.state_ != State::kQuoted) return true;
  }
  return false;
}

class CsvWriter final : public FileRecordWriter {
 public:
  CsvWriter(std::unique_ptr<OutputFile> file, char delimiter)
      : FileRecordWriter(std::move(file)), scanner_(delimiter) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    const std::string_view problem = Problem(record);
    if (!problem.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "a record cannot be written as a CSV row: " + std::string(problem));
    }
    first_ = false;
    Status status = file().Append(record);
    constexpr std::byte kEnd{'\n'};
    return status.ok() ? file().Append({&kEnd, 1}) : status;
  }

  // Why these bytes would be read as something else.
  std::string_view Problem(std::span<const std::byte> record) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    const std::string_view text(reinterpret_cast<const char*>(record.data()), record.size());
    scanner_.Start();
    if (text.empty()) return "an empty line is no row";
    if (scanner_.FindEnd(record.data(), record.size()) != kNoRowEnd) {
      return "it holds a line feed outside of quotes";
    }
    if (!scanner_.OpenReason().empty()) return "it ends inside quotes";
    if (text.back() == '\r') return "it ends in a carriage return";
    if (first_ && text.starts_with(kMark)) return "the first one starts with a byte order mark";
    return {};
  }

  CsvScanner scanner_;
  bool first_ = true;
};

// A longer row of names is a mistake.
constexpr std::size_t kMostColumnsBytes = 64 * 1024;

std::string HexOf(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    const std::size_t byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

// Takes hex digits, up to a comma or the end, from the front of `text`. False if they are none, or
// do not spell a row.
bool TakeColumns(std::string_view* text, std::string* columns) {
  const std::string_view hex = text->substr(0, text->find(','));
  if (hex.empty() || hex.size() % 2 != 0 || hex.size() / 2 > kMostColumnsBytes) return false;
  for (std::size_t at = 0; at < hex.size(); at += 2) {
    unsigned byte = 0;
    const char* const end = hex.data() + at + 2;
    if (std::from_chars(hex.data() + at, end, byte, 16).ptr != end) return false;
    *columns += static_cast<char>(byte);
  }
  text->remove_prefix(hex.size());
  return true;
}

class Csv final : public Format {
 public:
  explicit Csv(const CsvLayout& layout, std::string lacking = {},
               std::shared_ptr<const CsvOrder> order = nullptr)
      : layout_(layout), lacking_(std::move(lacking)), order_(std::move(order)) {
    name_ = layout.delimiter == '\t' ? "tsv" : "csv";
    std::string_view before = ":";
    if (layout.delimiter != '\t' && layout.delimiter != ',') {
      name_ += std::string(before) + "delimiter=" +
               (layout.delimiter == ' ' ? std::string("space") : std::string(1, layout.delimiter));
      before = ",";
    }
    if (!layout.header) return;
    name_ += std::string(before) + "header";
    if (!layout.columns.empty()) name_ += "=" + HexOf(layout.columns);
  }

  std::string_view name() const override { return name_; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(layout_.delimiter == '\t' ? ".tsv" : ".csv");
  }
  bool MatchesBytes(std::span<const std::byte>) const override { return false; }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<TextFramer<CsvScanner>>(
        options, HeaderRow{layout_.header, layout_.columns, lacking_, order_},
        CsvScanner(layout_.delimiter));
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<TextUnitFramer<CsvScanner>>(options, CsvScanner(layout_.delimiter),
                                                        order_);
  }
  // Not if there is a header: the columns' names are not known here.
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    if (layout_.header) return Format::NewWriter(nullptr);
    return {Status(), std::make_unique<CsvWriter>(std::move(file), layout_.delimiter)};
  }

  std::shared_ptr<const Format> OfFile(Compression compression,
                                       std::span<const std::byte> head) const override;

 private:
  const CsvLayout layout_;
  const std::string lacking_;
  const std::shared_ptr<const CsvOrder> order_;
  std::string name_;
};

std::shared_ptr<const Format> Csv::OfFile(Compression compression,
                                          std::span<const std::byte> head) const {
  if (layout_.columns.empty()) return nullptr;
  std::vector<std::byte> content;
  if (compression != Compression::kNone) {
    Status end;
    content = HeadOfContent(compression, head, kMostColumnsBytes, &end);
    head = content;
  }
  FrameOutput rows;
  FramerOptions options;
  options.max_record_bytes = kMostColumnsBytes;
  const FrameInput input{.bytes = head, .limit = head.size(), .at_end = false};
  TextFramer<CsvScanner> framer(options, {}, CsvScanner(layout_.delimiter));
  (void)framer.Frame(input, &rows);
  if (rows.records.empty()) return nullptr;
  const std::span<const std::byte> first = rows.records.front().bytes();
  CsvLayout own = layout_;
  own.columns.assign(reinterpret_cast<const char*>(first.data()), first.size());
  if (own.columns == layout_.columns) return nullptr;
  std::string lacking;
  auto order =
      std::make_shared<const CsvOrder>(layout_.columns, own.columns, layout_.delimiter, &lacking);
  if (lacking.empty()) return std::make_shared<const Csv>(own, "", std::move(order));
  return std::make_shared<const Csv>(layout_, std::move(lacking));
}

struct DelimiterName {
  std::string_view name;
  char delimiter;
};
constexpr DelimiterName kDelimiterNames[] = {{"tab", '\t'}, {"space", ' '}, {"comma", ','}};

// Takes "X" or a name, up to a comma or the end, from the front of `text`.
bool TakeDelimiter(std::string_view* text, char* delimiter) {
  const auto ends = [&](std::size_t size) { return text->size() == size || (*text)[size] == ','; };
  for (const DelimiterName& known : kDelimiterNames) {
    if (!text->starts_with(known.name) || !ends(known.name.size())) continue;
    *delimiter = known.delimiter;
    text->remove_prefix(known.name.size());
    return true;
  }
  if (text->empty() || !ends(1)) return false;
  *delimiter = text->front();
  text->remove_prefix(1);
  return *delimiter != '"' && *delimiter != '\n' && *delimiter != '\r';
}

}  // namespace

Status ParseCsvLayout(std::string_view text, CsvLayout* layout) {
  constexpr std::string_view kDelimiter = "delimiter=";
  constexpr std::string_view kHeader = "header";
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    bool good = false;
    if (rest.starts_with(kDelimiter)) {
      rest.remove_prefix(kDelimiter.size());
      good = TakeDelimiter(&rest, &layout->delimiter);
    } else if (rest.starts_with(kHeader)) {
      rest.remove_prefix(kHeader.size());
      good = layout->header = true;
      if (rest.starts_with('=')) {
        rest.remove_prefix(1);
        layout->columns.clear();
        good = TakeColumns(&rest, &layout->columns);
      }
    }
    if (!good || (!rest.empty() && rest.front() != ',')) {
      return Status(
          StatusCode::kInvalidArgument,
          "format parameters \"" + std::string(text) +
              "\": expected [delimiter=C][,header[=HEX]], C one byte that is no quote "
              "and no line end, or tab, space, comma, HEX the bytes of the first row" +
              DidYouMeanWord(word, std::array<std::string, 3>{"header", "header=", "delimiter="}));
    }
    rest.remove_prefix(std::min<std::size_t>(1, rest.size()));
  }
  return {};
}

std::shared_ptr<const Format> CsvFormat(const CsvLayout& layout) {
  return std::make_shared<const Csv>(layout);
}

}  // namespace ringfeed
