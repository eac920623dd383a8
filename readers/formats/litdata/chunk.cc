#include "readers/formats/litdata/chunk.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/samples/sample_framer.h"
#include "readers/formats/stepped_framer.h"

namespace ringfeed {

void LitDataChunk::AddUnit(std::uint64_t begin, std::uint64_t bytes, std::uint32_t items,
                           std::uint64_t file_bytes, std::string lost) {
  const std::uint64_t before = std::max(end_, head_bytes_);
  const bool fits =
      bytes > 0 && begin >= before && begin <= file_bytes && bytes <= file_bytes - begin;
  if (!fits && lost.empty()) lost = "it is not within the file, after the unit before it";
  if (bytes == 0 && lost.empty()) lost = "it has no bytes";
  Unit unit{begin, begin + bytes, this->items(), items, std::move(lost)};
  // It stands where the unit before it begins, as it is framed.
  if (!fits) unit.begin = unit.end = units_.empty() ? head_bytes_ : units_.back().begin;
  if (fits) end_ = unit.end;
  units_.push_back(std::move(unit));
}

Status LitDataChunk::Decode(const Unit& unit, const FrameInput& input, const FramerOptions& options,
                            std::vector<RecordSpan>* records, std::string* problem) const {
  const std::size_t before = records->size();
  Status status = unit.lost.empty() ? DecodeUnit(unit, input, options, records)
                                    : Status(StatusCode::kDamaged, unit.lost);
  if (!status.ok()) {
    if (status.code() == StatusCode::kResourceExhausted) return status;
    *problem = status.message();
    records->resize(before);
    records->resize(before + unit.items);
    return {};
  }
  for (std::size_t i = before; i < records->size(); ++i) {
    RecordSpan& record = (*records)[i];
    if (!record.damaged() && layout_.Fills(record.bytes())) continue;
    if (problem->empty()) {
      *problem = "item " + std::to_string(unit.first + i - before) + ": " +
                 (record.damaged() ? "its column has no value" : SampleLayout::kFillsNot);
    }
    record = {};
  }
  return {};
}

namespace {

constexpr std::string_view kFramesMagic("LDFZ01\0\0", 8);
constexpr std::string_view kArrowMagic("LDARW01\0", 8);
constexpr std::size_t kFramesHead = 24;
constexpr std::size_t kFrameBytes = 24;
constexpr std::size_t kArrowTail = 12;
constexpr std::uint64_t kWord = sizeof(std::uint32_t);

bool Is(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

/// LDFZ01: u16 version and flags, u32 items, items of a frame and frames; an offset of each item
/// and of their end in what all frames decompress to; of each frame u32 first item and items, u64
/// its place, u32 its bytes and those that it decompresses to (streaming/framed_zstd.py).
class FramesChunk final : public LitDataChunk {
 public:
  explicit FramesChunk(const SampleLayout& layout) { layout_ = layout; }

  Status Read(const ReadChunkAt& read, std::uint64_t file_bytes, std::span<const std::byte> head,
              const LitDataIndex::Chunk* listed);

 private:
  Status DecodeUnit(const Unit& unit, const FrameInput& input, const FramerOptions& options,
                    std::vector<RecordSpan>* records) const override;
  void AddFrame(std::size_t number, std::span<const std::byte> entry, std::uint32_t items,
                std::uint64_t file_bytes);

  std::vector<std::uint32_t> offsets_;
};

Status FramesChunk::Read(const ReadChunkAt& read, std::uint64_t file_bytes,
                         std::span<const std::byte> head, const LitDataIndex::Chunk* listed) {
  const auto word = [&](std::size_t at) { return LoadLe<std::uint32_t>(head.data() + at); };
  const std::uint64_t items = word(12);
  const std::uint64_t of_frame = word(16);
  const std::uint64_t frames = word(20);
  const std::uint64_t bytes = kWord * (items + 1) + kFrameBytes * frames;
  const bool counts = items > 0 && of_frame > 0 && frames == (items + of_frame - 1) / of_frame;
  if (LoadLe<std::uint16_t>(head.data() + 8) != 1) {
    hopeless_ = Status(StatusCode::kDamaged, "its head is of another version than 1");
  } else if (!counts || (listed != nullptr && listed->items != items)) {
    hopeless_ =
        Status(StatusCode::kDamaged, "its head counts " + std::to_string(items) + " items in " +
                                         std::to_string(frames) + " frames of " +
                                         std::to_string(of_frame) + ", which is not so");
  } else if (bytes > file_bytes - kFramesHead) {
    hopeless_ = Status(StatusCode::kTruncated, "the file ends inside its tables");
  }
  if (!hopeless_.ok()) return {};
  head_bytes_ = kFramesHead + bytes;
  std::vector<std::byte> tables(static_cast<std::size_t>(bytes));
  Status status = read(kFramesHead, tables);
  if (!status.ok()) return status;
  offsets_.resize(static_cast<std::size_t>(items) + 1);
  std::memcpy(offsets_.data(), tables.data(), offsets_.size() * kWord);
  const std::span<const std::byte> entries = std::span(tables).subspan(offsets_.size() * kWord);
  for (std::size_t i = 0; i < frames; ++i) {
    const std::uint64_t left = items - i * of_frame;
    AddFrame(i, entries.subspan(i * kFrameBytes, kFrameBytes),
             static_cast<std::uint32_t>(std::min(of_frame, left)), file_bytes);
  }
  return {};
}

void FramesChunk::AddFrame(std::size_t number, std::span<const std::byte> entry,
                           std::uint32_t items, std::uint64_t file_bytes) {
  const auto word = [&](std::size_t at) { return LoadLe<std::uint32_t>(entry.data() + at); };
  const std::size_t first = static_cast<std::size_t>(this->items());
  const std::uint32_t begin = offsets_[first];
  const std::uint32_t end = offsets_[first + items];
  std::string lost;
  if (word(0) != first || word(4) != items) {
    lost = "frame " + std::to_string(number) + " holds other items than its number says";
  } else if (begin > end || end - begin != word(20)) {
    lost = "frame " + std::to_string(number) + " has other bytes than its items";
  }
  AddUnit(LoadLe<std::uint64_t>(entry.data() + 8), word(16), items, file_bytes, std::move(lost));
}

Status FramesChunk::DecodeUnit(const Unit& unit, const FrameInput& input,
                               const FramerOptions& options,
                               std::vector<RecordSpan>* records) const {
  std::span<const std::byte> content;
  Status status = DecompressFrame(options, input.bytes, input.memory, &content);
  if (!status.ok()) return status;
  const auto first = static_cast<std::size_t>(unit.first);
  for (std::size_t i = first; i < first + unit.items; ++i) {
    const std::uint64_t begin = std::uint64_t{offsets_[i]} - offsets_[first];
    const std::uint64_t end = std::uint64_t{offsets_[i + 1]} - offsets_[first];
    const bool fits = begin <= end && end <= content.size();
    records->push_back(fits ? RecordSpan{content.data() + begin, end - begin} : RecordSpan());
  }
  return {};
}

/// From a file's start to its end. All that stands before a unit is the chunk's head.
class ChunkFramer final : public RestLosingFramer {
 public:
  /// `refused`: why the reader does not accept its columns.
  ChunkFramer(const FramerOptions& options, Status refused,
              std::shared_ptr<const LitDataChunk> chunk)
      : RestLosingFramer(options), refused_(std::move(refused)), chunk_(std::move(chunk)) {}

 private:
  void Walk(FrameCall* call) override {
    if (!refused_.ok()) {
      (void)Fail(refused_, call);
      return;
    }
    if (!chunk_->hopeless().ok()) {
      (void)LoseRest(chunk_->hopeless().code(), chunk_->hopeless().message(), call);
      return;
    }
    if (call->at() == 0 && next_ == 0 && options_.on_damage == OnDamage::kSkip) NotePlaces(call);
    while (next_ < chunk_->units().size() && Next(call) == FrameStep::kGoOn) {
    }
    if (next_ == chunk_->units().size()) (void)call->PassRest(1);
  }
  FrameStep Next(FrameCall* call);
  // Units of which no byte is known are lost by what the head says.
  void NotePlaces(FrameCall* call) {
    if (noted_) return;
    noted_ = true;
    const auto& units = chunk_->units();
    const auto nowhere = std::find_if(units.begin(), units.end(), [](const auto& unit) {
      return !unit.lost.empty() && unit.begin == unit.end;
    });
    if (nowhere != units.end()) Note(0, chunk_->head_bytes(), nowhere->lost, call);
  }

  const Status refused_;
  const std::shared_ptr<const LitDataChunk> chunk_;
  std::size_t next_ = 0;
  bool noted_ = false;  // what NotePlaces does
};

FrameStep ChunkFramer::Next(FrameCall* call) {
  const LitDataChunk::Unit& unit = chunk_->units()[next_];
  const bool nowhere = unit.begin == unit.end;
  if (!nowhere && call->at() >= call->input.limit) return FrameStep::kStop;
  if (!nowhere && call->at() < unit.begin) {
    const std::uint64_t wanted = std::min(unit.begin, call->input.limit) - call->at();
    const std::size_t left = call->left();
    call->pos += static_cast<std::size_t>(std::min<std::uint64_t>(left, wanted));
    if (left < wanted) return call->Need(call->input.at_end ? 0 : 1);
    return FrameStep::kGoOn;
  }
  const auto bytes = static_cast<std::size_t>(unit.end - unit.begin);
  if (call->left() < bytes) {
    if (!call->input.at_end) return call->Need(bytes);
    return LoseRest(StatusCode::kTruncated, ShrankTo(call->end()), call);
  }
  FrameInput input = call->input;
  input.bytes = {call->data(), bytes};
  input.offset = unit.begin;
  std::vector<RecordSpan> records;
  std::string problem;
  Status status = chunk_->Decode(unit, input, options_, &records, &problem);
  if (!status.ok()) return Fail(status.code(), status.message(), unit.begin, call);
  std::uint64_t lost = 0;
  for (const RecordSpan& record : records) {
    lost += record.damaged() ? 1 : 0;
    if (record.damaged() && options_.on_damage == OnDamage::kFail) {
      return Fail(StatusCode::kDamaged, std::move(problem), unit.begin, call);
    }
    call->output->records.push_back(record);
    ++next_record_;
  }
  const bool ranged = lost > 0 && unit.begin < unit.end;
  if (ranged) Note(unit.begin, unit.end, std::move(problem), call);
  call->output->more_holes += lost - (ranged ? 1 : 0);
  call->pos += bytes;
  ++next_;
  return FrameStep::kGoOn;
}

class ChunkUnitFramer final : public UnitFramer {
 public:
  ChunkUnitFramer(const FramerOptions& options, std::shared_ptr<const LitDataChunk> chunk)
      : UnitFramer(options), chunk_(std::move(chunk)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    const auto& units = chunk_->units();
    const auto found = std::find_if(units.begin(), units.end(), [&](const auto& one) {
      return one.begin == unit.offset && one.lost.empty();
    });
    if (unit.bytes.empty()) return Lose(unit, records, kLostBefore, output);
    if (found == units.end() || found->items != records) return Lose(unit, records, {}, output);
    const std::size_t before = output->records.size();
    std::string problem;
    Status status = chunk_->Decode(*found, unit, options_, &output->records, &problem);
    const DataPlace place{options_.file, static_cast<std::int64_t>(unit.offset), -1};
    if (!status.ok()) return status.WithPlace(place);
    if (problem.empty()) return {};
    if (options_.on_damage == OnDamage::kFail) {
      const auto first =
          std::find_if(output->records.begin() + static_cast<std::ptrdiff_t>(before),
                       output->records.end(), [](const RecordSpan& one) { return one.damaged(); });
      output->CutRecords(static_cast<std::size_t>(first - output->records.begin()));
      return Status(StatusCode::kDamaged, std::move(problem), place);
    }
    output->damage.push_back({options_.file, found->begin, found->end, std::move(problem)});
    return {};
  }

 private:
  const std::shared_ptr<const LitDataChunk> chunk_;
};

class ChunkIndex final : public RecordIndex {
 public:
  ChunkIndex(std::shared_ptr<const LitDataChunk> chunk, std::uint64_t file_bytes)
      : chunk_(std::move(chunk)) {
    const Status& hopeless = chunk_->hopeless();
    if (!hopeless.ok() && file_bytes > 0) {
      damage_.push_back({0, file_bytes, IndexDamage::kNoRecord, hopeless.message()});
    }
    for (const LitDataChunk::Unit& unit : chunk_->units()) {
      const bool nowhere = unit.begin == unit.end;
      if (unit.lost.empty()) continue;
      damage_.push_back({nowhere ? 0 : unit.begin, nowhere ? chunk_->head_bytes() : unit.end,
                         unit.first, unit.lost});
    }
    std::sort(damage_.begin(), damage_.end());
  }

  std::uint64_t records() const override { return chunk_->items(); }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> found) const override {
    const auto& units = chunk_->units();
    for (std::size_t i = 0; i < records.size(); ++i) {
      const auto after = std::upper_bound(
          units.begin(), units.end(), records[i],
          [](std::uint64_t record, const auto& unit) { return record < unit.first; });
      const LitDataChunk::Unit& unit = *std::prev(after);
      const bool lost = !unit.lost.empty();
      found[i] = {unit.begin, lost ? 0 : unit.end - unit.begin, unit.first, unit.items, lost};
    }
    return {};
  }
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override {
    const auto& units = chunk_->units();
    const auto at =
        std::lower_bound(units.begin(), units.end(), offset,
                         [](const auto& unit, std::uint64_t place) { return unit.begin < place; });
    *record = at == units.end() ? records() : at->first;
    return {};
  }
  std::span<const IndexDamage> damage() const override { return damage_; }

 private:
  const std::shared_ptr<const LitDataChunk> chunk_;
  std::vector<IndexDamage> damage_;
};

// Whether all items have no bytes in the plain table: then they are in the Arrow part.
Status HasNoItems(const ReadChunkAt& read, std::uint64_t before, std::uint64_t* items, bool* none) {
  std::array<std::byte, 2 * kWord> head;
  std::array<std::byte, kWord> last;
  Status status = read(0, head);
  if (!status.ok()) return status;
  *items = LoadLe<std::uint32_t>(head.data());
  const std::uint64_t end = SampleTable::TableEnd(*items);
  *none = end > before;  // the table is damaged
  if (*none) return {};
  status = read(end - kWord, last);
  *none = LoadLe<std::uint32_t>(last.data()) <= end;
  return status;
}

}  // namespace

Status ReadLitDataChunk(const ReadChunkAt& read, std::uint64_t file_bytes, const KnownChunk& known,
                        std::shared_ptr<const LitDataChunk>* chunk) {
  chunk->reset();
  if (file_bytes < kFramesHead) return {};
  std::array<std::byte, kFramesHead> head;
  std::array<std::byte, kArrowTail> tail;
  Status status = read(0, head);
  if (status.ok()) status = read(file_bytes - kArrowTail, tail);
  if (!status.ok()) return status;
  if (Is(head, kFramesMagic)) {
    auto frames = std::make_shared<FramesChunk>(known.index->layout);
    status = frames->Read(read, file_bytes, head, known.listed);
    *chunk = std::move(frames);
    return status;
  }
  const std::uint64_t arrow = LoadLe<std::uint32_t>(tail.data());
  if (!Is(std::span(tail).subspan(kWord), kArrowMagic) || arrow > file_bytes - kArrowTail) {
    return {};
  }
  bool only = false;
  std::uint64_t items = 0;
  const std::uint64_t begin = file_bytes - kArrowTail - arrow;
  status = HasNoItems(read, begin, &items, &only);
  if (!status.ok() || !only) return status;
  if (known.listed != nullptr) items = known.listed->items;
  return ReadArrowChunk(read, begin, arrow, *known.index, items, chunk);
}

std::unique_ptr<Framer> NewChunkFramer(const FramerOptions& options, const SampleLayout& layout,
                                       std::shared_ptr<const LitDataChunk> chunk) {
  return std::make_unique<ChunkFramer>(options, CheckColumns(layout, options), std::move(chunk));
}

std::unique_ptr<UnitFramer> NewChunkUnitFramer(const FramerOptions& options,
                                               std::shared_ptr<const LitDataChunk> chunk) {
  return std::make_unique<ChunkUnitFramer>(options, std::move(chunk));
}

std::shared_ptr<const RecordIndex> ChunkRecords(std::shared_ptr<const LitDataChunk> chunk,
                                                std::uint64_t file_bytes) {
  return std::make_shared<const ChunkIndex>(std::move(chunk), file_bytes);
}

}  // namespace ringfeed
