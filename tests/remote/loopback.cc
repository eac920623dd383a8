#include "tests/remote/loopback.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace ringfeed {
namespace {

sockaddr_in LoopbackAddress(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int Bound(std::uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  (void)setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = LoopbackAddress(port);
  if (bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return made;
  (void)close(made);
  return -1;
}

std::string PathOf(std::string_view name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(std::string(path == nullptr ? "" : path) + ":/usr/sbin:/usr/bin");
  std::string folder;
  while (std::getline(folders, folder, ':')) {
    std::string whole = folder + "/" + std::string(name);
    if (access(whole.c_str(), X_OK) == 0) return whole;
  }
  return {};
}

}  // namespace

std::uint16_t FreePort() {
  const int probe = Bound(0);
  sockaddr_in address{};
  socklen_t bytes = sizeof(address);
  (void)getsockname(probe, reinterpret_cast<sockaddr*>(&address), &bytes);
  (void)close(probe);
  return ntohs(address.sin_port);
}

int ConnectLoopback(std::uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = LoopbackAddress(port);
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    const int on = 1;
    (void)setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return made;
  }
  (void)close(made);
  return -1;
}

// Bound to a number, not to "any": only then the kernel keeps the port while nobody listens.
LoopbackListener::LoopbackListener() {
  for (int attempt = 0; attempt < 20 && socket_ < 0; ++attempt) {
    port_ = FreePort();
    socket_ = Bound(port_);
  }
  if (socket_ < 0) throw std::runtime_error("no free port on 127.0.0.1");
  Listen();
}

LoopbackListener::~LoopbackListener() { (void)close(socket_); }

void LoopbackListener::Refuse() const { (void)shutdown(socket_, SHUT_RDWR); }

void LoopbackListener::Listen() const {
  if (listen(socket_, 1024) != 0) throw std::runtime_error("listen on 127.0.0.1 failed");
}

ChildProgram::ChildProgram(const std::string& command, const std::string& log) {
  std::istringstream words(command);
  std::vector<std::string> texts;
  for (std::string word; words >> word;) texts.push_back(word);
  const std::string program = PathOf(texts.at(0));
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ != 0) return;
  // Between fork and exec only what a signal handler may call.
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  (void)dup2(output, 1);
  (void)dup2(output, 2);
  if (getppid() == parent) (void)execv(program.c_str(), arguments.data());
  _exit(127);
}

ChildProgram::~ChildProgram() {
  if (!Runs()) return;
  (void)kill(pid_, SIGKILL);
  (void)Wait();
}

bool ChildProgram::Runs() {
  if (pid_ <= 0) return false;
  if (waitpid(pid_, &status_, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

bool ChildProgram::Wait() {
  if (pid_ > 0) (void)waitpid(pid_, &status_, 0);
  pid_ = -1;
  return WIFEXITED(status_) && WEXITSTATUS(status_) == 0;
}

bool HasProgram(std::string_view name) { return !PathOf(name).empty(); }

}  // namespace ringfeed
