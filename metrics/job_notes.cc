#include "metrics/job_notes.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace ringfeed {
namespace {

constexpr std::string_view kFirstLine = "ringfeed job 1";
constexpr std::size_t kMostNoteBytes = 4096;
constexpr std::size_t kMostCommandBytes = 512;

// In the order in which they are tried.
std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') folders.push_back(std::string(runtime) + "/ringfeed");
  folders.push_back("/tmp/ringfeed-" + std::to_string(geteuid()));
  return folders;
}

// Whether it is a folder that only this user can change or read.
bool IsOwnFolder(const std::string& folder) {
  struct stat found {};
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == geteuid() && (found.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

// "-4026531836": the part of a note's name after the process's number.
std::string NamespaceSuffix() {
  std::array<char, 64> link{};  // "pid:[4026531836]"
  const ssize_t got = readlink("/proc/self/ns/pid", link.data(), link.size());
  std::string suffix = "-";
  for (ssize_t i = 0; i < got; ++i) {
    const char c = link[static_cast<std::size_t>(i)];
    if (c >= '0' && c <= '9') suffix += c;
  }
  return suffix == "-" ? "-0" : suffix;
}

std::string NoteOf(const std::string& folder, int pid) {
  return folder + "/" + std::to_string(pid) + NamespaceSuffix();
}

// 0 if it is no note's name, or another namespace's.
int PidOf(std::string_view name, std::string_view suffix) {
  int pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  const auto digits = static_cast<std::size_t>(end - name.data());
  return error == std::errc() && name.substr(digits) == suffix ? pid : 0;
}

// At most `most` bytes of a file; empty if it cannot be read.
std::string Contents(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most, '\0');
  file.read(text.data(), static_cast<std::streamsize>(most));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

std::string CommandOf(int pid) {
  std::string words = Contents("/proc/" + std::to_string(pid) + "/cmdline", kMostCommandBytes);
  while (!words.empty() && words.back() == '\0') words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return words;
}

// False if it is no note, or its process has ended.
bool ReadNote(const std::string& path, int pid, JobNote* note) {
  std::istringstream lines(Contents(path, kMostNoteBytes));
  std::string first;
  std::string ticks;
  if (!std::getline(lines, first) || first != kFirstLine || !std::getline(lines, ticks) ||
      !std::getline(lines, note->address)) {
    return false;
  }
  const auto [end, error] =
      std::from_chars(ticks.data(), ticks.data() + ticks.size(), note->start_ticks);
  if (error != std::errc() || end != ticks.data() + ticks.size()) return false;
  note->pid = pid;
  note->command = CommandOf(pid);
  return note->start_ticks != 0 && StartTicksOf(pid) == note->start_ticks;
}

Status WriteNote(const std::string& path, const std::string& text) {
  const std::string made = path + ".new";
  (void)unlink(made.c_str());  // of a killed process of this number
  const int file = open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return Status(StatusCode::kIoError, made + ": " + std::strerror(errno));
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int why = errno;
  (void)close(file);
  if (written && rename(made.c_str(), path.c_str()) == 0) return {};
  if (written) why = errno;
  (void)unlink(made.c_str());
  return Status(StatusCode::kIoError, path + ": " + std::strerror(why));
}

}  // namespace

std::uint64_t StartTicksOf(int pid) {
  const std::string stat = Contents("/proc/" + std::to_string(pid) + "/stat", kMostNoteBytes);
  const std::size_t name_end = stat.rfind(')');  // the name may have anything in it
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  constexpr int kStartTime = 20;  // fields after the name
  for (int i = 0; i < kStartTime; ++i) fields >> field;
  std::uint64_t ticks = 0;
  (void)std::from_chars(field.data(), field.data() + field.size(), ticks);
  return ticks;
}

Status LeaveJobNote(const std::string& address) {
  const int pid = getpid();
  const std::string text =
      std::string(kFirstLine) + "\n" + std::to_string(StartTicksOf(pid)) + "\n" + address + "\n";
  Status status(StatusCode::kIoError, "no folder can be had that is this user's alone");
  for (const std::string& folder : Folders()) {
    (void)mkdir(folder.c_str(), 0700);
    if (!IsOwnFolder(folder)) continue;
    status = WriteNote(NoteOf(folder, pid), text);
    if (status.ok()) return status;
  }
  return status;
}

void TakeJobNote() {
  for (const std::string& folder : Folders()) {
    if (IsOwnFolder(folder)) (void)unlink(NoteOf(folder, getpid()).c_str());
  }
}

std::vector<JobNote> FindJobs() {
  std::vector<JobNote> jobs;
  const std::string suffix = NamespaceSuffix();
  for (const std::string& folder : Folders()) {
    if (!IsOwnFolder(folder)) continue;
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), &closedir);
    while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries.get())) {
      const int pid = PidOf(entry->d_name, suffix);
      if (pid <= 0) continue;
      JobNote note;
      if (ReadNote(NoteOf(folder, pid), pid, &note)) {
        jobs.push_back(std::move(note));
      } else if (StartTicksOf(pid) == 0) {
        (void)unlink(NoteOf(folder, pid).c_str());
      }
    }
  }
  std::ranges::sort(jobs, {}, &JobNote::pid);
  return jobs;
}

}  // namespace ringfeed
