#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>  // unsetenv

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/readers/pipeline_fixture.h"
#include "tests/remote/fault_proxy.h"
#include "tests/remote/nginx_server.h"

namespace ringfeed {

/// Meets the first request for each last byte of each object with `fault`, later ones with none:
/// every range has its fault, and succeeds when it, or its rest, is asked for again.
inline ProxyScript OnceForEachRange(const ProxyFault& fault) {
  return [fault, seen = std::set<std::pair<std::string, std::uint64_t>>()](
             const ProxiedRequest& request) mutable {
    const std::uint64_t last = request.range ? request.range->second : 0;
    const bool is_first = seen.emplace(request.method + " " + request.target, last).second;
    return is_first ? fault : ProxyFault{};
  };
}

inline ProxyScript Always(const ProxyFault& fault) {
  return [fault](const ProxiedRequest& /*request*/) { return fault; };
}

/// What came of reading, be it a failure while the chain was set up.
struct RemoteOutcome {
  Drained drained;
  PipelineStats stats;
};

/// Files of numbered records, nginx that serves them, and a proxy before it.
class RemoteTest : public PipelineTest {
 protected:
  void SetUp() override {
    if (!NginxServer::Missing().empty()) GTEST_SKIP() << NginxServer::Missing();
    for (const char* name : {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
      (void)unsetenv(name);
    }
    server_ = std::make_unique<NginxServer>(directory_.path());
  }

  FaultProxy* Between(ProxyOptions options) {
    proxy_ = std::make_unique<FaultProxy>(server_->port(), std::move(options));
    return proxy_.get();
  }
  FaultProxy* Between(ProxyScript script) {
    return Between(ProxyOptions{.script = std::move(script)});
  }

  /// The addresses of local files, by the proxy.
  std::vector<std::string> Urls(const std::vector<std::string>& files) const {
    std::vector<std::string> urls;
    for (const std::string& file : files) urls.push_back(proxy_->Url(NameOf(file)));
    return urls;
  }
  static std::string NameOf(const std::string& file) { return file.substr(file.rfind('/') + 1); }

  OpenOptions RemoteOptions(int patience_ms = 20'000) const {
    OpenOptions options = Options();
    options.index_folder = indexes_.path();
    options.io.remote_patience_ms = patience_ms;
    return options;
  }

  static RemoteOutcome Read(const std::vector<std::string>& names, const OpenOptions& options) {
    RemoteOutcome outcome;
    try {
      const Reader reader = OpenFiles(names, options);
      outcome.drained = Drain(reader);
      outcome.stats = reader.Stats();
    } catch (const Error& error) {
      outcome.drained.end = ReadResult::kFailed;
      outcome.drained.status = error.status();
    }
    return outcome;
  }

  const TempDir indexes_;
  std::unique_ptr<NginxServer> server_;
  std::unique_ptr<FaultProxy> proxy_;
};

}  // namespace ringfeed
