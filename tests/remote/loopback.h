#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ringfeed {

/// A socket that listens on a free port of 127.0.0.1; closed in the destructor. Throws
/// std::runtime_error if there is none.
class LoopbackListener {
 public:
  LoopbackListener();
  ~LoopbackListener();
  LoopbackListener(const LoopbackListener&) = delete;
  LoopbackListener& operator=(const LoopbackListener&) = delete;

  int socket() const { return socket_; }
  std::uint16_t port() const { return port_; }
  /// Refuses connections from now on, and keeps the port. Thread safe.
  void Refuse() const;
  /// Takes them again.
  void Listen() const;

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

/// A port of 127.0.0.1 that nobody has now. Somebody else may take it before it is used.
std::uint16_t FreePort();
/// A connected socket, or -1.
int ConnectLoopback(std::uint16_t port);

/// A program that this process started; killed in the destructor, and when the thread that started
/// it ends.
class ChildProgram {
 public:
  /// Starts `command`, whose first word is looked for on PATH and in /usr/sbin. Its output goes to
  /// the file `log`.
  ChildProgram(const std::string& command, const std::string& log);
  ~ChildProgram();
  ChildProgram(const ChildProgram&) = delete;
  ChildProgram& operator=(const ChildProgram&) = delete;

  /// Whether it runs still.
  bool Runs();
  /// Waits for its end. True if it ended by itself, with status 0.
  bool Wait();

 private:
  int pid_ = -1;
  int status_ = -1;
};

/// Whether a program of that name is on PATH or in /usr/sbin.
bool HasProgram(std::string_view name);

}  // namespace ringfeed
