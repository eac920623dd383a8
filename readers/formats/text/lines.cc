#include <cstring>
#include <string>
#include <utility>

#include "readers/formats/text/text_formats.h"
#include "readers/formats/text/text_framer.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

class LineScanner {
 public:
  static constexpr bool kEmptyRowsCount = true;
  static constexpr bool kPassesByteOrderMark = false;

  void Start() { scanned_ = 0; }
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
  using FileRecordWriter::FileRecordWriter;

 private:
  Status Append(std::span<const std::byte> record) override {
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
};

// Whether the head's first line is there and is, by its ends and its bytes, a JSON object. The
// first bytes of binary formats hold zeros or other controls soon.
bool StartsWithObject(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
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

class Lines final : public Format {
 public:
  explicit Lines(bool json) : json_(json) {}

  std::string_view name() const override { return json_ ? "jsonl" : "lines"; }
  bool MatchesName(std::string_view file_name) const override {
    return json_ ? file_name.ends_with(".jsonl") || file_name.ends_with(".ndjson")
                 : file_name.ends_with(".txt");
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return json_ && StartsWithObject(head);
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<TextFramer<LineScanner>>(options, HeaderRow(), LineScanner());
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<TextUnitFramer<LineScanner>>(options, LineScanner());
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t offset) const override {
    auto framer = std::make_unique<TextFramer<LineScanner>>(options, HeaderRow(), LineScanner());
    framer->PassRestOfRow(offset, "where its line begins is lost");
    return framer;
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), std::make_unique<LinesWriter>(std::move(file))};
  }

 private:
  const bool json_;
};

}  // namespace

std::shared_ptr<const Format> LinesFormat() { return std::make_shared<const Lines>(false); }
std::shared_ptr<const Format> JsonLinesFormat() { return std::make_shared<const Lines>(true); }

}  // namespace ringfeed
