#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace ringfeed {

/// One engine's part of the requests for ranges that this process has in flight to a host. There
/// are at most kMostOfHost, whatever the engines find to be best for themselves. The engines that
/// read from the host share them evenly, and each may always have one in its turn. One thread.
class HostShare {
 public:
  static constexpr std::size_t kMostOfHost = 256;

  /// `host`: with its port.
  explicit HostShare(const std::string& host);
  ~HostShare();
  HostShare(const HostShare&) = delete;
  HostShare& operator=(const HostShare&) = delete;

  /// Whether a request may be sent now; it counts until Give.
  bool Take();
  void Give();

 private:
  struct Host {
    std::size_t engines = 0;
    std::size_t requests = 0;
  };
  struct Hosts {
    std::mutex mutex;  // guards what follows
    std::map<std::string, Host> of;
  };
  static Hosts& OfProcess();

  const std::string name_;
  Host* const host_;  ///< guarded by the mutex of OfProcess
  std::size_t held_ = 0;
};

}  // namespace ringfeed
