#include "readers/file_schedule.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

namespace ringfeed {

namespace {

constexpr std::size_t kHeadBytes = 4096;

/// The first bytes of a file, for detection only; an unreadable file gives none and fails when
/// opened.
std::size_t ReadHead(const std::string& name, std::span<std::byte> head) {
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const ssize_t got = pread(descriptor, head.data(), head.size(), 0);
  close(descriptor);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

}  // namespace

FileSchedule::FileSchedule(std::vector<std::string> names,
                           std::vector<std::shared_ptr<Source>> sources, const Options& options)
    : names_(std::move(names)), sources_(std::move(sources)), options_(options) {
  if (!sources_.empty()) {
    names_.clear();
    for (const auto& source : sources_) names_.push_back(source->name());
  }
  lanes_ = std::max<std::size_t>(1, std::min(options_.cycle, names_.size()));
  examined_.resize(names_.size());
  lane_pass_.resize(lanes_);
  lane_taken_.resize(lanes_);
}

FileSchedule::Examined FileSchedule::ExamineNow(std::size_t file) const {
  Examined result;
  result.known = true;
  result.stripes = 1;
  const std::string& name = names_[file];
  if (!sources_.empty()) {
    result.bytes = sources_[file]->Size();
  } else {
    struct stat info {};
    if (stat(name.c_str(), &info) != 0) {
      result.status = StatusFromErrno(errno, "examine").WithPlace({name, -1, -1});
      return result;
    }
    if (S_ISDIR(info.st_mode)) {
      result.status =
          Status(StatusCode::kInvalidArgument,
                 "is a directory; name the files in it, e.g. \"" + name + "/*\"", {name, -1, -1});
      return result;
    }
    result.bytes = static_cast<std::uint64_t>(info.st_size);
  }
  FormatResult format;
  if (!options_.format.empty()) {
    format = FindFormat(options_.format);
  } else {
    std::array<std::byte, kHeadBytes> head;
    std::size_t got = 0;
    if (sources_.empty()) {
      got = ReadHead(name, head);
    } else if (!sources_[file]->ReadAt(0, head, &got).ok()) {
      got = 0;
    }
    format = DetectFormat(name, std::span(head).first(got));
  }
  if (!format.status.ok()) {
    result.status = format.status.WithPlace({name, -1, -1});
    return result;
  }
  result.format = std::move(format.format);
  result.stripes = result.format->Stripes(result.bytes, options_.stripe_bytes);
  return result;
}

const FileSchedule::Examined& FileSchedule::Examine(std::size_t file) {
  if (!examined_[file].known) examined_[file] = ExamineNow(file);
  return examined_[file];
}

void FileSchedule::ExtendUntil(Pass& pass, std::uint64_t number, std::size_t lane,
                               std::size_t count) {
  while (pass.assigned[lane].size() < count && !pass.lane_done[lane]) {
    // The lane whose turn to take a file comes first: fewest turns taken, then the lowest number.
    std::size_t taker = lanes_;
    for (std::size_t i = 0; i < lanes_; ++i) {
      if (!pass.lane_done[i] && (taker == lanes_ || pass.free_at[i] < pass.free_at[taker])) {
        taker = i;
      }
    }
    while (pass.next_file < files() && Examine(pass.next_file).stripes == 0) ++pass.next_file;
    if (pass.next_file == files()) {
      pass.lane_done[taker] = true;
      continue;
    }
    const Examined& file = Examine(pass.next_file);
    Assignment assignment;
    assignment.kind = Assignment::Kind::kFile;
    assignment.file = pass.next_file++;
    assignment.pass = number;
    assignment.stripes = file.stripes;
    assignment.bytes = file.bytes;
    assignment.status = file.status;
    assignment.format = file.format;
    pass.free_at[taker] += file.stripes;
    pass.assigned[taker].push_back(std::move(assignment));
  }
}

Assignment FileSchedule::Next(std::size_t lane) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = lane_pass_[lane];
  Assignment result;
  if (options_.passes != 0 && number >= options_.passes) return result;
  while (first_pass_ + passes_.size() <= number) {
    auto pass = std::make_unique<Pass>();
    pass->free_at.resize(lanes_);
    pass->assigned.resize(lanes_);
    pass->lane_done.resize(lanes_);
    passes_.push_back(std::move(pass));
  }
  Pass& pass = *passes_[number - first_pass_];
  const std::size_t taken = lane_taken_[lane];
  ExtendUntil(pass, number, lane, taken + 1);
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
