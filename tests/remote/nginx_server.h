#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "tests/remote/loopback.h"
#include "tests/support/pattern_file.h"

namespace ringfeed {

struct NginxOptions {
  std::uint64_t limit_rate = 0;                ///< bytes/s of each connection; 0: no limit
  std::size_t keepalive_requests = 1'000'000;  ///< closes a connection after so many answers
  std::size_t keepalive_s = 60;                ///< and after it was idle for so long
  int max_ranges = -1;         ///< of one request; 0: Range is ignored, 200; -1: any
  bool tls = false;            ///< https://, by a certificate of its own CA
  bool two_addresses = false;  ///< listens on 127.0.0.2 as well; connections() counts by address
  std::string directives{};    ///< more of the http block
};

/// A real nginx that serves a folder on 127.0.0.1, until the destructor or the end of the process.
class NginxServer {
 public:
  /// "", or why there is none here, in words.
  static std::string Missing();

  /// Starts it and waits until it takes connections. Throws std::runtime_error with what nginx
  /// said.
  explicit NginxServer(const std::string& folder, const NginxOptions& options = {});

  std::uint16_t port() const { return port_; }
  /// "http://127.0.0.1:PORT/NAME", or "https://localhost:PORT/NAME".
  std::string Url(const std::string& name) const;
  /// With TLS the certificate of the CA, for CURL_CA_BUNDLE.
  std::string ca() const { return work_.File("ca.pem"); }
  /// Those of two addresses over which an answer was sent: how many each of them had.
  std::map<std::string, std::size_t> Connections() const;

 private:
  void MakeCertificates();
  void WriteConfig(const std::string& folder);
  bool Start();
  std::string Said() const;

  const NginxOptions options_;
  const TempDir work_;
  std::uint16_t port_ = 0;
  std::unique_ptr<ChildProgram> program_;
};

}  // namespace ringfeed
