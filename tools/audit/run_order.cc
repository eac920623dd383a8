#include "tools/audit/run_order.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace ringfeed::tools {
namespace {

constexpr std::size_t kTold = 5;

auto Likeness(const JournalSection& section) {
  return std::tie(section.start.batch, section.start.ranks, section.start.launch);
}

std::uint64_t Between(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : b - a; }

// Sections that start alike and are not in a run yet. Each rank's are ordered by their clock,
// because within a file times only grow.
struct Alike {
  std::uint64_t batch = 0;
  std::map<int, std::deque<std::size_t>> waiting;  // by rank
  std::size_t in_front = 0;                        // sections that are next in their files
};

// A possible next run.
struct Candidate {
  Alike* alike = nullptr;
  std::vector<int> ranks;   // the ranks that can be in it
  bool lacks_rank = false;  // one more belongs to it, with other runs first in its file
  bool reached = false;     // earlier runs got to its start
  std::uint64_t clock = ~std::uint64_t{0};

  auto Preference() const { return std::tuple(lacks_rank, !reached, clock); }
};

class Ordering {
 public:
  Ordering(const std::vector<JournalSection>& sections, const std::vector<std::string>& paths)
      : sections_(sections), paths_(paths) {
    using Key = std::tuple<std::uint64_t, int, std::string>;
    std::map<Key, std::size_t> known;
    for (std::size_t i = 0; i < sections.size(); ++i) {
      const auto [at, is_new] = known.emplace(Key(Likeness(sections[i])), known.size());
      alike_of_.push_back(at->second);
      reach_ = std::min(reach_, sections[i].start.batch);
    }
    alikes_.resize(known.size());
    for (std::size_t i = 0; i < sections.size(); ++i) {
      alikes_[alike_of_[i]].batch = sections[i].start.batch;
      alikes_[alike_of_[i]].waiting[sections[i].start.rank].push_back(i);
      if (IsFirstOfFile(i)) BringToFront(i);
    }
    for (Alike& alike : alikes_) {
      for (auto& [rank, waiting] : alike.waiting) {
        std::stable_sort(waiting.begin(), waiting.end(),
                         [&](std::size_t a, std::size_t b) { return Clock(a) < Clock(b); });
      }
    }
  }

  RunOrder Run() {
    while (!front_.empty()) {
      const std::vector<Candidate> candidates = Candidates();
      const auto best = std::min_element(
          candidates.begin(), candidates.end(),
          [](const Candidate& a, const Candidate& b) { return a.Preference() < b.Preference(); });
      if (best == candidates.end()) {
        Contradiction("order: the journals tell of a rank's runs in different orders: " +
                      PathOf(*front_.begin()));
        Take({*front_.begin()});
        continue;
      }
      TellContradictions(candidates, *best);
      Take(SectionsOf(*best));
    }
    return std::move(order_);
  }

 private:
  std::uint64_t Clock(std::size_t section) const { return sections_[section].start.started_ns; }
  const std::string& PathOf(std::size_t section) const {
    return paths_[sections_[section].journal];
  }
  bool IsFirstOfFile(std::size_t section) const {
    return section == 0 || sections_[section].journal != sections_[section - 1].journal;
  }
  void BringToFront(std::size_t section) {
    front_.insert(section);
    ++active_[alike_of_[section]];
  }

  std::vector<Candidate> Candidates() {
    std::vector<Candidate> candidates;
    for (const auto& [number, in_front] : active_) {
      Candidate candidate;
      candidate.alike = &alikes_[number];
      candidate.reached = candidate.alike->batch <= reach_;
      std::size_t most = 0;
      std::size_t most_behind = 0;
      for (const auto& [rank, waiting] : candidate.alike->waiting) {
        const std::size_t first = waiting.front();
        const bool ready = front_.contains(first);
        std::size_t& count = ready ? most : most_behind;
        count = std::max(count, waiting.size());
        if (!ready) continue;
        candidate.ranks.push_back(rank);
        candidate.clock = std::min(candidate.clock, Clock(first));
      }
      // A rank with fewer such runs may have missed this one.
      candidate.lacks_rank = most_behind >= most;
      if (!candidate.ranks.empty()) candidates.push_back(std::move(candidate));
    }
    return candidates;
  }

  std::vector<std::size_t> SectionsOf(const Candidate& run) const {
    const std::deque<std::size_t>* most = nullptr;
    for (const int rank : run.ranks) {
      const auto& waiting = run.alike->waiting.at(rank);
      if (most == nullptr || waiting.size() > most->size()) most = &waiting;
    }
    std::vector<std::size_t> taken;
    for (const int rank : run.ranks) {
      const auto& waiting = run.alike->waiting.at(rank);
      const std::uint64_t clock = Clock(waiting.front());
      // A rank that missed a run belongs to the run with the nearest time.
      const bool later = waiting.size() < most->size() &&
                         Between(clock, Clock((*most)[1])) < Between(clock, Clock((*most)[0]));
      if (!later) taken.push_back(waiting.front());
    }
    return taken;
  }

  void Take(std::vector<std::size_t> run) {
    std::uint64_t reach = 0;
    for (const std::size_t section : run) {
      reach = std::max(reach, sections_[section].next_batch);
      Alike& alike = alikes_[alike_of_[section]];
      auto& waiting = alike.waiting[sections_[section].start.rank];
      waiting.erase(std::find(waiting.begin(), waiting.end(), section));
      if (waiting.empty()) alike.waiting.erase(sections_[section].start.rank);
      front_.erase(section);
      if (--active_[alike_of_[section]] == 0) active_.erase(alike_of_[section]);
      const std::size_t next = section + 1;
      if (next < sections_.size() && !IsFirstOfFile(next)) BringToFront(next);
    }
    reach_ = reach;
    order_.runs.push_back(std::move(run));
  }

  void TellContradictions(const std::vector<Candidate>& candidates, const Candidate& best) {
    const auto first = [](const Candidate& candidate) {
      return candidate.alike->waiting.at(candidate.ranks.front()).front();
    };
    const std::string run = "the run from batch " + std::to_string(best.alike->batch) + " (" +
                            PathOf(first(best)) + ")";
    for (const Candidate& other : candidates) {
      if (best.lacks_rank && other.alike != best.alike) {
        Contradiction("order: journals tell in different orders of " + run +
                      " and the one from batch " + std::to_string(other.alike->batch) + " (" +
                      PathOf(first(other)) + ")");
      } else if (!other.lacks_rank && best.reached && !other.reached && other.clock < best.clock) {
        Contradiction("order: by its host's clock the run from batch " +
                      std::to_string(other.alike->batch) + " (" + PathOf(first(other)) +
                      ") began before " + run + ", and no other got to where it starts");
      }
    }
  }

  void Contradiction(std::string what) {
    if (order_.contradictions.size() < kTold) order_.contradictions.push_back(std::move(what));
  }

  const std::vector<JournalSection>& sections_;
  const std::vector<std::string>& paths_;
  std::vector<std::size_t> alike_of_;  // by section
  std::vector<Alike> alikes_;
  std::set<std::size_t> front_;                // the next section of each file
  std::map<std::size_t, std::size_t> active_;  // how many of these start alike
  std::uint64_t reach_ = ~std::uint64_t{0};    // of the runs so far, without rolled back batches
  RunOrder order_;
};

}  // namespace

bool StartAlike(const JournalSection& one, const JournalSection& other) {
  return Likeness(one) == Likeness(other);
}

RunOrder OrderRuns(const std::vector<JournalSection>& sections,
                   const std::vector<std::string>& paths) {
  return Ordering(sections, paths).Run();
}

}  // namespace ringfeed::tools
