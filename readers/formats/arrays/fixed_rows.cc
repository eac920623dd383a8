#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "base/edit_distance.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/stepped_framer.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

// A row is copied as one piece and rows are counted in 64 bits: this keeps sums far from overflow.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;

class FixedRowsFramer final : public SteppedFramer {
 public:
  FixedRowsFramer(const FixedRowsLayout& layout, const FramerOptions& options)
      : SteppedFramer(options), layout_(layout) {}

 private:
  void Run(FrameCall* call) override;
  std::uint64_t NextRowAt(std::uint64_t offset) const;
  FrameStep ShortTail(std::uint64_t at, std::uint64_t end, FrameCall* call);

  const FixedRowsLayout layout_;
  bool ended_ = false;
};

// The first place at or after `offset` at which a row starts.
std::uint64_t FixedRowsFramer::NextRowAt(std::uint64_t offset) const {
  if (offset <= layout_.header_bytes) return layout_.header_bytes;
  const std::uint64_t into = (offset - layout_.header_bytes) % layout_.stride_bytes;
  return into == 0 ? offset : offset + (layout_.stride_bytes - into);
}

void FixedRowsFramer::Run(FrameCall* call) {
  const FrameInput& input = call->input;
  if (Status too_long = CheckRowBytes(layout_.row_bytes, options_); !too_long.ok()) {
    (void)Fail(too_long.WithPlace({options_.file, 0, 0}), call);
    return;
  }
  const std::uint64_t end = call->end();
  const RowsInFile rows{layout_.row_bytes, layout_.stride_bytes};
  const std::uint64_t at = AppendRows(rows, NextRowAt(input.offset), end, call);
  call->pos = static_cast<std::size_t>(std::min(at, end) - input.offset);
  const std::uint64_t file_end = known_size() ? options_.file_bytes : end;
  // A file that ends in its header has no row that starts before a limit.
  const bool in_header = (known_size() || input.at_end) && file_end < layout_.header_bytes;
  if (ended_ || (at >= input.limit && !in_header)) return;
  const bool cut =
      known_size() && (in_header || (at < file_end && file_end - at < layout_.row_bytes));
  if (input.at_end || cut) {
    ended_ = true;
    const bool is_short = at < file_end || in_header;
    if (is_short && ShortTail(in_header ? 0 : at, file_end, call) == FrameStep::kStop) return;
    (void)call->PassRest(0);
    return;
  }
  if (at >= file_end && known_size()) return;
  (void)call->Need(at > end ? 1 : layout_.row_bytes);  // padding or the header goes on, or a row
  if (end < layout_.header_bytes && call->pos > 0) {
    // A byte of a header that goes on stays: without one the framer is not called at the end.
    --call->pos;
    (void)call->Need(2);
  }
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
FrameStep FixedRowsFramer::ShortTail(std::uint64_t at, std::uint64_t end, FrameCall* call) {
  const bool in_header = at < layout_.header_bytes;
  next_record_ =
      in_header ? -1
                : static_cast<std::int64_t>((at - layout_.header_bytes) / layout_.stride_bytes);
  return Damaged(StatusCode::kTruncated, TailReason(layout_, at, end), at, end, call);
}

class FixedRowUnitFramer final : public UnitFramer {
 public:
  FixedRowUnitFramer(const FixedRowsLayout& layout, const FramerOptions& options)
      : UnitFramer(options), row_bytes_(static_cast<std::size_t>(layout.row_bytes)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.size() < row_bytes_ || records != 1) {
      return Lose(unit, records, "the file ends inside a row", output);
    }
    output->records.push_back({unit.bytes.data(), row_bytes_});
    return {};
  }

 private:
  const std::size_t row_bytes_;
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
  bool has_fixed_places() const override { return true; }
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

bool ReadSize(std::string_view text, std::uint64_t* value) {
  const std::optional<std::size_t> bytes = ParseByteSize(text);
  *value = bytes.value_or(0);
  return bytes && *bytes <= kMostBytes;
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
    if (!ReadSize(number, target)) return bad("\"" + std::string(number) + "\" is no size");
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
