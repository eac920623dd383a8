#include "tools/audit/journal_audit.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "readers/chain/journal/journal_line.h"
#include "ringfeed/journal.h"
#include "ringfeed/status.h"
#include "tools/audit/journal_runs.h"
#include "tools/audit/record_marks.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kNamed = 10;
constexpr std::uint64_t kEmptyListed = 100;
// A journal's numbers must not cause an endless audit.
constexpr std::uint64_t kMostOfBatch = std::uint64_t{1} << 31;
constexpr std::uint64_t kMostPasses = std::uint64_t{1} << 24;

// A journal may hold any numbers: a product that overflows becomes the largest number.
std::uint64_t Times(std::uint64_t count, std::uint64_t each) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(count, each, &product) ? ~std::uint64_t{0} : product;
}

void Add(std::uint64_t count, std::uint64_t* sum) {
  if (__builtin_add_overflow(*sum, count, sum)) *sum = ~std::uint64_t{0};
}

std::string PlaceText(std::uint64_t pass, std::uint64_t file, std::uint64_t record) {
  return "pass " + std::to_string(pass) + ", file " + std::to_string(file) + ", record " +
         std::to_string(record);
}

struct FileMarks {
  RecordMarks delivered;
  RecordMarks damaged;
};

struct PassTally {
  std::map<std::uint32_t, FileMarks> files;
  std::uint64_t deliveries = 0;
  std::uint64_t repeated = 0;
  std::uint64_t damaged = 0;
  /// Places of the batches known to be complete.
  std::uint64_t places = 0;
  std::uint64_t first_batch = ~std::uint64_t{0};
};

class Audit {
 public:
  Audit(const std::vector<std::string>& paths, const std::vector<FileCount>& files)
      : runs_(paths),
        files_(files),
        records_(files.empty() ? runs_.shared().records : RecordsIn(files)) {
    const bool by_total = records_.empty() || runs_.shared().subset;
    total_ = by_total ? runs_.shared().total_records
                      : std::accumulate(records_.begin(), records_.end(), std::uint64_t{0});
    complete_ = runs_.complete_batches();
    const JournalStart& shared = runs_.shared();
    if (shared.batch_rows > 0 && !shared.split_by_files) {
      const std::uint64_t rest = shared.drop_remainder ? 0 : shared.batch_rows - 1;
      pass_batches_ =
          total_ / shared.batch_rows + (total_ % shared.batch_rows + rest) / shared.batch_rows;
    }
    report_.missing_checked = shared.rule == DeliveryRule::kOnce;
    report_.repeated_checked = shared.rule != DeliveryRule::kAnyTimes;
    report_.records_known = total_ > 0;
    report_.complete_batches = complete_;
    report_.ended = runs_.ended();
    report_.journals = runs_.paths().size();
    report_.cut_journals = runs_.cut_journals();
    report_.runs = runs_.runs();
    report_.empty_journals = runs_.empty_journals();
    for (const JournalSection& section : runs_.sections()) {
      if (section.start.replica == 0) report_.reported += section.damaged;
    }
  }

  AuditReport Run() {
    for (std::size_t i = 0; i < runs_.paths().size(); ++i) Tally(i);
    const std::uint64_t finished = FinishedPasses();
    CountFiles();
    std::uint64_t next = pass_batches_ > 0 ? runs_.first_batch() / pass_batches_
                         : runs_.first_batch() > 0 || tallies_.empty() ? finished
                                                                       : 0;
    for (const auto& [pass, tally] : tallies_) {
      ConcludeEmpty(next, std::min(pass, finished));
      Conclude(pass, pass < finished, tally);
      next = std::max(next, pass + 1);
    }
    ConcludeEmpty(next, finished);
    report_.findings.insert(report_.findings.end(), again_.begin(), again_.end());
    report_.findings.insert(report_.findings.end(), unlike_.begin(), unlike_.end());
    report_.order_contradicted = !runs_.contradictions().empty();
    report_.findings.insert(report_.findings.end(), runs_.contradictions().begin(),
                            runs_.contradictions().end());
    if (runs_.runs() == 0) {
      report_.findings.push_back(
          "empty: no journal has an entry, not even of a run's start: this proves nothing");
    }
    if (!report_.loss_known()) {
      report_.findings.push_back(
          "lost: the runs reported " + std::to_string(report_.reported) +
          " damaged records or ranges, and how many records were lost with these is not known: "
          "name the files with --files");
    }
    return std::move(report_);
  }

 private:
  // Batches below are audited if their pass is not finished. If the number of records is unknown,
  // the last one may be a pass's short rest.
  std::uint64_t Audited() const {
    return pass_batches_ > 0 || complete_ == 0 ? complete_ : complete_ - 1;
  }

  void Tally(std::size_t journal) {
    JournalReader reader(runs_.paths()[journal]);
    JournalEntry entry;
    auto section = std::lower_bound(
        runs_.sections().begin(), runs_.sections().end(), journal,
        [](const JournalSection& each, std::size_t number) { return each.journal < number; });
    bool begun = false;
    while (reader.Next(&entry) == ReadResult::kRecord) {
      if (entry.kind == JournalEntry::Kind::kStart) section += begun ? 1 : 0;
      begun = true;
      // Entries appended after the runs were read do not belong to this audit.
      if (section == runs_.sections().end() || section->journal != journal) return;
      const bool is_batch =
          entry.kind == JournalEntry::Kind::kBatch || entry.kind == JournalEntry::Kind::kCut;
      if (!is_batch || entry.origin.batch >= section->next_seen) continue;
      CheckNumbers(entry.origin, journal);
      if (entry.kind == JournalEntry::Kind::kBatch) Compare(section->start, entry.origin);
      if (section->start.replica != 0) continue;
      if (entry.origin.batch >= section->rolled_back_from) {
        for (const RecordRange& range : entry.origin.records) report_.rolled_back += range.count;
      } else {
        Keep(entry.origin);
      }
    }
    if (!reader.status().ok()) throw Error(reader.status());
  }

  // Replicas of a rank are given the same batches.
  void Compare(const JournalStart& start, const BatchOrigin& origin) {
    if (start.replicas == 1) return;
    std::string line;
    FormatJournalBatch(origin, &line);
    const std::size_t hash = std::hash<std::string>()(line);
    const auto [noted, is_first] = given_.try_emplace(
        {start.launch, start.ranks, start.rank, origin.batch}, start.replica, hash);
    const auto& [replica, first_hash] = noted->second;
    if (is_first || replica == start.replica || hash == first_hash) return;
    ++report_.unlike_replicas;
    if (unlike_.size() >= kNamed) return;
    unlike_.push_back("unlike: replica " + std::to_string(start.replica) + " of rank " +
                      std::to_string(start.rank) + " had other records in batch " +
                      std::to_string(origin.batch) + " than replica " + std::to_string(replica));
  }

  bool There(const RecordRange& range) const {
    if (records_.empty()) return true;
    if (range.file >= records_.size()) return false;
    const bool one_more = !files_.empty() && files_[range.file].lost_ranges;
    const std::uint64_t end = records_[range.file] + (one_more ? 1 : 0);
    return range.count <= end && range.first <= end - range.count;
  }

  void CheckNumbers(const BatchOrigin& origin, std::size_t journal) const {
    std::uint64_t sum = 0;
    bool good = origin.pass < kMostPasses;
    for (const auto* ranges : {&origin.records, &origin.damaged}) {
      for (const RecordRange& range : *ranges) {
        good = good && There(range);
        sum += std::min(range.count, kMostOfBatch);
      }
    }
    if (good && sum < kMostOfBatch) return;
    throw Error(Status(StatusCode::kDamaged,
                       "the journal " + runs_.paths()[journal] + " has records in batch " +
                           std::to_string(origin.batch) + " that the data set does not have"));
  }

  void Keep(const BatchOrigin& origin) {
    PassTally& tally = tallies_[origin.pass];
    std::uint64_t places = 0;
    for (const RecordRange& range : origin.records) {
      const std::uint64_t again = tally.files[range.file].delivered.Mark(
          range.first, range.count, [&](std::uint64_t record) {
            if (again_.size() >= kNamed || !report_.repeated_checked) return;
            again_.push_back("repeated: " + PlaceText(origin.pass, range.file, record) +
                             ", the second time in batch " + std::to_string(origin.batch));
          });
      tally.deliveries += range.count;
      tally.repeated += again;
      places += range.count - again;
    }
    for (const RecordRange& range : origin.damaged) {
      const std::uint64_t again = tally.files[range.file].damaged.Mark(range.first, range.count);
      tally.damaged += range.count - again;
      places += range.count - again;
    }
    if (origin.batch < complete_) open_pass_ = std::max(open_pass_, origin.pass);
    if (origin.batch < Audited()) tally.places += places;
    tally.first_batch = std::min(tally.first_batch, origin.batch);
    any_ = true;
  }

  // All passes before were delivered to their ends by all ranks.
  std::uint64_t FinishedPasses() const {
    if (report_.ended && any_) {
      // Passes without any delivery came to their ends, too.
      const std::uint64_t whole = pass_batches_ > 0 ? complete_ / pass_batches_ : 0;
      return std::max(tallies_.rbegin()->first + 1, whole);
    }
    if (pass_batches_ > 0) return complete_ / pass_batches_;
    if (!runs_.shared().split_by_files) return open_pass_;
    std::uint64_t finished = ~std::uint64_t{0};  // each rank has batch numbers of its own passes
    for (const JournalSection* section : runs_.last_run()) {
      if (section == nullptr) return 0;
      if (!section->ended) finished = std::min(finished, section->last_pass);
    }
    return finished;
  }

  void Conclude(std::uint64_t pass, bool finished, const PassTally& tally) {
    PassAudit audit;
    audit.pass = pass;
    audit.finished = finished;
    audit.records = tally.deliveries;
    audit.damaged = tally.damaged;
    if (report_.repeated_checked) audit.repeated = tally.repeated;
    if (report_.missing_checked && finished) CountAbsent(tally, &audit);
    if (report_.missing_checked && !finished) CountOpen(tally, &audit);
    AddPasses(audit, 1);
  }

  // Passes without any delivery, `next` to `end`. Journals may claim any number of passes: only the
  // first ones are listed.
  void ConcludeEmpty(std::uint64_t next, std::uint64_t end) {
    if (!report_.missing_checked || next >= end) return;
    PassAudit audit;
    audit.finished = true;
    for (const std::uint64_t first = next; next < end && next < first + kEmptyListed; ++next) {
      audit = PassAudit();
      audit.pass = next;
      audit.finished = true;
      CountAbsent(PassTally(), &audit);
      AddPasses(audit, 1);
    }
    if (next == end) return;
    audit.pass = next;
    AddPasses(audit, end - next);
    AddFinding("missing: passes " + std::to_string(next) + " to " + std::to_string(end - 1) +
               ", all of their records");
  }

  void AddPasses(const PassAudit& audit, std::uint64_t passes) {
    Add(Times(passes, audit.records), &report_.records);
    Add(Times(passes, audit.missing), &report_.missing);
    Add(Times(passes, audit.repeated), &report_.repeated);
    Add(Times(passes, audit.damaged), &report_.damaged);
    Add(Times(passes, audit.dropped), &report_.dropped);
    report_.passes.push_back(audit);
  }

  std::size_t RoomForFindings() const { return kNamed - std::min(kNamed, report_.findings.size()); }
  void AddFinding(std::string finding) {
    if (RoomForFindings() > 0) report_.findings.push_back(std::move(finding));
  }

  // The number of records of each file, as far as it is known.
  void CountFiles() {
    for (std::size_t file = 0; file < records_.size(); ++file) {
      ends_.emplace_hint(ends_.end(), static_cast<std::uint32_t>(file), records_[file]);
    }
    for (const auto& [pass, tally] : tallies_) {
      if (!records_.empty()) break;
      for (const auto& [file, marks] : tally.files) {
        std::uint64_t& end = ends_[file];
        end = std::max({end, marks.delivered.end(), marks.damaged.end()});
      }
    }
    for (const auto& [file, records] : ends_) Add(records, &all_records_);
  }

  std::uint64_t MayBeDropped() const {
    const JournalStart& shared = runs_.shared();
    if (!shared.drop_remainder || shared.batch_rows == 0) return 0;
    if (!shared.split_by_files && total_ > 0) return total_ % shared.batch_rows;
    return shared.batch_rows - 1;  // of the ranks together, at most
  }

  // Places of the pass before the first start of all runs.
  std::uint64_t Before(std::uint64_t pass) const {
    const std::uint64_t start = runs_.first_batch();
    if (start == 0) return 0;
    if (pass_batches_ == 0) return pass == tallies_.begin()->first ? ~std::uint64_t{0} : 0;
    const std::uint64_t first = Times(pass, pass_batches_);
    return start <= first ? 0 : Times(start - first, runs_.shared().batch_rows);
  }

  void CountAbsent(const PassTally& tally, PassAudit* audit) {
    std::uint64_t present = 0;
    // Which records a subset leaves out is not known, but how many it keeps.
    std::uint64_t absent = runs_.shared().subset ? 0 : all_records_;
    for (const auto& [file, marks] : tally.files) {
      const std::uint64_t there =
          marks.delivered.marked() + marks.damaged.marked() - marks.delivered.Common(marks.damaged);
      absent -= std::min({absent, ends_.at(file), there});
      present += there;
    }
    // There may be more after the last record of a file that was ever delivered.
    if (total_ > 0) absent = std::max(absent, total_ - std::min(total_, present));
    audit->before = std::min(absent, Before(audit->pass));
    audit->dropped = std::min(absent - audit->before, MayBeDropped());
    audit->missing = absent - audit->before - audit->dropped;
    if (audit->missing == 0) return;
    if (audit->missing < absent || runs_.shared().subset) {
      AddFinding("missing: pass " + std::to_string(audit->pass) + ", " +
                 std::to_string(audit->missing) +
                 (runs_.shared().subset ? " records of the subset"
                                        : " of these, the others were dropped or come before the "
                                          "first start:"));
    }
    if (!runs_.shared().subset) NameAbsent(tally, audit->pass);
  }

  void NameAbsent(const PassTally& tally, std::uint64_t pass) {
    static const FileMarks kNothing;
    for (const auto& [file, records] : ends_) {
      if (RoomForFindings() == 0) return;
      const auto found = tally.files.find(file);
      const FileMarks& marks = found == tally.files.end() ? kNothing : found->second;
      for (const std::uint64_t record :
           marks.delivered.FirstAbsent(records, &marks.damaged, RoomForFindings())) {
        AddFinding("missing: " + PlaceText(pass, file, record));
      }
    }
  }

  // For an unfinished pass: its batches that all ranks have delivered, by their number of rows.
  void CountOpen(const PassTally& tally, PassAudit* audit) {
    const JournalStart& shared = runs_.shared();
    if (shared.split_by_files || shared.batch_rows == 0) return;
    const std::uint64_t first =
        std::max(runs_.first_batch(),
                 pass_batches_ > 0 ? Times(audit->pass, pass_batches_) : tally.first_batch);
    if (Audited() <= first) return;
    const std::uint64_t expected = Times(Audited() - first, shared.batch_rows);
    audit->missing = expected - std::min(expected, tally.places);
    if (audit->missing == 0) return;
    AddFinding("missing: pass " + std::to_string(audit->pass) + ", " +
               std::to_string(audit->missing) + " records of batches " + std::to_string(first) +
               " to " + std::to_string(Audited() - 1));
  }

  static std::vector<std::uint64_t> RecordsIn(const std::vector<FileCount>& files) {
    std::vector<std::uint64_t> records;
    for (const FileCount& file : files) records.push_back(file.records);
    return records;
  }

  const JournalRuns runs_;
  const std::vector<FileCount> files_;           // empty: they were not counted
  const std::vector<std::uint64_t> records_;     // of each file; empty: not known
  std::uint64_t total_ = 0;                      // of all files; 0: not known
  std::map<std::uint32_t, std::uint64_t> ends_;  // records of each file as far as they are known
  std::uint64_t all_records_ = 0;                // of all of these
  std::uint64_t pass_batches_ = 0;               // 0: not known
  std::uint64_t complete_ = 0;
  std::map<std::uint64_t, PassTally> tallies_;
  std::uint64_t open_pass_ = 0;
  bool any_ = false;
  std::vector<std::string> again_;
  /// What a replica was given in a batch: the first one that is found, and a hash of its line. By
  /// launch, number of ranks, rank and batch.
  std::map<std::tuple<std::string, int, int, std::uint64_t>, std::pair<int, std::size_t>> given_;
  std::vector<std::string> unlike_;
  AuditReport report_;
};

}  // namespace

AuditReport AuditJournals(const std::vector<std::string>& paths,
                          const std::vector<FileCount>& files) {
  return Audit(paths, files).Run();
}

}  // namespace ringfeed::tools
