#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>

namespace ringfeed {

/// The address at which a process shows its metrics, from RINGFEED_METRICS.
struct MetricsAddress {
  enum class Kind : std::uint8_t { kUnix, kTcp, kFile };
  Kind kind = Kind::kFile;
  std::string path{};      ///< of kUnix and kFile
  std::string host{};      ///< of kTcp: a number, "127.0.0.1" or "::1"
  std::uint16_t port = 0;  ///< of kTcp; 0: any free one
  bool loopback = true;    ///< no other machine can reach it

  /// In the notation of RINGFEED_METRICS.
  std::string ToString() const;
};

/// The name of a socket at an address of kUnix or kTcp, as the system takes it.
struct SocketName {
  explicit SocketName(const MetricsAddress& address);

  int family() const { return storage.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

/// The values that an address may depend on.
struct AddressContext {
  int pid = 0;                      ///< for %p
  std::function<int()> local_rank;  ///< for %r; may throw Error
  bool may_be_public = false;       ///< RINGFEED_METRICS_PUBLIC=1
};
/// The context of this process.
AddressContext OwnAddressContext();

/// "unix:PATH", "HOST:PORT", or else the name of a file, which has a / in it or ends in .prom. In
/// each, %p stands for the process's number, %r for its rank on this machine, %% for %. Throws
/// Error(kInvalidArgument), with the remedy, for any other text, and for an address that other
/// machines can reach if that was not allowed.
MetricsAddress ParseMetricsAddress(const std::string& text, const AddressContext& context);

}  // namespace ringfeed
