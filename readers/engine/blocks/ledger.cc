#include "readers/engine/blocks/ledger.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "base/refusal.h"
#include "readers/engine/blocks/locate.h"
#include "readers/formats/examined_file.h"

namespace ringfeed {

void Ledger::Add(const Read& read) {
  payload_bytes_.fetch_add(read.payload_bytes, std::memory_order_relaxed);
  if (read.filtered != 0) filtered_.fetch_add(read.filtered, std::memory_order_relaxed);
  if (read.truncated != 0) truncated_.fetch_add(read.truncated, std::memory_order_relaxed);
  if (read.reopened != 0) reopened_.fetch_add(read.reopened, std::memory_order_relaxed);
  if (read.lost_ranges != 0) lost_ranges_.fetch_add(read.lost_ranges, std::memory_order_relaxed);
}

void Ledger::Add(const RunTotals& totals) {
  const std::lock_guard lock(mutex_);
  ended_.passes += totals.passes;
  ended_.read_bytes += totals.read_bytes;
  ended_.grown_batches += totals.grown_batches;
  ended_.late_wakes += totals.late_wakes;
  ended_.left_out.empty += totals.left_out.empty;
  ended_.left_out.dropped += totals.left_out.dropped;
  ended_.order_ns += totals.order_ns;
}

void Ledger::NoteFile(const std::string& name, FileFate fate) {
  const auto bit = static_cast<std::uint8_t>(fate);
  const std::lock_guard lock(mutex_);
  std::uint8_t& fates = fates_[name];
  if ((fates & bit) != 0) return;
  fates = static_cast<std::uint8_t>(fates | bit);
  ++(fate == FileFate::kRead      ? files_read_
     : fate == FileFate::kMissing ? files_missing_
                                  : files_refused_);
}

void Ledger::NoteEmpty(const std::string& name) {
  NoteFile(name, FileFate::kRead);
  const DataWarning warning{name, std::string(kEmptyFile)};
  NoteWarnings({&warning, 1});
}

void Ledger::NoteFile(const std::string& name, const Status& why_not) {
  if (name.empty() || IsRefusal(why_not) || why_not.code() == StatusCode::kCancelled) return;
  const bool missing = why_not.code() == StatusCode::kNotFound;
  NoteFile(name, missing ? FileFate::kMissing : FileFate::kRefused);
}

void Ledger::NoteOpened(const IoChoice& choice) {
  NoteFile(choice.file, FileFate::kRead);
  const std::lock_guard lock(mutex_);
  const auto at = choice_of_file_.find(choice.file);
  if (at != choice_of_file_.end()) {
    --PathOf(choices_[at->second]);
    choices_[at->second] = choice;
    ++PathOf(choice);
  } else if (choices_.size() < kMostChoicesListed) {
    // First the list: without memory for its entry the map must not lead to it.
    choices_.push_back(choice);
    ++PathOf(choice);
    choice_of_file_.emplace(choice.file, choices_.size() - 1);
  }
}

void Ledger::Add(const RowTally& before, const RowTally& now) {
  // A dropped rest was counted as on its way before.
  const std::uint64_t dropped = now.dropped - before.dropped;
  records_.fetch_add(now.delivered - before.delivered + dropped, std::memory_order_relaxed);
  if (dropped != 0) dropped_.fetch_add(dropped, std::memory_order_relaxed);
  const std::uint64_t lost = now.lost_bytes - before.lost_bytes;
  if (lost != 0) payload_bytes_.fetch_sub(lost, std::memory_order_relaxed);
}

void Ledger::NoteDamage(std::span<const DamagedRange> ranges, std::uint64_t count) {
  if (count == 0) return;
  damaged_.fetch_add(count, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  for (const DamagedRange& range : ranges) {
    if (damage_.size() == kMostListed) return;
    damage_.push_back(range);
  }
}

void Ledger::NoteWarnings(std::span<const DataWarning> warnings) {
  if (warnings.empty()) return;
  warned_.fetch_add(warnings.size(), std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  last_warning_ = warnings.back();
  for (const DataWarning& warning : warnings) {
    if (warnings_.size() == kMostListed) return;
    const bool known = std::any_of(warnings_.begin(), warnings_.end(), [&](const DataWarning& one) {
      return one.file == warning.file && one.text == warning.text;
    });
    if (!known) warnings_.push_back(warning);
  }
}

Status Ledger::LastWarning() const {
  const std::lock_guard lock(mutex_);
  return Status(StatusCode::kDamaged, last_warning_.text, {last_warning_.file, -1, -1});
}

void Ledger::NoteSkipped(const RecordSpan& record, const Status& why) {
  NoteSkipped(DamagedRecord(why, record), record.size);
}

void Ledger::NoteSkipped(const DamagedRange& range, std::size_t payload_bytes) {
  records_.fetch_sub(1, std::memory_order_relaxed);
  payload_bytes_.fetch_sub(payload_bytes, std::memory_order_relaxed);
  NoteDamage({&range, 1}, 1);
}

void Ledger::TakeOff(const PlannedSums& sums) {
  records_.fetch_sub(sums.rows, std::memory_order_relaxed);
  payload_bytes_.fetch_sub(sums.bytes, std::memory_order_relaxed);
  dropped_.fetch_sub(sums.dropped, std::memory_order_relaxed);
}

void Ledger::FillAtomics(PipelineStats* stats) const {
  // Records that were parsed for nothing may be taken off before they are counted.
  const auto records = static_cast<std::int64_t>(records_.load(std::memory_order_relaxed));
  stats->records = static_cast<std::uint64_t>(std::max<std::int64_t>(0, records));
  stats->payload_bytes = payload_bytes_.load(std::memory_order_relaxed);
  stats->damaged_records = damaged_.load(std::memory_order_relaxed);
  const auto dropped = static_cast<std::int64_t>(dropped_.load(std::memory_order_relaxed));
  stats->dropped_records = static_cast<std::uint64_t>(std::max<std::int64_t>(0, dropped));
  stats->reopened_streams = reopened_.load(std::memory_order_relaxed);
  stats->filtered_records = filtered_.load(std::memory_order_relaxed);
  stats->truncated_records = truncated_.load(std::memory_order_relaxed);
  const std::int64_t lost = lost_ranges_.load(std::memory_order_relaxed);
  stats->lost_ranges = static_cast<std::uint64_t>(std::max<std::int64_t>(0, lost));
}

void Ledger::FillNumbersLocked(PipelineStats* stats) const {
  stats->passes_ended = ended_.passes;
  stats->read_bytes = ended_.read_bytes;
  stats->grown_batches = ended_.grown_batches;
  stats->late_wakes = ended_.late_wakes;
  stats->planned.dropped_records = ended_.left_out.dropped;
  stats->planned.empty_records = ended_.left_out.empty;
  stats->planned.plan_s = 1e-9 * static_cast<double>(ended_.order_ns);
  stats->files_read = files_read_;
  stats->files_refused = files_refused_;
  stats->files_missing = files_missing_;
}

void Ledger::Fill(PipelineStats* stats) const {
  FillAtomics(stats);
  const std::lock_guard lock(mutex_);
  FillNumbersLocked(stats);
  stats->damage = damage_;
  stats->warnings = warnings_;
  stats->io = choices_;
  // Lanes meet damage in the order of their stripes.
  std::ranges::stable_sort(stats->damage, {}, [](const DamagedRange& range) {
    return std::tie(range.file, range.begin);
  });
}

void Ledger::FillCounts(PipelineStats* stats, PathCounts* paths) const {
  FillAtomics(stats);
  const std::lock_guard lock(mutex_);
  FillNumbersLocked(stats);
  *paths = paths_;
}

namespace {

Status Compare(const std::string& when, std::uint64_t counted, const RowTally& tally) {
  if (tally.rows() == counted) return {};
  const auto part = [](std::uint64_t rows, const char* what) {
    return rows == 0 ? std::string() : ", " + std::to_string(rows) + " " + what;
  };
  return Status(StatusCode::kInternal,
                "up to the end of " + when + " there were " + std::to_string(counted) +
                    " records, and " + std::to_string(tally.rows()) +
                    " are accounted for: " + std::to_string(tally.delivered) + " delivered" +
                    part(tally.unplaced, "filtered") + part(tally.damaged, "damaged") +
                    part(tally.dropped, "dropped") + part(tally.left_out, "left out") +
                    part(tally.of_others, "of other ranks"));
}

}  // namespace

Status Ledger::Check(std::uint64_t pass, std::uint64_t counted, const RowTally& tally) {
  return tally.rows() == counted ? Status()
                                 : Compare("pass " + std::to_string(pass), counted, tally);
}

Status Ledger::CheckEnd(std::uint64_t counted, const RowTally& tally) {
  return Compare("the data", counted, tally);
}

}  // namespace ringfeed
