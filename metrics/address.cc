#include "metrics/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "base/refuse.h"
#include "metrics/label_text.h"
#include "ringfeed/ranks.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::size_t kMostTold = 4096;

[[noreturn]] void RefuseAddress(const std::string& text, const std::string& why) {
  Refuse("RINGFEED_METRICS=" + LabelText(text, kMostTold) + ": " + why);
}

bool IsControl(char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }

// With %p, %r and %% replaced.
std::string FilledIn(const std::string& text, const AddressContext& context) {
  std::string filled;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      filled += text[i];
      continue;
    }
    const char what = ++i < text.size() ? text[i] : '\0';
    if (what == 'p') {
      filled += std::to_string(context.pid);
    } else if (what == 'r') {
      const int local_rank = context.local_rank();
      if (local_rank < 0) RefuseAddress(text, "%r is not known here: set LOCAL_RANK");
      filled += std::to_string(local_rank);
    } else if (what == '%') {
      filled += '%';
    } else {
      RefuseAddress(text, "after % stands p (the process), r (its rank on this machine) or %");
    }
  }
  return filled;
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool IsNumericHost(const std::string& host) {
  in6_addr any{};
  return inet_pton(AF_INET, host.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

// The address for "HOST:PORT".
MetricsAddress TcpAddress(const std::string& text, const std::string& filled, std::size_t colon,
                          bool may_be_public) {
  MetricsAddress address;
  address.kind = MetricsAddress::Kind::kTcp;
  address.host = filled.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host == "localhost") address.host = "127.0.0.1";
  const char* const end = filled.data() + filled.size();
  const auto [stopped, error] = std::from_chars(filled.data() + colon + 1, end, address.port);
  if (error != std::errc() || stopped != end) {
    RefuseAddress(text, "a port is a number from 0 (any that is free) to 65535");
  }
  if (!IsNumericHost(address.host)) {
    RefuseAddress(text, "the address in front of the port is a number, as in 127.0.0.1:9400");
  }
  address.loopback = IsLoopback(address.host);
  if (!address.loopback && !may_be_public) {
    RefuseAddress(text,
                  "other machines could read it there, names of files too; take 127.0.0.1, and "
                  "`ssh -L` from elsewhere, or set RINGFEED_METRICS_PUBLIC=1 if that is wanted");
  }
  return address;
}

}  // namespace

std::string MetricsAddress::ToString() const {
  switch (kind) {
    case Kind::kUnix:
      return std::string(kUnixPrefix) + path;
    case Kind::kTcp:
      return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" +
             std::to_string(port);
    case Kind::kFile:
      return path;
  }
  return path;
}

SocketName::SocketName(const MetricsAddress& address) {
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  if (address.kind == MetricsAddress::Kind::kUnix) {
    auto* const name = reinterpret_cast<sockaddr_un*>(&storage);
    name->sun_family = AF_UNIX;
    std::copy_n(address.path.data(), std::min(address.path.size(), sizeof(name->sun_path) - 1),
                name->sun_path);
    bytes = sizeof(*name);
  } else if (inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
    bytes = sizeof(*v4);
  } else {
    (void)inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    bytes = sizeof(*v6);
  }
}

AddressContext OwnAddressContext() {
  AddressContext context;
  context.pid = getpid();
  context.local_rank = [] { return FindRank().local_rank; };
  const char* const allowed = std::getenv("RINGFEED_METRICS_PUBLIC");
  context.may_be_public = allowed != nullptr && std::string_view(allowed) == "1";
  return context;
}

MetricsAddress ParseMetricsAddress(const std::string& text, const AddressContext& context) {
  if (std::ranges::any_of(text, IsControl)) {
    RefuseAddress(text, "a control character stands in it");
  }
  const std::string filled = FilledIn(text, context);
  MetricsAddress address;
  if (filled.starts_with(kUnixPrefix)) {
    address.kind = MetricsAddress::Kind::kUnix;
    address.path = filled.substr(kUnixPrefix.size());
    if (address.path.empty()) RefuseAddress(text, "unix: is followed by the socket's path");
    if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
      RefuseAddress(text, "a socket's path has at most " +
                              std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                              " characters: take a shorter one, as in /run or /tmp");
    }
    return address;
  }
  const std::size_t colon = filled.rfind(':');
  const bool has_port = colon != std::string::npos && filled.find('/') == std::string::npos &&
                        filled.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (has_port) return TcpAddress(text, filled, colon, context.may_be_public);
  address.path = filled;
  if (filled.find('/') == std::string::npos && !filled.ends_with(".prom")) {
    RefuseAddress(text,
                  "this is neither unix:PATH nor ADDRESS:PORT, as in 127.0.0.1:9400, nor a file, "
                  "whose name has a / in it or ends in .prom");
  }
  return address;
}

}  // namespace ringfeed
