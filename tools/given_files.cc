#include "tools/given_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/balanced_split.h"
#include "base/machine/cpu_count.h"
#include "base/machine/thread_start.h"
#include "base/memory/arena.h"
#include "io/remote/address.h"
#include "readers/chain/file_pattern.h"
#include "readers/chain/record_walk.h"
#include "readers/formats/examined_file.h"
#include "readers/formats/format.h"
#include "readers/index/manifest.h"
#include "ringfeed/ranks.h"
#include "ringfeed/source.h"
#include "tools/command.h"
#include "tools/progress_bar.h"

namespace ringfeed::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kTick{100};
// Less memory than this would make readers of large records fail that work by themselves.
constexpr std::size_t kLeastShare = std::size_t{64} << 20;

}  // namespace

std::vector<std::string> ExpandNames(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : ListedNames(names)) {
    const Status status = ExpandPattern(name, &files);
    if (status.code() == StatusCode::kNotFound) {
      files.push_back(name);  // opening it reports that
    } else if (!status.ok()) {
      throw Error(status);
    }
  }
  return files;
}

std::vector<std::string> NamedFiles(const std::vector<std::string>& names,
                                    const std::string& format) {
  CheckFormat(format);
  std::vector<std::string> files = ExpandNames(names);
  if (Status pairs = CheckPairs(format, files); !pairs.ok()) throw Error(pairs);
  return files;
}

void AddPartOption(CLI::App* app, FilesPart* part) {
  const auto take = [part](const std::string& word) {
    if (word == "launcher") {
      const Rank rank = FindRank();
      *part = {static_cast<std::uint64_t>(rank.rank), static_cast<std::uint64_t>(rank.world_size)};
      return;
    }
    const std::size_t slash = std::min(word.find('/'), word.size());
    const auto number = [](std::string_view digits, std::uint64_t* value) {
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), *value);
      return error == std::errc() && end == digits.data() + digits.size();
    };
    const std::string_view text(word);
    if (!number(text.substr(0, slash), &part->part) ||
        !number(text.substr(std::min(slash + 1, text.size())), &part->parts) ||
        part->part >= part->parts) {
      throw CLI::ValidationError(
          "--part",
          "\"" + word + "\" is no part: 0/4 is the first of four, launcher asks for the rank");
    }
  };
  app->add_option_function<std::string>(
         "--part", take,
         "I/N: only the I-th, from 0, of N parts of the files; launcher: by its rank, so that the "
         "processes of a job share the work")
      ->type_name("I/N");
}

std::vector<std::string> TakePart(std::vector<std::string> files, const FilesPart& part) {
  const NumberRange range = BalancedRange(files.size(), part.parts, part.part);
  files.erase(files.begin() + static_cast<std::ptrdiff_t>(range.end), files.end());
  files.erase(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(range.begin));
  return files;
}

bool IsRegularFile(const std::string& file) {
  if (IsStreamName(file)) return false;
  if (IsRemote(file)) return true;  // opening it tells whether it is there
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) throw Error(StatusFromErrno(errno, "open " + file));
  if (S_ISDIR(facts.st_mode)) throw Error(StatusFromErrno(EISDIR, "open " + file));
  return S_ISREG(facts.st_mode);
}

std::string FormatNameOf(const std::string& file, const std::string& asked) {
  if (!IsRegularFile(file)) return asked;
  OpenOptions options;
  options.format = asked;
  return std::string(RecordWalk(file, options).format().name());
}

void CheckFormat(const std::string& format) {
  if (format.empty()) return;
  if (Status status = FindFormat(format).status; !status.ok()) throw Error(status);
}

std::uint64_t BytesOfFiles(const std::vector<std::string>& files) {
  std::uint64_t bytes = 0;
  for (const std::string& file : files) {
    std::error_code failure;
    const std::uintmax_t size = std::filesystem::file_size(file, failure);
    bytes += failure ? 0 : size;
  }
  return bytes;
}

void RefuseStreamTwice(const std::vector<std::string>& files) {
  std::set<std::string> names;
  std::map<std::pair<dev_t, ino_t>, std::string> places;
  for (const std::string& file : files) {
    if (!IsStreamName(file)) continue;
    const std::string twice = " is a stream, which can be read once, and is named twice";
    if (!names.insert(file).second) throw Refuse(file + twice);
    struct stat facts {};
    const int found = file == "-" ? fstat(STDIN_FILENO, &facts) : stat(file.c_str(), &facts);
    if (found != 0) continue;  // an address, or opening it reports that
    const auto [place, is_new] = places.emplace(std::pair(facts.st_dev, facts.st_ino), file);
    if (!is_new) throw Refuse(file + twice + ": as " + place->second + " too");
  }
}

std::vector<std::string> FilesRead(const std::vector<std::string>& inputs,
                                   const std::string& format) {
  constexpr std::uint64_t kAnyStripe = std::uint64_t{1} << 20;
  // The one format of two files. Other files are not opened: that would bring them into the page
  // cache.
  const std::shared_ptr<const Format> of_two = FindFormat("megatron").format;
  std::vector<std::string> files = inputs;
  for (const std::string& input : inputs) {
    std::error_code missing;
    if (of_two->FilesOf(input).size() == 1) continue;
    if (IsStreamName(input) || !fs::is_regular_file(input, missing)) continue;
    const ExaminedFile examined = ExamineFile(input, nullptr, format, kAnyStripe);
    if (!examined.status.ok()) continue;  // reading it reports that
    for (const std::string& file : examined.format->FilesOf(input)) {
      if (file != input) files.push_back(file);
    }
  }
  return files;
}

std::vector<std::string> FilesWritten(const std::string& output, const std::string& format) {
  const FormatResult found = FindFormat(format);
  if (!found.status.ok()) return {output};
  return found.format->FilesOf(output);
}

void RefuseInputAsOutput(const std::vector<std::string>& inputs, const std::string& output) {
  if (output.empty()) return;
  for (const std::string& input : inputs) {
    std::error_code missing;
    const bool same_object = input == output && IsRemote(input);
    if (same_object || fs::equivalent(input, output, missing)) {
      throw Refuse(output + " is an input too");
    }
  }
}

void RefuseOneOutputTwice(const std::vector<std::string>& outputs) {
  std::set<fs::path> places;
  for (const std::string& output : outputs) {
    std::error_code failure;
    if (output.empty()) continue;
    const bool takes_all = fs::is_character_file(output, failure);  // such as /dev/null
    const fs::path place = fs::weakly_canonical(fs::absolute(output, failure), failure);
    if (!takes_all && !failure && !places.insert(place).second) {
      throw Refuse(output + " is named for two outputs");
    }
  }
}

FileShare ShareOut(const std::vector<std::string>& files) {
  // A file that needs more memory than a share is read again with more. A stream cannot be.
  if (std::ranges::any_of(files, IsStreamName)) return {};
  const std::size_t memory = Arena::Default()->unreserved_bytes() / 2;
  const auto cpus = static_cast<std::size_t>(std::max(1, CountCpus().usable));
  FileShare share;
  share.threads = std::max<std::size_t>(1, std::min({files.size(), cpus, memory / kLeastShare}));
  if (share.threads > 1) share.arena_bytes = memory / share.threads;
  return share;
}

void RunInOrder(std::size_t count, std::size_t threads, const FileJobs& jobs) {
  std::mutex mutex;  // guards the next two
  std::size_t next = 0;
  std::vector<bool> finished(count);
  std::condition_variable finished_one;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (next < count) {
      const std::size_t mine = next++;
      lock.unlock();
      jobs.job(mine);
      lock.lock();
      finished[mine] = true;
      finished_one.notify_one();
    }
  };
  std::vector<std::jthread> workers;
  try {
    while (workers.size() < std::min(count, threads)) {
      workers.push_back(StartThread("a thread for the files", work));
    }
  } catch (const Error&) {
    if (workers.empty()) throw;  // else those that run do all
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::unique_lock lock(mutex);
    while (!finished_one.wait_for(lock, kTick, [&] { return finished[i]; })) {
      lock.unlock();
      jobs.tick();
      lock.lock();
    }
    lock.unlock();
    jobs.done(i);
  }
}

void ProcessFiles(const FilesWork& work) {
  const FileShare share = work.together ? FileShare() : ShareOut(work.files);
  const std::size_t count = work.together ? 1 : work.files.size();
  std::vector<StatusCode> ends(count);
  std::atomic<std::uint64_t> bytes{0};  // for the bar alone
  const ByteProgress progress = [&](std::uint64_t more) {
    bytes.fetch_add(more, std::memory_order_relaxed);
  };
  ProgressBar bar(work.label, BytesOfFiles(work.files));
  const auto tick = [&] {
    const std::uint64_t so_far = bytes.load(std::memory_order_relaxed);
    bar.Update(so_far, so_far);
  };
  const auto job = [&](std::size_t i) {
    ends[i] = work.job(i, share.arena_bytes, progress).code();
  };
  const auto done = [&](std::size_t i) {
    if (ends[i] == StatusCode::kResourceExhausted && share.arena_bytes > 0) {
      (void)work.job(i, Arena::Default()->unreserved_bytes(), progress);
    }
    bar.Clear();
    work.done(i);
  };
  RunInOrder(count, share.threads, {job, done, tick});
}

}  // namespace ringfeed::tools
