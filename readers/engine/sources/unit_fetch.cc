#include "readers/engine/sources/unit_fetch.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/memory/arena_advice.h"
#include "base/refusal.h"

namespace ringfeed {

namespace {

/// Bytes of different reads are so far apart that no cache line has two writers.
constexpr std::uint64_t kLine = 64;

std::uint64_t Down(std::uint64_t offset, std::uint64_t unit) { return offset / unit * unit; }
std::uint64_t Up(std::uint64_t offset, std::uint64_t unit) { return Down(offset + unit - 1, unit); }

}  // namespace

std::size_t MergeRanges(const MergeRule& rule, std::vector<NeededRange>* ranges,
                        std::vector<MergedRead>* reads) {
  const auto is_before = [](const NeededRange& a, const NeededRange& b) {
    return std::tie(a.file, a.begin, a.owner) < std::tie(b.file, b.begin, b.owner);
  };
  // Those of a stripe are in their order already.
  if (!std::is_sorted(ranges->begin(), ranges->end(), is_before)) {
    std::sort(ranges->begin(), ranges->end(), is_before);
  }
  const std::size_t already = reads->size();
  std::uint64_t needed = 0;  // of the last read
  for (std::size_t i = 0; i < ranges->size(); ++i) {
    const NeededRange& range = (*ranges)[i];
    const std::uint64_t begin = Down(range.begin, rule.alignment);
    const std::uint64_t end = Up(range.end, rule.alignment);
    if (reads->size() > already) {
      MergedRead& last = reads->back();
      const std::uint64_t spare = std::max(begin, last.end) - last.begin - needed;
      if (last.file == range.file && begin <= last.end + rule.gap &&
          (!rule.thrifty || begin <= last.end || spare <= needed / 4)) {
        needed += end - std::min(end, std::max(begin, last.end));
        last.end = std::max(last.end, end);
        ++last.ranges;
        continue;
      }
    }
    reads->push_back({range.file, begin, end, 0, i, 1});
    needed = end - begin;
  }
  std::uint64_t memory = 0;
  for (std::size_t i = already; i < reads->size(); ++i) {
    MergedRead& read = (*reads)[i];
    read.at = static_cast<std::size_t>(memory);
    memory += Up(read.end - read.begin, std::max<std::uint64_t>(kLine, rule.alignment));
  }
  return static_cast<std::size_t>(memory);
}

void NeededUnits::Find(const OpenedFiles& files, std::span<const RowNumber> rows) {
  losses.clear();
  units.assign(rows.size(), NeededUnit());
  places_.clear();
  bool sorted = true;
  std::uint32_t file = kNoFile;
  RowNumber begin = 0;
  RowNumber end = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kNoRow) continue;
    if (rows[i] < begin || rows[i] >= end) {
      const auto next = static_cast<std::uint32_t>(files.FileOf(rows[i]));
      sorted = sorted && (file == kNoFile || file < next);
      file = next;
      begin = files.FirstRow(file);
      end = files.FirstRow(file + 1);
    }
    units[i].file = file;
    units[i].record = rows[i] - begin;
    places_.push_back(static_cast<std::uint32_t>(i));
  }
  const auto file_at = [&](std::uint32_t place) { return units[place].file; };
  if (!sorted) {
    std::stable_sort(places_.begin(), places_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return file_at(a) < file_at(b); });
  }
  for (std::size_t i = 0; i < places_.size();) {
    std::size_t next = i + 1;
    while (next < places_.size() && file_at(places_[next]) == file_at(places_[i])) ++next;
    AskIndex(files.table()->file(file_at(places_[i])), std::span(places_).subspan(i, next - i));
    i = next;
  }
}

void NeededUnits::AskIndex(const DataFile& file, std::span<const std::uint32_t> places) {
  records_.clear();
  for (const std::uint32_t place : places) records_.push_back(units[place].record);
  answers_.resize(places.size());
  const Status status = file.index->Find(records_, answers_);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (status.ok()) {
      units[places[i]].unit = answers_[i];
    } else {
      Lose(&units[places[i]], status.WithPlace({file.name, -1, -1}), true);
    }
  }
}

namespace {

/// What a page of a cold medium costs more than a byte; so does one more read beside others.
constexpr std::uint64_t kEngineGap = 16 * 1024;
/// Media with smaller sectors still read whole blocks of this size faster.
constexpr std::uint32_t kEngineAlignment = 4096;
/// A system call takes as long as copying this much.
constexpr std::uint64_t kInlineGap = 4 * 1024;
/// The address of a unit without bytes: framers get no null pointers.
constexpr std::byte kNothing[1] = {};

}  // namespace

Status NoMemory(const LaneContext& context, std::size_t bytes, const std::string& file) {
  if (context.direct != nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  "no " + std::to_string(bytes) + " contiguous bytes left of the device's " +
                      std::to_string(context.arena->bytes()) +
                      " for what is read straight into it; lower the batch size or threads, or "
                      "take another transfer than direct",
                  {file, -1, -1});
  }
  return Status(StatusCode::kResourceExhausted,
                NoRunOf(bytes, *context.arena, "the batch size or threads"), {file, -1, -1});
}

UnitFetch::~UnitFetch() {
  for (const SlabRun& run : runs_) context_->arena->Free(run);
  if (buffer_ != nullptr) {
    context_->io->Abandon(std::move(buffer_), std::move(inputs_));
  } else if (run_) {
    context_->arena->Free(run_);
  }
}

std::uint64_t UnitFetch::CostOf(const LaneFile& file, std::uint64_t bytes) const {
  // A part of a mapped file should fit into the cache together with the next one; one that is read
  // inline should stay there until it is written; an engine's needs depth.
  if (file.engine != nullptr) return bytes;
  return !context_->written ? 2 * bytes : file.mapping.empty() ? 4 * bytes : 8 * bytes;
}

bool UnitFetch::Check(const LaneFile& file, NeededUnit* unit, NeededUnits* needed) const {
  if (!file.failure.ok()) {
    needed->Lose(unit, file.failure, file.fatal);
    return false;
  }
  const RecordUnit& at = unit->unit;
  if (const Status status = CheckUnit(*file.data, file.fixed, unit->record, at); !status.ok()) {
    needed->Lose(unit, status);
    return false;
  }
  unit->bytes = UsedBytes(at, context_->options->max_record_bytes);
  const std::uint64_t size = file.open->size();
  if (at.offset + unit->bytes > size || file.shrunk) {
    const DataPlace place{file.data->name, static_cast<std::int64_t>(at.offset),
                          static_cast<std::int64_t>(unit->record)};
    const std::uint64_t bytes = file.data->bytes;
    needed->Lose(unit,
                 Status(StatusCode::kTruncated,
                        file.shrunk ? "the mapped file shrank while it was read"
                                    : "the file has " + std::to_string(size) + " bytes, it had " +
                                          std::to_string(bytes) + " when its index was opened",
                        place));
    return false;
  }
  return true;
}

std::size_t UnitFetch::Choose(LaneFiles* files, NeededUnits* needed) {
  std::uint64_t cost = 0;
  std::uint64_t last_offset = ~std::uint64_t{0};
  std::uint32_t last_file = kNoFile;
  std::uint32_t used = kNoFile;
  LaneFile* file = nullptr;  // of that number
  for (std::size_t i = 0; i < needed->units.size(); ++i) {
    NeededUnit& unit = needed->units[i];
    if (unit.file == kNoFile || unit.loss != 0) continue;
    if (unit.file != used) file = files->Use(used = unit.file);
    if (IsRefusal(file->failure)) {
      if (i > 0) return i;
      was_refused_ = true;
    }
    if (!Check(*file, &unit, needed)) continue;
    if (unit.file != last_file || unit.unit.offset != last_offset) {
      cost += CostOf(*file, unit.bytes);
    }
    if (i > 0 && cost > kPartBytes) return i;
    last_file = unit.file;
    last_offset = unit.unit.offset;
    if (unit.bytes == 0) {
      unit.data = kNothing;
    } else if (file->mapping.empty()) {
      wanted_.push_back({unit.file, static_cast<std::uint32_t>(i), unit.unit.offset,
                         unit.unit.offset + unit.bytes});
    } else {
      unit.data = file->mapping.data() + unit.unit.offset;
    }
  }
  return needed->units.size();
}

std::size_t UnitFetch::MergeSome(LaneFiles* files, const ReadAlike& alike, std::size_t count,
                                 std::size_t at) {
  std::vector<NeededRange> ranges;
  MergeRule rule{.gap = alike.by_engine && !alike.cached ? kEngineGap : kInlineGap,
                 .thrifty = alike.cached};
  std::uint32_t used = kNoFile;
  const LaneFile* of_range = nullptr;
  for (const NeededRange& range : wanted_) {
    if (range.file != used) of_range = files->Use(used = range.file);
    const LaneFile& file = *of_range;
    if (range.owner >= count || (file.engine != nullptr) != alike.by_engine ||
        file.open->cached() != alike.cached) {
      continue;
    }
    ranges.push_back(range);
    // Through the page cache no byte is read again and again.
    const std::uint32_t least = file.open->choice().direct ? kEngineAlignment : 1;
    rule.alignment = std::max({rule.alignment, least, file.open->alignment()});
  }
  at = (at + rule.alignment - 1) / rule.alignment * rule.alignment;
  const std::size_t already = reads_.size();
  const std::size_t bytes = MergeRanges(rule, &ranges, &reads_);
  for (MergedRead& read : std::span(reads_).subspan(already)) {
    read.first_range += ranges_.size();
    read.at += at;
    const LaneFile& file = *files->Use(read.file);
    read.input = file.open;
    read.engine = file.engine;
  }
  ranges_.insert(ranges_.end(), ranges.begin(), ranges.end());
  return at + bytes;
}

std::size_t UnitFetch::Merge(LaneFiles* files, std::size_t count) {
  // The reads of engines come first: they are counted.
  constexpr std::array<ReadAlike, 4> kAlike = {{{.by_engine = true, .cached = false},
                                                {.by_engine = true, .cached = true},
                                                {.by_engine = false, .cached = false},
                                                {.by_engine = false, .cached = true}}};
  reads_.clear();
  ranges_.clear();
  std::size_t bytes = 0;
  for (const ReadAlike& alike : kAlike) {
    bytes = MergeSome(files, alike, count, bytes);
    if (alike.by_engine) engine_reads_ = reads_.size();
  }
  return bytes;
}

void UnitFetch::Plan(LaneFiles* files, NeededUnits* needed) {
  std::size_t count = 0;
  do {
    wanted_.clear();
    inputs_.clear();
    files->StartPart(&inputs_);
    count = Choose(files, needed);
    memory_bytes_ = Merge(files, count);
    while (memory_bytes_ > kPartBytes && count > 1) {  // small records, far from each other
      count /= 2;
      memory_bytes_ = Merge(files, count);
    }
  } while (MovesToCache(files));
  needed->units.resize(count);
  wanted_.clear();
}

bool UnitFetch::MovesToCache(LaneFiles* files) const {
  bool any = false;
  for (std::size_t i = 0; i < reads_.size();) {
    const std::uint32_t file = reads_[i].file;
    std::uint64_t wanted = 0;
    std::uint64_t planned = 0;
    for (; i < reads_.size() && reads_[i].file == file; ++i) {
      const MergedRead& read = reads_[i];
      planned += read.end - read.begin;
      std::uint64_t behind = read.begin;  // rows of one unit want its bytes once
      for (const NeededRange& range : std::span(ranges_).subspan(read.first_range, read.ranges)) {
        behind = std::max(behind, range.begin);
        wanted += range.end - std::min(behind, range.end);
        behind = std::max(behind, range.end);
      }
    }
    any = files->NoteReads(file, wanted, planned) || any;
  }
  return any;
}

bool UnitFetch::Start() {
  if (memory_bytes_ == 0) return true;
  run_ = context_->arena->Allocate(memory_bytes_, context_->trim ? nullptr : context_->last_run);
  context_->last_run = run_.data;
  if (!run_) return false;
  if (engine_reads_ == 0) return true;
  buffer_ = context_->io->RequestScattered(run_, std::span(reads_).first(engine_reads_));
  Pump();
  return true;
}

void UnitFetch::Pump() {
  if (buffer_ != nullptr) context_->io->Pump(buffer_.get());
}

void UnitFetch::TakeEngineOutcomes() {
  if (buffer_ == nullptr) return;
  for (MergedRead& read : std::span(reads_).first(engine_reads_)) read.valid_end = read.begin;
  for (const ReadBuffer::Part& part : buffer_->parts) {
    MergedRead& read = reads_[part.read];
    context_->read_bytes->Add(part.got);
    if (read.valid_end == part.offset) read.valid_end += part.got;
    if (read.status.ok()) read.status = part.status;
  }
}

void UnitFetch::ReadInline(MergedRead* read) {
  const StageTimer timer(*context_->read_clock);
  std::size_t got = 0;
  read->status = read->input->ReadAt(
      read->begin, {run_.data + read->at, static_cast<std::size_t>(read->end - read->begin)}, &got);
  read->valid_end = read->begin + got;
  context_->read_bytes->Add(got);
}

void UnitFetch::Settle(const MergedRead& read, NeededUnits* needed) {
  pieces_.push_back({{run_.data + read.at, read.valid_end - read.begin}, read.begin});
  // Reading a file that was cut again brings no more.
  const bool may_come = !again_ && read.ranges > 1 && !read.status.ok() &&
                        read.status.code() != StatusCode::kTruncated;
  for (std::size_t i = read.first_range; i < read.first_range + read.ranges; ++i) {
    const NeededRange range = ranges_[i];
    NeededUnit& unit = needed->units[range.owner];
    if (range.end <= read.valid_end) {
      unit.data = run_.data + read.at + (range.begin - read.begin);
      unit.loss = 0;
      continue;
    }
    if (may_come) {
      retry_.push_back({range.file, range.begin, range.end, 0, i, 1, read.input, read.engine});
    }
    const DataPlace place{read.input->name(), static_cast<std::int64_t>(read.valid_end), -1};
    const Status ended(StatusCode::kTruncated,
                       "the file ends at " + std::to_string(read.valid_end) + ", it had " +
                           std::to_string(read.input->size()) + " bytes when it was opened");
    needed->Lose(&unit, (read.status.ok() ? ended : read.status).WithPlace(place),
                 IsRefusal(read.status) ||
                     (read.input->remote() != nullptr && IsNoDamage(read.status, true)));
  }
}

bool UnitFetch::StartAgain(NeededUnits* needed) {
  if (retry_.empty()) return false;
  again_ = true;
  std::stable_partition(retry_.begin(), retry_.end(),
                        [](const MergedRead& read) { return read.engine != nullptr; });
  reads_ = std::exchange(retry_, {});
  memory_bytes_ = 0;
  engine_reads_ = 0;
  for (MergedRead& read : reads_) {
    const std::uint64_t unit = read.input->alignment();
    read.begin = Down(read.begin, unit);
    read.end = Up(read.end, unit);
    memory_bytes_ =
        static_cast<std::size_t>(Up(memory_bytes_, std::max<std::uint64_t>(kLine, unit)));
    read.at = memory_bytes_;
    memory_bytes_ += static_cast<std::size_t>(read.end - read.begin);
    if (read.engine != nullptr) ++engine_reads_;
  }
  if (Start()) return true;
  // The memory that there is must not change what can be read of the medium.
  for (const MergedRead& read : reads_) {
    needed->Lose(&needed->units[ranges_[read.first_range].owner],
                 NoMemory(*context_, memory_bytes_, read.input->name()), true);
  }
  return false;
}

bool UnitFetch::Finish(NeededUnits* needed) {
  while (!reads_.empty()) {
    Pump();
    if (buffer_ != nullptr && !buffer_->complete()) return false;
    TakeEngineOutcomes();
    for (MergedRead& read : std::span(reads_).subspan(engine_reads_)) ReadInline(&read);
    for (const MergedRead& read : reads_) Settle(read, needed);
    buffer_.reset();
    runs_.push_back(std::exchange(run_, {}));
    reads_.clear();
    if (!StartAgain(needed)) return true;
  }
  return true;
}

std::vector<SlabRun> UnitFetch::TakeRuns() { return std::exchange(runs_, {}); }

}  // namespace ringfeed
