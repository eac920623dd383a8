#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "base/edit_distance.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/format.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

// A row is copied as one piece and rows are counted in 64 bits: this keeps sums far from overflow.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

class FixedRowsFramer final : public Framer {
 public:
  FixedRowsFramer(const FixedRowsLayout& layout, const FramerOptions& options)
      : layout_(layout),
        options_(options),
        failed_(CheckRowBytes(layout.row_bytes, options).WithPlace({options.file, 0, 0})) {}

  FrameResult Frame(const FrameInput& input, FrameOutput* output) override;

 private:
  std::uint64_t NextRowAt(std::uint64_t offset) const;
  std::uint64_t AppendRows(const FrameInput& input, std::uint64_t at, FrameOutput* output) const;
  void ShortTail(std::uint64_t at, std::uint64_t end, FrameOutput* output, FrameResult* result);

  const FixedRowsLayout layout_;
  const FramerOptions options_;
  bool ended_ = false;
  Status failed_;
};

// The first place at or after `offset` at which a row starts.
std::uint64_t FixedRowsFramer::NextRowAt(std::uint64_t offset) const {
  if (offset <= layout_.header_bytes) return layout_.header_bytes;
  const std::uint64_t into = (offset - layout_.header_bytes) % layout_.stride_bytes;
  return into == 0 ? offset : offset + (layout_.stride_bytes - into);
}

// Appends the whole rows from `at` on. Returns the place of the first one that is not whole, or
// that is not wanted.
std::uint64_t FixedRowsFramer::AppendRows(const FrameInput& input, std::uint64_t at,
                                          FrameOutput* output) const {
  const std::uint64_t end = input.offset + input.bytes.size();
  if (at >= input.limit || at + layout_.row_bytes > end) return at;
  const std::uint64_t stride = layout_.stride_bytes;
  const std::uint64_t whole = (end - at - layout_.row_bytes) / stride + 1;
  const std::uint64_t wanted = (input.limit - at - 1) / stride + 1;
  const auto rows = static_cast<std::size_t>(std::min(whole, wanted));
  const std::byte* data = input.bytes.data() + (at - input.offset);
  const std::size_t base = output->records.size();
  output->records.resize(base + rows);
  for (std::size_t row = 0; row < rows; ++row, data += stride) {
    output->records[base + row] = {data, static_cast<std::size_t>(layout_.row_bytes)};
  }
  return at + rows * stride;
}

FrameResult FixedRowsFramer::Frame(const FrameInput& input, FrameOutput* output) {
  FrameResult result;
  result.status = failed_;
  if (!failed_.ok()) return result;
  const std::uint64_t end = input.offset + input.bytes.size();
  const std::uint64_t at = AppendRows(input, NextRowAt(input.offset), output);
  result.consumed = static_cast<std::size_t>(std::min(at, end) - input.offset);
  const bool known = options_.file_bytes != kUnknownSize;
  const std::uint64_t file_end = known ? options_.file_bytes : end;
  // A file that ends in its header has no row that starts before a limit.
  const bool in_header = (known || input.at_end) && file_end < layout_.header_bytes;
  if (ended_ || (at >= input.limit && !in_header)) return result;
  const bool cut = known && (in_header || (at < file_end && file_end - at < layout_.row_bytes));
  if (input.at_end || cut) {
    ended_ = true;
    if (at < file_end || in_header) {
      ShortTail(in_header ? 0 : at, file_end, output, &result);
    }
    if (result.status.ok()) result.consumed = input.bytes.size();
    return result;
  }
  if (at >= file_end && known) return result;
  result.need_bytes = static_cast<std::size_t>(at + layout_.row_bytes - std::min(at, end));
  if (at > end) result.need_bytes = 1;  // padding or the header goes on
  if (end < layout_.header_bytes && result.consumed > 0) {
    // A byte of a header that goes on stays: without one the framer is not called at the end.
    --result.consumed;
    result.need_bytes = 2;
  }
  return result;
}

// Why the bytes from `at` on are no row.
std::string TailReason(const FixedRowsLayout& layout, std::uint64_t at, std::uint64_t end) {
  return at < layout.header_bytes
             ? "the file ends inside its header of " + std::to_string(layout.header_bytes) +
                   " bytes"
             : std::to_string(end - at) + " bytes at the end are not a row of " +
                   std::to_string(layout.row_bytes) + ", or the file shrank";
}

// The file ends inside a row or the header, or earlier than it did when it was opened.
void FixedRowsFramer::ShortTail(std::uint64_t at, std::uint64_t end, FrameOutput* output,
                                FrameResult* result) {
  const bool in_header = at < layout_.header_bytes;
  const std::string reason = TailReason(layout_, at, end);
  if (options_.on_damage == OnDamage::kSkip) {
    output->damage.push_back({options_.file, at, end, reason});
    return;
  }
  const std::int64_t row =
      in_header ? -1
                : static_cast<std::int64_t>((at - layout_.header_bytes) / layout_.stride_bytes);
  failed_ =
      Status(StatusCode::kTruncated, reason, {options_.file, static_cast<std::int64_t>(at), row});
  result->status = failed_;
}

class FixedRowUnitFramer final : public UnitFramer {
 public:
  FixedRowUnitFramer(const FixedRowsLayout& layout, const FramerOptions& options)
      : row_bytes_(static_cast<std::size_t>(layout.row_bytes)), lost_(options) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.size() < row_bytes_ || records != 1) {
      return lost_.Lose(unit, records, "the file ends inside a row", output);
    }
    output->records.push_back({unit.bytes.data(), row_bytes_});
    return {};
  }

 private:
  const std::size_t row_bytes_;
  const LostUnits lost_;
};

class FixedRowsWriter final : public FileRecordWriter {
 public:
  FixedRowsWriter(std::unique_ptr<OutputFile> file, const FixedRowsLayout& layout)
      : FileRecordWriter(std::move(file)), layout_(layout), zeros_due_(layout.header_bytes) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    if (record.size() != layout_.row_bytes) {
      return Status(StatusCode::kInvalidArgument, "a row of " + std::to_string(record.size()) +
                                                      " bytes was written where each has " +
                                                      std::to_string(layout_.row_bytes));
    }
    Status status = file().AppendZeros(static_cast<std::size_t>(zeros_due_));
    zeros_due_ = layout_.stride_bytes - layout_.row_bytes;
    return status.ok() ? file().Append(record) : status;
  }
  Status Finish() override { return file().AppendZeros(static_cast<std::size_t>(zeros_due_)); }

  const FixedRowsLayout layout_;
  std::uint64_t zeros_due_;  // the header before the first row, padding after each
};

class FixedRows final : public Format {
 public:
  explicit FixedRows(const FixedRowsLayout& layout) : layout_(layout) {
    name_ = "rows:" + std::to_string(layout.row_bytes);
    if (layout.header_bytes != 0) name_ += ",header=" + std::to_string(layout.header_bytes);
    if (layout.stride_bytes != layout.row_bytes) {
      name_ += ",stride=" + std::to_string(layout.stride_bytes);
    }
  }

  std::string_view name() const override { return name_; }
  // Nothing in a name or in bytes tells how long a row is.
  bool MatchesName(std::string_view) const override { return false; }
  bool MatchesBytes(std::span<const std::byte>) const override { return false; }
  bool decompresses() const override { return false; }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return std::make_unique<FixedRowsFramer>(layout_, options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<FixedRowUnitFramer>(layout_, options);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> head) const override;
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), std::make_unique<FixedRowsWriter>(std::move(file), layout_)};
  }

 private:
  const FixedRowsLayout layout_;
  std::string name_;
};

OwnIndexResult FixedRows::OwnIndex(const FramerOptions& options,
                                   std::span<const std::byte> /*head*/) const {
  if (Status status = CheckRowBytes(layout_.row_bytes, options); !status.ok()) {
    return {std::move(status), nullptr};
  }
  FixedIndex::Layout fixed;
  const std::uint64_t bytes = options.file_bytes;
  fixed.units = {layout_.header_bytes, layout_.row_bytes, layout_.stride_bytes};
  fixed.file_bytes = bytes;
  const auto lose_from = [&](std::uint64_t at) {
    fixed.damage.push_back({at, bytes, IndexDamage::kNoRecord, TailReason(layout_, at, bytes)});
  };
  if (bytes < layout_.header_bytes) {
    if (bytes != 0) lose_from(0);
  } else {
    const std::uint64_t left = bytes - layout_.header_bytes;
    const std::uint64_t stride = layout_.stride_bytes;
    const bool last_is_whole = left % stride >= layout_.row_bytes;
    fixed.records = left / stride + (last_is_whole ? 1 : 0);
    // Fewer bytes than a row are left. Padding after the last row is no record.
    const std::uint64_t at = layout_.header_bytes + fixed.records * stride;
    if (bytes > at) lose_from(at);
  }
  return {Status(), std::make_shared<const FixedIndex>(std::move(fixed))};
}

bool ReadNumber(std::string_view text, std::uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value <= kMostBytes;
}

}  // namespace

Status ParseFixedRowsLayout(std::string_view text, FixedRowsLayout* layout) {
  const auto bad = [&](const std::string& why) {
    return Status(StatusCode::kInvalidArgument,
                  "format \"rows:" + std::string(text) + "\": " + why +
                      "; expected rows:BYTES[,header=BYTES][,stride=BYTES]");
  };
  *layout = {};
  std::string_view rest = text;
  for (bool first = true; first || !rest.empty(); first = false) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    std::uint64_t* target = nullptr;
    std::string_view number = word;
    if (first) {
      target = &layout->row_bytes;
    } else if (word.starts_with("header=")) {
      target = &layout->header_bytes;
      number.remove_prefix(7);
    } else if (word.starts_with("stride=")) {
      target = &layout->stride_bytes;
      number.remove_prefix(7);
    }
    if (target == nullptr) {
      const std::array<std::string, 2> words = {"header=", "stride="};
      return bad("\"" + std::string(word) + "\" is unknown" + DidYouMeanWord(word, words));
    }
    if (!ReadNumber(number, target)) return bad("\"" + std::string(number) + "\" is no size");
  }
  if (layout->row_bytes == 0) return bad("a row has at least one byte");
  if (layout->stride_bytes == 0) layout->stride_bytes = layout->row_bytes;
  if (layout->stride_bytes < layout->row_bytes) return bad("the stride is shorter than a row");
  return {};
}

std::shared_ptr<const Format> FixedRowsFormat(const FixedRowsLayout& layout) {
  return std::make_shared<const FixedRows>(layout);
}

}  // namespace ringfeed
