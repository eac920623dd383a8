#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "base/memory/arena_advice.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/stepped_framer.h"

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
  if (layout_.lost || layout_.framed) return std::nullopt;
  if (layout_.records == 0) return units;
  const std::uint64_t last = units.offset + (layout_.records - 1) * units.stride_bytes;
  if (last + units.record_bytes > layout_.file_bytes) return std::nullopt;
  return units;
}

void GatherRow(const ArrayLayout& layout, const std::byte* data, std::uint64_t row, std::byte* to) {
  const std::vector<std::uint64_t>& shape = layout.column_major;
  const std::uint64_t item = layout.item_bytes;
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  std::vector<std::uint64_t> index(shape.size(), 0);
  std::uint64_t element = row;
  for (std::uint64_t done = 0; done < layout.row_bytes; done += item) {
    std::memcpy(to + done, data + element * item, static_cast<std::size_t>(item));
    for (std::size_t i = shape.size(); i-- > 1;) {
      element += strides[i];
      if (++index[i] < shape[i]) break;
      element -= strides[i] * shape[i];
      index[i] = 0;
    }
  }
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

class ArrayFramer final : public SteppedFramer {
 public:
  ArrayFramer(const FramerOptions& options, ReadArrayHeader read_header)
      : SteppedFramer(options), read_header_(std::move(read_header)) {}

 private:
  void Run(FrameCall* call) override;
  FrameStep ReadHeader(FrameCall* call);
  FrameStep Gather(FrameCall* call);
  FrameStep TakeRows(FrameCall* call);
  FrameStep EndOfData(FrameCall* call);
  FrameStep LoseRest(StatusCode code, const std::string& reason, std::uint64_t at, FrameCall* call);
  void NoteRest(FrameCall* call);

  bool open_ended() const { return layout_.data_bytes == kUnknownSize; }
  /// The end of the data, by the header or by the file.
  std::uint64_t DataEnd(std::uint64_t file_end) const {
    return open_ended() ? file_end : std::min(file_end, layout_.header_bytes + layout_.data_bytes);
  }

  const ReadArrayHeader read_header_;
  bool ready_ = false;
  bool done_ = false;
  ArrayLayout layout_;
  std::optional<DamagedRange> rest_;  // damage that reaches to the end of the file
};

void ArrayFramer::Run(FrameCall* call) {
  if (!ready_ && ReadHeader(call) == FrameStep::kStop) return;
  if (done_) {
    (void)call->PassRest(0);
    NoteRest(call);
  } else if (!layout_.column_major.empty()) {
    (void)Gather(call);
  } else {
    (void)TakeRows(call);
  }
}

FrameStep ArrayFramer::ReadHeader(FrameCall* call) {
  ArrayHeader header = read_header_(call->input.bytes);
  if (header.need_bytes > call->input.bytes.size()) {
    if (FileEnd(call->input) >= header.need_bytes) return call->Need(header.need_bytes);
    header.status = Status(StatusCode::kTruncated, kCutHeader);
  }
  ready_ = true;
  layout_ = std::move(header.layout);
  if (header.status.ok()) header.status = CheckRowBytes(layout_.row_bytes, options_);
  if (!header.status.ok()) return LoseRest(header.status.code(), header.status.message(), 0, call);
  Status misread = Misread(options_, header);
  return misread.ok() ? FrameStep::kGoOn : Fail(std::move(misread), call);
}

FrameStep ArrayFramer::TakeRows(FrameCall* call) {
  const FrameInput& input = call->input;
  const std::size_t before = call->output->records.size();
  const std::uint64_t file_end = FileEnd(input);
  const std::uint64_t data_end = DataEnd(file_end);
  const RowsInFile rows{layout_.row_bytes, layout_.stride()};
  const std::uint64_t at = AppendRows(rows, std::max(input.offset, layout_.header_bytes),
                                      std::min(call->end(), data_end), call);
  next_record_ += static_cast<std::int64_t>(call->output->records.size() - before);
  call->pos = static_cast<std::size_t>(at - input.offset);
  if (at >= input.limit && at < file_end) return FrameStep::kStop;  // the next stripe goes on
  return rows.bytes <= data_end - at ? call->Need(rows.bytes) : EndOfData(call);
}

// Fewer bytes than a row are left of the data.
FrameStep ArrayFramer::EndOfData(FrameCall* call) {
  const std::uint64_t at = call->at();
  const std::uint64_t end = call->end();
  const std::uint64_t file_end = FileEnd(call->input);
  const std::uint64_t data_end = DataEnd(file_end);
  const std::uint64_t left = data_end - at;
  const std::uint64_t tail = layout_.TailOf(left, at > layout_.header_bytes);
  const bool complete = open_ended() ? left % layout_.item_bytes == 0
                                     : data_end == layout_.header_bytes + layout_.data_bytes;
  if (data_end > end || (end == data_end && file_end > end && !call->input.at_end)) {
    // One byte beyond tells whether the file goes on.
    return call->Need(left + (data_end < file_end ? 1 : 0));
  }
  done_ = true;
  if (!complete) {
    return LoseRest(StatusCode::kTruncated, CutArray(left, layout_.row_bytes), data_end - tail,
                    call);
  }
  if (tail != 0 && layout_.short_tail && !layout_.drop_tail) {
    call->output->records.push_back({call->data(), static_cast<std::size_t>(left)});
    ++next_record_;
  }
  if (file_end > data_end) return LoseRest(StatusCode::kDamaged, kGoesOn, data_end, call);
  return call->PassRest(0);
}

// Rows of an array whose columns are contiguous.
FrameStep ArrayFramer::Gather(FrameCall* call) {
  const FrameInput& input = call->input;
  const std::uint64_t array_end = layout_.header_bytes + layout_.data_bytes;
  if (layout_.data_bytes > options_.max_record_bytes) {
    return LoseRest(StatusCode::kResourceExhausted,
                    "an array in Fortran order is gathered as a whole: its " +
                        std::to_string(layout_.data_bytes) +
                        " bytes are more than max_record_bytes (" +
                        std::to_string(options_.max_record_bytes) + ")",
                    layout_.header_bytes, call);
  }
  if (array_end > FileEnd(input)) {
    return LoseRest(StatusCode::kTruncated, "the file ends inside its array in Fortran order",
                    layout_.header_bytes, call);
  }
  if (array_end > input.bytes.size()) return call->Need(array_end);
  const auto bytes = static_cast<std::size_t>(layout_.data_bytes);
  std::byte* to = input.memory->Allocate(std::max<std::size_t>(bytes, 1));
  if (to == nullptr) {
    (void)call->PassRest(0);
    return Fail(StatusCode::kResourceExhausted,
                NoMemoryFor("an array of " + std::to_string(bytes) + " bytes"),
                layout_.header_bytes, call);
  }
  const std::byte* const data = input.bytes.data() + layout_.header_bytes;
  for (std::uint64_t row = 0; row < layout_.column_major[0]; ++row) {
    GatherRow(layout_, data, row, to);
    call->output->records.push_back({to, static_cast<std::size_t>(layout_.row_bytes)});
    to += layout_.row_bytes;
    ++next_record_;
  }
  layout_.column_major.clear();
  // What follows the array is checked as after any other array.
  call->pos = static_cast<std::size_t>(array_end);
  return array_end < input.limit ? EndOfData(call) : FrameStep::kStop;
}

FrameStep ArrayFramer::LoseRest(StatusCode code, const std::string& reason, std::uint64_t at,
                                FrameCall* call) {
  done_ = true;
  (void)call->PassRest(0);
  // What is unsupported, or larger than the user allows, is not damage that can be skipped.
  const bool skips = code == StatusCode::kDamaged || code == StatusCode::kTruncated;
  if (options_.on_damage == OnDamage::kFail || !skips) return Fail(code, reason, at, call);
  rest_.emplace(DamagedRange{options_.file, at, at, reason});
  NoteRest(call);
  return FrameStep::kStop;
}

// Reports the rest of the file once its end is known. An array may lack whole rows, so that there
// is no rest: that is reported too, except for a file of no bytes.
void ArrayFramer::NoteRest(FrameCall* call) {
  if (!rest_ || (!known_size() && !call->input.at_end)) return;
  rest_->end = known_size() ? options_.file_bytes : call->end();
  if (rest_->end != 0 && rest_->begin <= rest_->end) {
    call->output->damage.push_back(std::move(*rest_));
  }
  rest_.reset();
}

/// A row is all of its unit: the index has the row's size from the header.
class ArrayUnitFramer final : public UnitFramer {
 public:
  using UnitFramer::UnitFramer;

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty() || records != 1) return Lose(unit, records, kLostBefore, output);
    output->records.push_back({unit.bytes.data(), unit.bytes.size()});
    return {};
  }
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

std::uint64_t AppendRows(const RowsInFile& rows, std::uint64_t at, std::uint64_t end,
                         FrameCall* call) {
  const FrameInput& input = call->input;
  if (at >= input.limit || at >= end || end - at < rows.bytes) return at;
  const std::uint64_t wanted = (input.limit - at - 1) / rows.stride + 1;
  const std::uint64_t whole = (end - at - rows.bytes) / rows.stride + 1;
  const auto count = static_cast<std::size_t>(std::min(whole, wanted));
  const std::byte* data = input.bytes.data() + (at - input.offset);
  std::vector<RecordSpan>& records = call->output->records;
  const std::size_t base = records.size();
  records.resize(base + count);
  for (std::size_t row = 0; row < count; ++row, data += rows.stride) {
    records[base + row] = {data, static_cast<std::size_t>(rows.bytes)};
  }
  return at + count * rows.stride;
}

std::unique_ptr<UnitFramer> ArrayFormat::NewUnitFramer(const FramerOptions& options) const {
  return std::make_unique<ArrayUnitFramer>(options);
}

Status CheckRowBytes(std::uint64_t row_bytes, const FramerOptions& options) {
  if (row_bytes <= options.max_record_bytes) return {};
  return Status(StatusCode::kResourceExhausted, "rows of " + std::to_string(row_bytes) +
                                                    " bytes are longer than max_record_bytes (" +
                                                    std::to_string(options.max_record_bytes) + ")");
}

OwnIndexResult ArrayFormat::OwnIndex(const FramerOptions& options,
                                     std::span<const std::byte> head) const {
  OwnIndexResult result;
  ArrayHeader header = read_header_(head);
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

std::unique_ptr<Framer> ArrayFormat::NewFramer(const FramerOptions& options) const {
  return std::make_unique<ArrayFramer>(options, read_header_);
}

}  // namespace ringfeed
