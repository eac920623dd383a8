#include "tools/audit/journal_runs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ringfeed/status.h"
#include "tools/command.h"

namespace ringfeed::tools {
JournalRuns::JournalRuns(std::vector<std::string> paths) : paths_(std::move(paths)) {
  for (std::size_t i = 0; i < paths_.size(); ++i) Read(i);
  std::vector<JournalSection> counted;
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].start.replica != 0) continue;
    counted.push_back(sections_[i]);
    numbers.push_back(i);
  }
  RunOrder order = OrderRuns(counted, paths_);
  for (std::vector<std::size_t>& run : order.runs) {
    for (std::size_t& section : run) section = numbers[section];
  }
  runs_ = order.runs.size();
  contradictions_ = std::move(order.contradictions);
  RollBack(order.runs);
  FindLastRun(order.runs);
}

void JournalRuns::Read(std::size_t journal) {
  JournalReader reader(paths_[journal]);
  JournalEntry entry;
  ReadResult result;
  const std::size_t sections_before = sections_.size();
  std::uint64_t earliest_ns = 0;  // a clock that was set back does not change a file's order
  while ((result = reader.Next(&entry)) == ReadResult::kRecord) {
    if (entry.kind == JournalEntry::Kind::kStart) {
      JournalSection section;
      section.start = std::move(entry.start);
      section.start.started_ns = std::max(section.start.started_ns, earliest_ns);
      earliest_ns = section.start.started_ns + 1;
      section.journal = journal;
      section.next_batch = section.next_seen = section.start.batch;
      Join(section);
      // Frees its memory too: each start may list as many files.
      section.start.records = std::vector<std::uint64_t>();
      sections_.push_back(std::move(section));
      continue;
    }
    JournalSection& section = sections_.back();
    if (entry.kind == JournalEntry::Kind::kEnd) {
      section.ended = true;
      section.end_batches = entry.origin.batch;
    } else if (entry.kind == JournalEntry::Kind::kDamage) {
      section.damaged = entry.damaged;
    } else {
      section.next_seen = std::max(section.next_seen, entry.origin.batch + 1);
      if (entry.kind == JournalEntry::Kind::kBatch) {
        section.next_batch = std::max(section.next_batch, entry.origin.batch + 1);
      }
      section.last_pass = std::max(section.last_pass, entry.origin.pass);
    }
  }
  if (result == ReadResult::kFailed) throw Error(reader.status());
  if (reader.cut_bytes() > 0) ++cut_journals_;
  if (sections_.size() == sections_before) ++empty_journals_;
}

void JournalRuns::Join(const JournalSection& section) {
  const JournalStart& start = section.start;
  if (sections_.empty()) {
    shared_ = start;
    return;
  }
  const std::string& path = paths_[section.journal];
  const bool both_counted = !start.records.empty() && !shared_.records.empty();
  const bool both_totalled = start.total_records > 0 && shared_.total_records > 0;
  if (start.data != shared_.data || (both_counted && start.records != shared_.records) ||
      (both_totalled && start.total_records != shared_.total_records)) {
    throw Refuse(path + " tells of other data than " + paths_[0] +
                 ": audit the journals of one data set at a time");
  }
  if (start.batch_rows != shared_.batch_rows || start.drop_remainder != shared_.drop_remainder ||
      start.split_by_files != shared_.split_by_files || start.rule != shared_.rule ||
      start.subset != shared_.subset) {
    throw Refuse(path + " tells of batches that were made otherwise than those of " + paths_[0] +
                 ": audit the journals of one chain at a time");
  }
  if (start.epoch && shared_.epoch && start.epoch != shared_.epoch) {
    throw Refuse(path + " tells of epoch " + std::to_string(*start.epoch) + ", and before that " +
                 paths_[0] + " of epoch " + std::to_string(*shared_.epoch) +
                 ": write a journal for each epoch, and audit them one at a time");
  }
  if (!shared_.epoch) shared_.epoch = start.epoch;
  if (!both_counted && !start.records.empty()) shared_.records = start.records;
  shared_.total_records = std::max(shared_.total_records, start.total_records);
}

void JournalRuns::RollBack(const std::vector<std::vector<std::size_t>>& runs) {
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  std::uint64_t later = kNone;  // the smallest start of all runs after those that start alike
  std::set<int> ranks;          // of the later ones that start alike
  const JournalSection* behind = nullptr;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const JournalSection& first = sections_[run->front()];
    if (behind != nullptr && !StartAlike(*behind, first)) {
      later = std::min(later, behind->start.batch);
      ranks.clear();
    }
    behind = &first;
    for (const std::size_t number : *run) {
      JournalSection& section = sections_[number];
      const bool again = !ranks.insert(section.start.rank).second;
      section.rolled_back_from = std::min(later, again ? section.start.batch : kNone);
    }
  }
}

void JournalRuns::FindLastRun(const std::vector<std::vector<std::size_t>>& runs) {
  if (runs.empty()) return;
  const JournalSection& last = sections_[runs.back().front()];
  last_run_.assign(static_cast<std::size_t>(last.start.ranks), nullptr);
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    if (!StartAlike(sections_[run->front()], last)) return;
    for (const std::size_t number : *run) {
      const JournalSection*& of_rank =
          last_run_[static_cast<std::size_t>(sections_[number].start.rank)];
      if (of_rank == nullptr) of_rank = &sections_[number];
    }
  }
}

std::uint64_t JournalRuns::first_batch() const {
  std::uint64_t first = ~std::uint64_t{0};
  for (const JournalSection& section : sections_) first = std::min(first, section.start.batch);
  return sections_.empty() ? 0 : first;
}

bool JournalRuns::ended() const {
  return !last_run_.empty() &&
         std::all_of(last_run_.begin(), last_run_.end(),
                     [](const JournalSection* section) { return section && section->ended; });
}

std::uint64_t JournalRuns::complete_batches() const {
  std::uint64_t complete = ended() ? 0 : ~std::uint64_t{0};
  std::uint64_t start = 0;
  bool all = true;
  for (const JournalSection* section : last_run_) {
    all = all && section != nullptr;
    if (section == nullptr) continue;
    start = section->start.batch;
    complete = ended() ? std::max(complete, section->end_batches)
                       : std::min(complete, section->ended ? complete : section->next_batch);
  }
  if (last_run_.empty()) return 0;
  return all ? complete : start;
}

}  // namespace ringfeed::tools
