#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "readers/formats/text/text_formats.h"
#include "readers/formats/text/text_framer.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The blanks that JSON has between its tokens, besides the end of a line.
bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// A line of JSON lines is a value, so a blank line is no record, nor is a byte order mark.
template <bool kJson>
class LineScanner {
 public:
  static constexpr bool kPassesByteOrderMark = kJson;
  static constexpr bool kHasQuotes = false;

  static bool IsNoRow(const std::byte* line, std::size_t size) {
    if (!kJson) return false;
    if (size != 0 && std::to_integer<unsigned>(*line) > ' ') [[likely]]
      return false;
    return IsBlank({reinterpret_cast<const char*>(line), size});
  }
  static bool HasBareReturn(const std::byte* line, std::size_t size) {
    return size != 0 && std::memchr(line, '\r', size) != nullptr;
  }

  void Start() { scanned_ = 0; }
  bool IsAtStart() const { return scanned_ == 0; }
  std::size_t FindEnd(const std::byte* line, std::size_t size) {
    if (scanned_ >= size) return kNoRowEnd;
    const void* end = std::memchr(line + scanned_, '\n', size - scanned_);
    if (end != nullptr) {
      return static_cast<std::size_t>(static_cast<const std::byte*>(end) - line);
    }
    scanned_ = size;
    return kNoRowEnd;
  }
  void DropScanned() { scanned_ = 0; }
  std::string_view OpenReason() const { return {}; }

 private:
  std::size_t scanned_ = 0;  // bytes of the line that hold no LF
};

class LinesWriter final : public FileRecordWriter {
 public:
  LinesWriter(std::unique_ptr<OutputFile> file, bool json)
      : FileRecordWriter(std::move(file)), json_(json) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    const std::string_view text(reinterpret_cast<const char*>(record.data()), record.size());
    if (json_ && (IsBlank(text) || (first_ && text.starts_with(kByteOrderMark)))) {
      return Status(StatusCode::kInvalidArgument,
                    "a record that is blank, or begins with a byte order mark, cannot be written "
                    "as a line of JSON: it would be passed over");
    }
    first_ = false;
    if (!record.empty() && std::memchr(record.data(), '\n', record.size()) != nullptr) {
      return Status(StatusCode::kInvalidArgument,
                    "a record that holds a line feed cannot be written as a line");
    }
    if (!record.empty() && record.back() == std::byte{'\r'}) {
      return Status(StatusCode::kInvalidArgument,
                    "a record that ends in a carriage return cannot be written as a line: it would "
                    "be read as a part of the line's end");
    }
    Status status = file().Append(record);
    constexpr std::byte kEnd{'\n'};
    return status.ok() ? file().Append({&kEnd, 1}) : status;
  }

  const bool json_;
  bool first_ = true;
};

// Whether the head has a whole first line that is, by its ends and its bytes, a JSON object. The
// first bytes of binary formats soon have zeros or other controls.
bool StartsWithObject(std::span<const std::byte> head) {
  std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (!text.starts_with("{")) return false;
  std::string_view line = text.substr(0, text.find('\n'));
  if (line.size() == text.size()) return false;
  if (line.ends_with('\r')) line.remove_suffix(1);
  for (const char c : line) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t') return false;
  }
  const std::size_t second = line.find_first_not_of(" \t", 1);
  return line.ends_with('}') && second != std::string_view::npos &&
         (line[second] == '"' || second + 1 == line.size());
}

template <bool kJson>
class Lines final : public Format {
 public:
  std::string_view name() const override { return kJson ? "jsonl" : "lines"; }
  bool MatchesName(std::string_view file_name) const override {
    return kJson ? file_name.ends_with(".jsonl") || file_name.ends_with(".ndjson")
                 : file_name.ends_with(".txt");
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return kJson && StartsWithObject(head);
  }
  bool MayHold(Mistake mistake, bool asked) const override {
    if (kJson && mistake == Mistake::kErrorObject) return true;  // it may be a line
    return !kJson && asked ? mistake != Mistake::kPointer : Format::MayHold(mistake, asked);
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<TextFramer<Scanner>>(options, HeaderRow(), Scanner());
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<TextUnitFramer<Scanner>>(options, Scanner());
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t offset) const override {
    auto framer = std::make_unique<TextFramer<Scanner>>(options, HeaderRow(), Scanner());
    framer->PassRestOfRow(offset, "where its line begins is lost");
    return framer;
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), std::make_unique<LinesWriter>(std::move(file), kJson)};
  }

 private:
  using Scanner = LineScanner<kJson>;
};

}  // namespace

bool IsTextFormat(std::string_view format_name) {
  const std::string_view family = format_name.substr(0, format_name.find(':'));
  return family == "lines" || family == "jsonl" || family == "csv" || family == "tsv";
}

std::shared_ptr<const Format> LinesFormat() { return std::make_shared<const Lines<false>>(); }
std::shared_ptr<const Format> JsonLinesFormat() { return std::make_shared<const Lines<true>>(); }

}  // namespace ringfeed
