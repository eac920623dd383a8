#include "readers/engine/files/file_schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/balanced_split.h"
#include "base/machine/in_parallel.h"
#include "io/remote/remote_source.h"
#include "readers/index/compressed_file.h"
#include "readers/order/files_of_pass.h"

namespace ringfeed {
namespace {

/// Objects of stores that are examined at a time: each answer takes a round trip.
constexpr std::size_t kExaminedTogether = 32;

}  // namespace

FileSchedule::FileSchedule(std::vector<std::string> names,
                           std::vector<std::shared_ptr<Source>> sources, const Options& options)
    : names_(std::move(names)), sources_(std::move(sources)), options_(options) {
  const FileOrder& order = options_.order;
  const std::size_t in_a_pass = BalancedRange(names_.size(), order.ranks, order.rank).size();
  lanes_ = std::max<std::size_t>(1, std::min(options_.cycle, in_a_pass));
  examined_.resize(names_.size());
  lane_pass_.resize(lanes_);
  lane_taken_.resize(lanes_);
}

ExaminedFile FileSchedule::ExamineNow(std::size_t file) const {
  const std::shared_ptr<Source> source = sources_.empty() ? nullptr : sources_[file];
  if (!options_.by_file || source != nullptr) {
    return ExamineListed(options_.index, file, names_[file], source, options_.format,
                         options_.stripe_bytes);
  }
  ExaminedFile result;
  result.name = names_[file];
  result.status = SizeOfFile(result.name, &result.bytes, &result.inode);
  return result;
}

bool FileSchedule::IsAskedFor(std::size_t file) const {
  return options_.index.manifest == nullptr && !sources_.empty() && IsOfStore(sources_[file].get());
}

const ExaminedFile& FileSchedule::Examine(std::span<const std::size_t> files) {
  if (examined_[files[0]]) return *examined_[files[0]];
  std::vector<std::size_t> together = {files[0]};
  for (std::size_t i = 1; i < files.size() && IsAskedFor(files[0]); ++i) {
    if (together.size() == kExaminedTogether) break;
    if (!examined_[files[i]] && IsAskedFor(files[i])) together.push_back(files[i]);
  }
  ForEachInParallel(together.size(), together.size(),
                    [&](std::size_t i) { examined_[together[i]] = ExamineNow(together[i]); });
  return *examined_[files[0]];
}

std::unique_ptr<FileSchedule::Pass> FileSchedule::NewPass(std::uint64_t number) const {
  auto pass = std::make_unique<Pass>();
  pass->files = FilesOfPass(files(), options_.order, options_.first_epoch + number);
  pass->free_at.resize(lanes_);
  pass->open.resize(lanes_);
  pass->started.resize(lanes_);
  pass->assigned.resize(lanes_);
  pass->lane_done.resize(lanes_);
  return pass;
}

bool FileSchedule::ExtendUntil(Pass& pass, std::uint64_t number, std::size_t lane,
                               std::size_t count) {
  while (pass.assigned[lane].size() < count && !pass.lane_done[lane]) {
    // The lane whose turn to take a file comes first: fewest turns taken, then the lowest number.
    std::size_t taker = options_.unordered ? lane : lanes_;
    for (std::size_t i = 0; i < lanes_ && !options_.unordered; ++i) {
      if (!pass.lane_done[i] && (taker == lanes_ || pass.free_at[i] < pass.free_at[taker])) {
        taker = i;
      }
    }
    if (pass.open[taker] && !options_.unordered) return false;
    const std::span<const std::size_t> files = pass.files;
    while (pass.next_file < files.size() && Examine(files.subspan(pass.next_file)).stripes == 0) {
      if (options_.passed_over) options_.passed_over(names_[files[pass.next_file]]);
      ++pass.next_file;
    }
    if (pass.next_file == files.size()) {
      pass.lane_done[taker] = true;
    } else {
      Assign(pass, number, taker);
    }
  }
  return true;
}

std::vector<std::size_t> FileSchedule::AllFiles() const {
  std::vector<std::size_t> all(files());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

bool FileSchedule::HasStripes() {
  const std::lock_guard lock(mutex_);
  const std::vector<std::size_t> all = AllFiles();
  for (std::size_t file = 0; file < all.size(); ++file) {
    if (Examine(std::span(all).subspan(file)).stripes != 0) return true;
  }
  return false;
}

std::uint64_t FileSchedule::LongestStripe() {
  constexpr std::size_t kMostExamined = 4096;
  const std::lock_guard lock(mutex_);
  const bool are_far = options_.index.manifest == nullptr && AnyOfStore(sources_);
  if (options_.by_file || files() > (are_far ? kExaminedTogether : kMostExamined)) {
    return options_.stripe_bytes;
  }
  std::uint64_t longest = 1;
  const std::vector<std::size_t> all = AllFiles();
  for (std::size_t file = 0; file < all.size(); ++file) {
    const ExaminedFile& examined = Examine(std::span(all).subspan(file));
    if (examined.stripes == kUnknownSize) return options_.stripe_bytes;
    longest = std::max(longest, examined.bytes);
  }
  return std::min(longest, options_.stripe_bytes);
}

void FileSchedule::Assign(Pass& pass, std::uint64_t number, std::size_t lane) {
  const std::size_t index = pass.files[pass.next_file++];
  const ExaminedFile& file = *examined_[index];
  pass.open[lane] = file.stripes == kUnknownSize;
  pass.started[lane] = pass.free_at[lane];
  pass.free_at[lane] += pass.open[lane] ? 1 : file.stripes;
  pass.assigned[lane].push_back({file, Assignment::Kind::kFile, index, number});
}

void FileSchedule::EndTurn(std::size_t lane, bool file_ends) {
  {
    const std::lock_guard lock(mutex_);
    Pass& pass = *passes_[lane_pass_[lane] - first_pass_];
    if (!file_ends) {
      ++pass.free_at[lane];
    } else {
      pass.open[lane] = false;
      examined_[pass.assigned[lane].back().file]->stripes = pass.free_at[lane] - pass.started[lane];
    }
    version_.fetch_add(1, std::memory_order_acq_rel);
    if (!std::exchange(lanes_wait_, false)) return;
  }
  if (options_.moved) options_.moved();
}

Assignment FileSchedule::Next(std::size_t lane) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = lane_pass_[lane];
  Assignment result;
  if (options_.passes != 0 && number >= options_.passes) return result;
  while (first_pass_ + passes_.size() <= number) {
    passes_.push_back(NewPass(first_pass_ + passes_.size()));
  }
  Pass& pass = *passes_[number - first_pass_];
  const std::size_t taken = lane_taken_[lane];
  if (!ExtendUntil(pass, number, lane, taken + 1)) {
    lanes_wait_ = true;
    result.kind = Assignment::Kind::kWait;
    result.version = version();
    return result;
  }
  if (taken < pass.assigned[lane].size()) {
    ++lane_taken_[lane];
    return pass.assigned[lane][taken];
  }
  ++lane_pass_[lane];
  lane_taken_[lane] = 0;
  result.kind = Assignment::Kind::kPassEnd;
  result.pass = number;
  const std::uint64_t oldest = *std::min_element(lane_pass_.begin(), lane_pass_.end());
  while (first_pass_ < oldest && !passes_.empty()) {
    passes_.erase(passes_.begin());
    ++first_pass_;
  }
  return result;
}

}  // namespace ringfeed
