#include "tests/remote/nginx_server.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace ringfeed {
namespace {

constexpr std::chrono::seconds kStartPatience{20};

// A CA, and a certificate of localhost that it signed.
constexpr const char* kCertificateConfig = R"([req]
distinguished_name = name
prompt = no
[name]
CN = ringfeed test
[ca]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
)";

}  // namespace

std::string NginxServer::Missing() {
  if (!HasProgram("nginx")) return "nginx is not installed (Debian: nginx-light)";
  if (!HasProgram("openssl")) return "the command openssl is not installed (Debian: openssl)";
  return {};
}

NginxServer::NginxServer(const std::string& folder, const NginxOptions& options)
    : options_(options) {
  if (options_.tls) MakeCertificates();
  // Somebody else may take the port that was free.
  for (int attempt = 0; attempt < 5; ++attempt) {
    port_ = FreePort();
    WriteConfig(folder);
    if (Start()) return;
  }
  throw std::runtime_error("nginx does not start: " + Said());
}

std::string NginxServer::Url(const std::string& name) const {
  const std::string host = options_.tls ? "https://localhost:" : "http://127.0.0.1:";
  return host + std::to_string(port_) + "/" + name;
}

void NginxServer::MakeCertificates() {
  std::ofstream(work_.File("openssl.cnf")) << kCertificateConfig;
  const std::string make =
      "openssl req -x509 -nodes -days 3 -newkey ec -pkeyopt "
      "ec_paramgen_curve:P-256 -config " +
      work_.File("openssl.cnf");
  const std::string ca = " -keyout " + work_.File("ca.key") + " -out " + work_.File("ca.pem");
  const std::string leaf = " -CA " + work_.File("ca.pem") + " -CAkey " + work_.File("ca.key") +
                           " -keyout " + work_.File("leaf.key") + " -out " + work_.File("leaf.pem");
  for (const std::string& command :
       {make + " -subj /CN=ringfeed-ca -extensions ca" + ca, make + " -extensions leaf" + leaf}) {
    if (!ChildProgram(command, work_.File("output")).Wait()) {
      throw std::runtime_error("openssl makes no certificate: " + Said());
    }
  }
}

void NginxServer::WriteConfig(const std::string& folder) {
  std::ofstream config(work_.File("nginx.conf"));
  config << "daemon off;\nmaster_process off;\npid " << work_.File("pid") << ";\n"
         << "worker_rlimit_nofile 4096;\nevents { worker_connections 2048; }\n"
         << "http {\n  sendfile on; tcp_nodelay on; etag on;\n";
  if (options_.two_addresses) {
    config << "  log_format addresses '$server_addr $connection';\n  access_log "
           << work_.File("log") << " addresses;\n";
  } else {
    config << "  access_log off;\n";
  }
  for (const char* kind : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
    config << "  " << kind << "_temp_path " << work_.File("temporary") << ";\n";
  }
  config << "  keepalive_requests " << options_.keepalive_requests << ";\n  keepalive_timeout "
         << options_.keepalive_s << "s;\n";
  if (options_.limit_rate != 0) config << "  limit_rate " << options_.limit_rate << ";\n";
  if (options_.max_ranges >= 0) config << "  max_ranges " << options_.max_ranges << ";\n";
  if (options_.tls) {
    config << "  ssl_certificate " << work_.File("leaf.pem") << ";\n  ssl_certificate_key "
           << work_.File("leaf.key") << ";\n  ssl_protocols TLSv1.2 TLSv1.3;\n";
  }
  config << options_.directives << "  server { listen 127.0.0.1:" << port_
         << (options_.tls ? " ssl" : "") << "; ";
  if (options_.two_addresses) config << "listen 127.0.0.2:" << port_ << "; ";
  config << "root " << folder << "; }\n}\n";
}

bool NginxServer::Start() {
  const std::string output = work_.File("output");
  program_ = std::make_unique<ChildProgram>(
      "nginx -p " + work_.path() + " -c " + work_.File("nginx.conf") + " -e " + output, output);
  const auto until = std::chrono::steady_clock::now() + kStartPatience;
  while (program_->Runs() && std::chrono::steady_clock::now() < until) {
    // The pid file is there once the sockets are: whoever answers is ours.
    const int connected =
        access(work_.File("pid").c_str(), F_OK) == 0 ? ConnectLoopback(port_) : -1;
    if (connected >= 0) {
      (void)close(connected);
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::map<std::string, std::size_t> NginxServer::Connections() const {
  std::map<std::string, std::set<std::string>> seen;
  std::ifstream log(work_.File("log"));
  std::string address;
  std::string connection;
  while (log >> address >> connection) seen[address].insert(connection);
  std::map<std::string, std::size_t> counts;
  for (const auto& [its_address, connections] : seen) counts[its_address] = connections.size();
  return counts;
}

std::string NginxServer::Said() const {
  std::ostringstream text;
  text << std::ifstream(work_.File("output")).rdbuf();
  return text.str();
}

}  // namespace ringfeed
