#include "readers/file_schedule.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "base/balanced_split.h"
#include "readers/order/files_of_pass.h"

namespace ringfeed {

namespace {

/// Fills the front of `head`; a source, where it is not null, is read in place of the file.
std::size_t ReadSome(const std::string& name, Source* source, std::span<std::byte> head) {
  if (source != nullptr) {
    head = head.first(std::min<std::uint64_t>(head.size(), source->Size()));
    std::size_t got = 0;
    return source->ReadAt(0, head, &got).ok() ? got : 0;
  }
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const ssize_t got = pread(descriptor, head.data(), head.size(), 0);
  close(descriptor);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

/// The first bytes of a file, for detection only; an unreadable file gives none and fails when
/// opened.
std::vector<std::byte> ReadHead(const std::string& name, Source* source) {
  std::vector<std::byte> head(kHeadBytes);
  head.resize(ReadSome(name, source, head));
  const std::size_t needed = HeadBytesOf(head);
  if (needed > kHeadBytes) {
    head.resize(needed);
    head.resize(ReadSome(name, source, head));
  }
  return head;
}

}  // namespace

FileSchedule::FileSchedule(std::vector<std::string> names,
                           std::vector<std::shared_ptr<Source>> sources, const Options& options)
    : names_(std::move(names)), sources_(std::move(sources)), options_(options) {
  if (!sources_.empty()) {
    names_.clear();
    for (const auto& source : sources_) names_.push_back(source->name());
  }
  const FileOrder& order = options_.order;
  const std::size_t in_a_pass = BalancedRange(names_.size(), order.ranks, order.rank).size();
  lanes_ = std::max<std::size_t>(1, std::min(options_.cycle, in_a_pass));
  examined_.resize(names_.size());
  lane_pass_.resize(lanes_);
  lane_taken_.resize(lanes_);
}

Status FileSchedule::StatFile(const std::string& name, std::uint64_t* bytes) const {
  struct stat info {};
  if (stat(name.c_str(), &info) != 0) {
    return StatusFromErrno(errno, "examine").WithPlace({name, -1, -1});
  }
  if (S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument,
                  "is a directory; name the files in it, e.g. \"" + name + "/*\"", {name, -1, -1});
  }
  *bytes = static_cast<std::uint64_t>(info.st_size);
  return {};
}

FileSchedule::Examined FileSchedule::ExamineNow(std::size_t file) const {
  Examined result;
  result.known = true;
  result.stripes = 1;
  result.name = names_[file];
  Source* const source = sources_.empty() ? nullptr : sources_[file].get();
  if (source != nullptr) {
    result.bytes = source->Size();
  } else {
    result.status = StatFile(result.name, &result.bytes);
    if (!result.status.ok() || options_.by_file) return result;
  }
  FormatResult format = ChooseFormat(options_.format, result.name, ReadHead(result.name, source));
  if (format.status.ok() && !format.data_file.empty()) {
    result.name = std::move(format.data_file);
    format.status = StatFile(result.name, &result.bytes);
  }
  if (!format.status.ok()) {
    result.status = format.status.WithPlace({result.name, -1, -1});
    return result;
  }
  result.format = std::move(format.format);
  result.compression = format.compression;
  result.stripes = result.compression != Compression::kNone
                       ? kUnknownSize
                       : result.format->Stripes(result.bytes, options_.stripe_bytes);
  return result;
}

const FileSchedule::Examined& FileSchedule::Examine(std::size_t file) {
  if (!examined_[file].known) examined_[file] = ExamineNow(file);
  return examined_[file];
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
    const std::vector<std::size_t>& files = pass.files;
    while (pass.next_file < files.size() && Examine(files[pass.next_file]).stripes == 0) {
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

void FileSchedule::Assign(Pass& pass, std::uint64_t number, std::size_t lane) {
  const std::size_t index = pass.files[pass.next_file++];
  const Examined& file = Examine(index);
  Assignment assignment;
  assignment.kind = Assignment::Kind::kFile;
  assignment.file = index;
  assignment.pass = number;
  assignment.stripes = file.stripes;
  assignment.bytes = file.bytes;
  assignment.status = file.status;
  assignment.format = file.format;
  assignment.compression = file.compression;
  assignment.name = file.name;
  pass.open[lane] = file.stripes == kUnknownSize;
  pass.started[lane] = pass.free_at[lane];
  pass.free_at[lane] += pass.open[lane] ? 1 : file.stripes;
  pass.assigned[lane].push_back(std::move(assignment));
}

void FileSchedule::EndTurn(std::size_t lane, bool file_ends) {
  {
    const std::lock_guard lock(mutex_);
    Pass& pass = *passes_[lane_pass_[lane] - first_pass_];
    if (!file_ends) {
      ++pass.free_at[lane];
    } else {
      pass.open[lane] = false;
      examined_[pass.assigned[lane].back().file].stripes = pass.free_at[lane] - pass.started[lane];
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
