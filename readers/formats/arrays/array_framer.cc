#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/memory/arena_advice.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/format.h"

namespace ringfeed {

Status FixedIndex::Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const {
  const FixedUnits& fixed = layout_.units;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::uint64_t offset = fixed.offset + records[i] * fixed.stride_bytes;
    if (layout_.lost) {
      units[i] = {offset, 0, records[i], 1, true};
      continue;
    }
    const std::uint64_t left = layout_.file_bytes - std::min(layout_.file_bytes, offset);
    const std::uint64_t bytes = std::max(fixed.stride_bytes, fixed.record_bytes);
    units[i] = {offset, std::min(bytes, left), records[i], 1};
  }
  return {};
}

Status FixedIndex::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  const FixedUnits& fixed = layout_.units;
  *record = 0;
  if (offset <= fixed.offset) return {};
  const std::uint64_t into = offset - fixed.offset;
  const std::uint64_t stride = std::max<std::uint64_t>(fixed.stride_bytes, 1);
  *record = std::min(layout_.records, into / stride + (into % stride != 0 ? 1 : 0));
  return {};
}

std::optional<FixedUnits> FixedIndex::fixed() const {
  const FixedUnits& units = layout_.units;
  if (layout_.lost) return std::nullopt;
  if (layout_.records == 0) return units;
  const std::uint64_t last = units.offset + (layout_.records - 1) * units.stride_bytes;
  if (last + units.record_bytes > layout_.file_bytes) return std::nullopt;
  return units;
}

namespace {

constexpr const char* kCutHeader = "the file ends inside its header";
constexpr const char* kGoesOn = "the file goes on after its array";

std::string CutArray(std::uint64_t left, std::uint64_t row_bytes) {
  return "the file ends inside its array: " + std::to_string(left) +
         " bytes are left where a row has " + std::to_string(row_bytes);
}

// OK if the reader's parser accepts the elements for what they are.
Status Misread(const FramerOptions& options, const ArrayHeader& header) {
  if (options.check_elements == nullptr || !header.elements) return {};
  return options.check_elements(*header.elements).WithPlace({options.file, -1, -1});
}

class ArrayFramer final : public Framer {
 public:
  ArrayFramer(const FramerOptions& options, ReadArrayHeader read_header)
      : options_(options), read_header_(std::move(read_header)) {}

  FrameResult Frame(const FrameInput& input, FrameOutput* output) override;

 private:
  bool HeaderIsRead(const FrameInput& input, FrameOutput* output, FrameResult* result);
  bool Gathered(const FrameInput& input, FrameOutput* output, FrameResult* result);
  void GatherRow(const std::byte* data, std::uint64_t row, std::byte* to) const;
  std::uint64_t AppendRows(const FrameInput& input, std::uint64_t at, FrameOutput* output);
  void EndOfData(const FrameInput& input, std::uint64_t at, FrameOutput* output,
                 FrameResult* result);
  void Damaged(StatusCode code, const std::string& reason, std::uint64_t at,
               const FrameInput& input, FrameOutput* output, FrameResult* result);
  void NoteRest(const FrameInput& input, FrameOutput* output);

  bool open_ended() const { return layout_.data_bytes == kUnknownSize; }
  /// The end of the data, by the header or by the file.
  std::uint64_t DataEnd(std::uint64_t file_end) const {
    return open_ended() ? file_end : std::min(file_end, layout_.header_bytes + layout_.data_bytes);
  }
  std::uint64_t FileEnd(const FrameInput& input) const {
    return input.at_end ? input.offset + input.bytes.size() : options_.file_bytes;
  }

  const FramerOptions options_;
  const ReadArrayHeader read_header_;
  bool ready_ = false;
  bool done_ = false;
  ArrayLayout layout_;
  std::int64_t next_record_ = 0;
  std::optional<DamagedRange> rest_;  // damage that reaches to the end of the file
  Status failed_;
};

FrameResult ArrayFramer::Frame(const FrameInput& input, FrameOutput* output) {
  FrameResult result;
  result.status = failed_;
  if (!failed_.ok()) return result;
  if (!ready_ && !HeaderIsRead(input, output, &result)) return result;
  result.consumed = input.bytes.size();
  if (done_) {
    NoteRest(input, output);
    return result;
  }
  if (!layout_.column_major.empty()) {
    if (Gathered(input, output, &result)) return result;
    result.consumed = 0;
    return result;
  }
  const std::uint64_t at = AppendRows(input, std::max(input.offset, layout_.header_bytes), output);
  result.consumed = static_cast<std::size_t>(at - input.offset);
  if (at >= input.limit && at < FileEnd(input)) return result;  // the next stripe goes on
  const std::uint64_t data_end = DataEnd(FileEnd(input));
  if (layout_.row_bytes <= data_end - at) {
    result.need_bytes = static_cast<std::size_t>(layout_.row_bytes);
    return result;
  }
  EndOfData(input, at, output, &result);
  return result;
}

bool ArrayFramer::HeaderIsRead(const FrameInput& input, FrameOutput* output, FrameResult* result) {
  ArrayHeader header = read_header_(input.bytes);
  if (header.need_bytes > input.bytes.size()) {
    if (FileEnd(input) >= header.need_bytes) {
      result->need_bytes = header.need_bytes;
      return false;
    }
    header.status = Status(StatusCode::kTruncated, kCutHeader);
  }
  ready_ = true;
  layout_ = std::move(header.layout);
  if (header.status.ok()) header.status = CheckRowBytes(layout_.row_bytes, options_);
  if (header.status.ok()) {
    failed_ = Misread(options_, header);
    result->status = failed_;
    return failed_.ok();
  }
  Damaged(header.status.code(), header.status.message(), 0, input, output, result);
  return false;
}

// Appends the whole rows from `at` on that start before the limit. Returns the end of the last one.
std::uint64_t ArrayFramer::AppendRows(const FrameInput& input, std::uint64_t at,
                                      FrameOutput* output) {
  const std::uint64_t end = std::min(input.offset + input.bytes.size(), DataEnd(FileEnd(input)));
  if (at >= input.limit || at >= end) return at;
  const std::uint64_t bytes = layout_.row_bytes;
  const std::uint64_t stride = layout_.stride();
  const std::uint64_t wanted = (input.limit - at - 1) / stride + 1;
  const std::uint64_t whole = end - at < bytes ? 0 : (end - at - bytes) / stride + 1;
  const auto rows = static_cast<std::size_t>(std::min(whole, wanted));
  const std::byte* data = input.bytes.data() + (at - input.offset);
  const std::size_t base = output->records.size();
  output->records.resize(base + rows);
  for (std::size_t row = 0; row < rows; ++row, data += stride) {
    output->records[base + row] = {data, static_cast<std::size_t>(bytes)};
  }
  next_record_ += static_cast<std::int64_t>(rows);
  return at + rows * stride;
}

// Fewer bytes than a row are left of the data.
void ArrayFramer::EndOfData(const FrameInput& input, std::uint64_t at, FrameOutput* output,
                            FrameResult* result) {
  const std::uint64_t end = input.offset + input.bytes.size();
  const std::uint64_t file_end = FileEnd(input);
  const std::uint64_t data_end = DataEnd(file_end);
  const std::uint64_t left = data_end - at;
  const std::uint64_t tail = layout_.TailOf(left, at > layout_.header_bytes);
  const bool complete = open_ended() ? left % layout_.item_bytes == 0
                                     : data_end == layout_.header_bytes + layout_.data_bytes;
  if (data_end > end || (end == data_end && file_end > end && !input.at_end)) {
    // One byte beyond tells whether the file goes on.
    const std::uint64_t beyond = data_end < file_end ? 1 : 0;
    result->need_bytes = static_cast<std::size_t>(left + beyond);
    return;
  }
  done_ = true;
  result->consumed = input.bytes.size();
  if (!complete) {
    Damaged(StatusCode::kTruncated, CutArray(left, layout_.row_bytes), data_end - tail, input,
            output, result);
    return;
  }
  if (tail != 0 && layout_.short_tail && !layout_.drop_tail) {
    output->records.push_back(
        {input.bytes.data() + (at - input.offset), static_cast<std::size_t>(left)});
    ++next_record_;
  }
  if (file_end > data_end) {
    Damaged(StatusCode::kDamaged, kGoesOn, data_end, input, output, result);
  }
}

// Rows of an array whose columns are contiguous. False: nothing can be consumed yet.
bool ArrayFramer::Gathered(const FrameInput& input, FrameOutput* output, FrameResult* result) {
  const std::uint64_t array_end = layout_.header_bytes + layout_.data_bytes;
  if (layout_.data_bytes > options_.max_record_bytes) {
    Damaged(StatusCode::kResourceExhausted,
            "an array in Fortran order is gathered as a whole: its " +
                std::to_string(layout_.data_bytes) + " bytes are more than max_record_bytes (" +
                std::to_string(options_.max_record_bytes) + ")",
            layout_.header_bytes, input, output, result);
    return true;
  }
  if (array_end > FileEnd(input)) {
    Damaged(StatusCode::kTruncated, "the file ends inside its array in Fortran order",
            layout_.header_bytes, input, output, result);
    return true;
  }
  if (array_end > input.bytes.size()) {
    result->need_bytes = static_cast<std::size_t>(array_end);
    return false;
  }
  const auto bytes = static_cast<std::size_t>(layout_.data_bytes);
  std::byte* to = input.memory->Allocate(std::max<std::size_t>(bytes, 1));
  if (to == nullptr) {
    failed_ = Status(StatusCode::kResourceExhausted,
                     NoMemoryFor("an array of " + std::to_string(bytes) + " bytes"),
                     {options_.file, static_cast<std::int64_t>(layout_.header_bytes), 0});
    result->status = failed_;
    return true;
  }
  const std::byte* const data = input.bytes.data() + layout_.header_bytes;
  for (std::uint64_t row = 0; row < layout_.column_major[0]; ++row) {
    GatherRow(data, row, to);
    output->records.push_back({to, static_cast<std::size_t>(layout_.row_bytes)});
    to += layout_.row_bytes;
    ++next_record_;
  }
  layout_.column_major.clear();
  // What follows the array is checked as after any other array.
  result->consumed = static_cast<std::size_t>(array_end);
  if (array_end < input.limit) EndOfData(input, array_end, output, result);
  return true;
}

// Elements of one row in C order: the last index runs fastest. In the file the first one does.
void ArrayFramer::GatherRow(const std::byte* data, std::uint64_t row, std::byte* to) const {
  const std::vector<std::uint64_t>& shape = layout_.column_major;
  const std::uint64_t item = layout_.item_bytes;
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  std::vector<std::uint64_t> index(shape.size(), 0);
  std::uint64_t element = row;
  for (std::uint64_t done = 0; done < layout_.row_bytes; done += item) {
    std::memcpy(to + done, data + element * item, static_cast<std::size_t>(item));
    for (std::size_t i = shape.size(); i-- > 1;) {
      element += strides[i];
      if (++index[i] < shape[i]) break;
      element -= strides[i] * shape[i];
      index[i] = 0;
    }
  }
}

void ArrayFramer::Damaged(StatusCode code, const std::string& reason, std::uint64_t at,
                          const FrameInput& input, FrameOutput* output, FrameResult* result) {
  done_ = true;
  result->consumed = input.bytes.size();
  result->need_bytes = 0;
  // What is unsupported, or larger than the user allows, is not damage that can be skipped.
  const bool skips = code == StatusCode::kDamaged || code == StatusCode::kTruncated;
  if (options_.on_damage == OnDamage::kFail || !skips) {
    failed_ = Status(code, reason, {options_.file, static_cast<std::int64_t>(at), next_record_});
    result->status = failed_;
    return;
  }
  rest_.emplace(DamagedRange{options_.file, at, at, reason});
  NoteRest(input, output);
}

// Reports the rest of the file once its end is known. An array may lack whole rows, so that there
// is no rest: that is reported too, except for a file of no bytes.
void ArrayFramer::NoteRest(const FrameInput& input, FrameOutput* output) {
  const bool known = options_.file_bytes != kUnknownSize;
  if (!rest_ || (!known && !input.at_end)) return;
  rest_->end = known ? options_.file_bytes : input.offset + input.bytes.size();
  if (rest_->end != 0 && rest_->begin <= rest_->end) output->damage.push_back(std::move(*rest_));
  rest_.reset();
}

/// A row is all of its unit: the index has the row's size from the header.
class ArrayUnitFramer final : public UnitFramer {
 public:
  explicit ArrayUnitFramer(const FramerOptions& options) : lost_(options) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty() || records != 1) return lost_.Lose(unit, records, kLostBefore, output);
    output->records.push_back({unit.bytes.data(), unit.bytes.size()});
    return {};
  }

 private:
  const LostUnits lost_;
};

// The same records that ArrayFramer delivers if it skips damage.
FixedIndex::Layout LayOutIndex(const ArrayLayout& layout, std::uint64_t file_bytes) {
  FixedIndex::Layout fixed;
  const std::uint64_t room = file_bytes - std::min(file_bytes, layout.header_bytes);
  const bool open_ended = layout.data_bytes == kUnknownSize;
  const std::uint64_t data = open_ended ? room : std::min(room, layout.data_bytes);
  fixed.records = data < layout.row_bytes ? 0 : (data - layout.row_bytes) / layout.stride() + 1;
  const std::uint64_t left = data - fixed.records * layout.stride();
  const std::uint64_t tail = layout.TailOf(left, fixed.records > 0);
  const bool complete = open_ended ? left % layout.item_bytes == 0 : data == layout.data_bytes;
  fixed.units = {layout.header_bytes, layout.row_bytes, layout.stride()};
  fixed.file_bytes = layout.header_bytes + data;
  const auto lose_from = [&](std::uint64_t at, const std::string& reason) {
    fixed.damage.push_back({at, file_bytes, IndexDamage::kNoRecord, reason});
  };
  if (!complete) {
    lose_from(fixed.file_bytes - tail, CutArray(left, layout.row_bytes));
  } else if (tail != 0 && layout.short_tail && !layout.drop_tail) {
    ++fixed.records;
  }
  if (complete && room > data) lose_from(layout.header_bytes + data, kGoesOn);
  return fixed;
}

}  // namespace

std::unique_ptr<UnitFramer> NewArrayUnitFramer(const FramerOptions& options) {
  return std::make_unique<ArrayUnitFramer>(options);
}

Status CheckRowBytes(std::uint64_t row_bytes, const FramerOptions& options) {
  if (row_bytes <= options.max_record_bytes) return {};
  return Status(StatusCode::kResourceExhausted, "rows of " + std::to_string(row_bytes) +
                                                    " bytes are longer than max_record_bytes (" +
                                                    std::to_string(options.max_record_bytes) + ")");
}

OwnIndexResult ArrayIndex(const FramerOptions& options, std::span<const std::byte> head,
                          const ReadArrayHeader& read_header) {
  OwnIndexResult result;
  ArrayHeader header = read_header(head);
  const auto lose_all = [&](const std::string& reason) {
    FixedIndex::Layout lost;
    const std::uint64_t end = options.file_bytes;
    if (end != 0) lost.damage.push_back({0, end, IndexDamage::kNoRecord, reason});
    result.index = std::make_shared<const FixedIndex>(std::move(lost));
  };
  if (header.need_bytes > head.size()) {
    if (options.file_bytes >= header.need_bytes) {
      result.need_bytes = header.need_bytes;
    } else {
      lose_all(kCutHeader);
    }
    return result;
  }
  const ArrayLayout& layout = header.layout;
  const StatusCode code = header.status.code();
  if (code == StatusCode::kDamaged || code == StatusCode::kTruncated) {
    lose_all(header.status.message());
  } else if (!header.status.ok()) {
    result.status = header.status;
  } else if (Status misread = Misread(options, header); !misread.ok()) {
    result.status = std::move(misread);
  } else if (Status too_long = CheckRowBytes(layout.row_bytes, options); !too_long.ok()) {
    result.status = std::move(too_long);
  } else if (!layout.column_major.empty()) {
    result.status = Status(StatusCode::kUnsupported,
                           "an array in Fortran order is gathered as a whole; its rows cannot be "
                           "read by themselves: store it in C order");
  } else {
    result.index = std::make_shared<const FixedIndex>(LayOutIndex(layout, options.file_bytes));
  }
  return result;
}

std::unique_ptr<Framer> NewArrayFramer(const FramerOptions& options, ReadArrayHeader read_header) {
  return std::make_unique<ArrayFramer>(options, std::move(read_header));
}

}  // namespace ringfeed
