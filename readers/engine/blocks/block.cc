#include "readers/engine/blocks/block.h"

#include <algorithm>
#include <functional>

#include "readers/engine/blocks/locate.h"

namespace ringfeed {

namespace {

// Unlike <, these compare pointers into different arrays.
bool StandsIn(std::span<const std::byte> bytes, const std::byte* at) {
  return !std::less<>()(at, bytes.data()) && std::less<>()(at, bytes.data() + bytes.size());
}
// The same with the end: an empty record may be there.
bool PointsInto(std::span<const std::byte> bytes, const std::byte* at) {
  return StandsIn(bytes, at) || at == bytes.data() + bytes.size();
}

}  // namespace

bool Block::shrunk() const {
  return std::any_of(files.begin(), files.end(), [](const auto& file) { return file->damaged(); });
}

bool Block::ShrunkAt(std::uint32_t row) const {
  // A record of a decompressed chunk is in no file: the bytes that it came from were checked.
  return std::any_of(files.begin(), files.end(), [&](const auto& file) {
    return StandsIn(file->mapping(), frame.records[row].data) &&
           file->DamagedAt(frame.records[row].bytes());
  });
}

Status Block::WhyDamagedAt(std::uint32_t row) const {
  for (const auto& file : files) {
    if (StandsIn(file->mapping(), frame.records[row].data)) return WhyDamaged(*file);
  }
  return {};
}

std::uint64_t Block::BytesOf(std::uint32_t row) const {
  if (instances.empty()) return frame.records[row].size;
  const Instance& instance = instances[row];
  std::uint64_t bytes = 0;
  for (const Tensor& tensor : instance) bytes += tensor.bytes;
  return bytes;
}

std::uint64_t Block::PayloadOf(std::uint32_t begin, std::uint32_t end) const {
  std::uint64_t bytes = 0;
  if (filtered.empty()) {
    for (const RecordSpan& record : std::span(frame.records).subspan(begin, end - begin)) {
      bytes += record.damaged() ? 0 : record.size;
    }
    return bytes;
  }
  for (std::uint32_t row = begin; row < end; ++row) bytes += PayloadOf(row);
  return bytes;
}

FileRecord Block::RecordOf(std::uint32_t row) const {
  if (table == nullptr) return {file_index, first_record + row};
  if (row_numbers[row] == kNoRow) return {};
  const std::size_t file = FileOfRow(*table, row_numbers[row]);
  return {static_cast<std::uint32_t>(file), row_numbers[row] - table->FirstRow(file)};
}

DataPlace Block::PlaceOf(std::uint32_t row) const {
  DataPlace place{file_name, -1, static_cast<std::int64_t>(first_record + row)};
  if (table != nullptr) {
    if (row_numbers[row] == kNoRow) return {};
    const std::size_t file = FileOfRow(*table, row_numbers[row]);
    place.file = table->file(file).name;
    place.record = static_cast<std::int64_t>(row_numbers[row] - table->FirstRow(file));
  } else if (file_name.empty()) {
    return {};  // a user's reader
  }
  const std::byte* const data = frame.records[row].data;
  for (const Framed& part : framed) {
    if (!PointsInto(part.bytes, data)) continue;
    place.offset = static_cast<std::int64_t>(part.offset) + (data - part.bytes.data());
  }
  return place;
}

std::optional<std::span<const std::byte>> Block::BytesBefore(std::uint32_t row) const {
  const std::byte* const data = frame.records[row].data;
  for (const Framed& part : framed) {
    if (part.offset != 0 || !PointsInto(part.bytes, data)) continue;
    return part.bytes.first(static_cast<std::size_t>(data - part.bytes.data()));
  }
  return std::nullopt;
}

void Block::NoteFramed(std::span<const std::byte> bytes, std::uint64_t offset) {
  if (bytes.empty()) return;
  if (!framed.empty()) {
    Framed& last = framed.back();
    const std::byte* const end = last.bytes.data() + last.bytes.size();
    if (end == bytes.data() && last.offset + last.bytes.size() == offset) {
      last.bytes = {last.bytes.data(), last.bytes.size() + bytes.size()};
      return;
    }
  }
  framed.push_back({bytes, offset});
}

bool Block::FailAt(std::uint32_t row, const Status& why) {
  if (!fails_in_order) {
    status = why;
    frame.records.resize(row);
    return false;
  }
  frame.records[row] = RecordSpan();
  row_failures.push_back({row, why});
  return true;
}

void Block::FailBehindRows() {
  const std::size_t row = rows();
  const std::size_t fields = row == 0 ? 0 : locations.size() / row;
  frame.records.emplace_back();
  locations.resize((row + 1) * fields);
  if (!filtered.empty()) filtered.resize(row + 1);
  if (!groups.empty()) groups.resize(row + 1);
  if (!row_numbers.empty()) row_numbers.resize(row + 1, kNoRow);
  row_failures.push_back({row, status});
}

const Status* Block::FailureOf(std::uint32_t row) const {
  for (const RowFailure& failure : row_failures) {
    if (failure.row == row) return &failure.status;
  }
  return nullptr;
}

namespace {

constexpr std::size_t kRunBytes = 512 * 1024;
constexpr std::size_t kAlignment = 64;

}  // namespace

BlockMemory::~BlockMemory() {
  CloseRun();
  for (const SlabRun& run : full_) arena_->Free(run);
}

void BlockMemory::CloseRun() {
  if (!run_) return;
  full_.push_back(arena_->Trim(std::exchange(run_, {}), std::exchange(used_, 0)));
}

std::byte* BlockMemory::Allocate(std::size_t bytes) {
  if (run_.bytes - used_ < bytes) {
    CloseRun();
    run_ = arena_->Allocate(std::max(bytes, kRunBytes));
    if (!run_) run_ = arena_->Allocate(bytes);  // it may be just enough
    exhausted_ = !run_;
    if (exhausted_) return nullptr;
  }
  std::byte* const piece = run_.data + used_;
  const std::size_t taken = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  used_ = std::min(run_.bytes, used_ + taken);
  return piece;
}

void BlockMemory::GiveTo(Block* block) {
  CloseRun();
  block->runs.insert(block->runs.end(), full_.begin(), full_.end());
  full_.clear();
}

namespace {

// Whether a record begins before that decompressed byte; false for one that is not there as it is
// (a chunk's).
bool IsBefore(const Block& block, const RecordSpan& record, std::uint64_t place) {
  for (const Block::Framed& part : block.framed) {
    if (!PointsInto(part.bytes, record.data)) continue;
    return part.offset + static_cast<std::uint64_t>(record.data - part.bytes.data()) < place;
  }
  return false;
}

}  // namespace

std::uint64_t Block::RecordsFrom(std::uint64_t place) const {
  const bool all = framed.empty() || place <= framed.front().offset;
  if (all && frame.damage.empty()) return rows();
  std::uint64_t count = 0;
  for (auto record = frame.records.rbegin(); record != frame.records.rend(); ++record) {
    if (record->damaged()) continue;
    if (!all && IsBefore(*this, *record, place)) break;
    ++count;
  }
  return count;
}

}  // namespace ringfeed
