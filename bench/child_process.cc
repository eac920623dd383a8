#include "bench/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "bench/loops.h"
#include "ringfeed/status.h"

namespace ringfeed::bench {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

LoopResult RunChild(const std::vector<std::string>& words, const std::string& output,
                    int* exit_status) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const Timer timer;
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Error(StatusFromErrno(error, "run " + words[0]));
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  LoopResult result;
  timer.Stop(&result);
  result.cpu_s = Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  const int ended = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (exit_status != nullptr) {
    *exit_status = ended;
  } else if (ended != 0) {
    throw Error(Status(StatusCode::kInternal, words[0] + " failed"));
  }
  return result;
}

LoopResult RunShell(const std::string& line) {
  return RunChild({"bash", "-o", "pipefail", "-c", line}, "/dev/null");
}

std::string RingfeedCommand() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return (self.parent_path().parent_path() / "tools" / "ringfeed").string();
}

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::uint64_t DigestOfFile(const std::string& path) {
  const std::string bytes = ReadWhole(path);
  BatchDigest digest;
  digest.Add(std::as_bytes(std::span(bytes)));
  return digest.value();
}

}  // namespace ringfeed::bench
