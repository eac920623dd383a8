#include "io/remote/host_share.h"

#include <algorithm>

#include "base/per_process.h"

namespace ringfeed {

HostShare::Hosts& HostShare::OfProcess() {
  static constinit PerProcess<Hosts> hosts;
  return hosts.Get();
}

HostShare::HostShare(const std::string& host)
    : name_(host), host_([&host] {
        Hosts& all = OfProcess();
        const std::lock_guard lock(all.mutex);
        Host* const found = &all.of[host];
        ++found->engines;
        return found;
      }()) {}

HostShare::~HostShare() {
  Hosts& all = OfProcess();
  const std::lock_guard lock(all.mutex);
  host_->requests -= held_;
  if (--host_->engines == 0) all.of.erase(name_);
}

bool HostShare::Take() {
  const std::lock_guard lock(OfProcess().mutex);
  const std::size_t share = std::max<std::size_t>(1, kMostOfHost / host_->engines);
  if (held_ >= share || host_->requests >= kMostOfHost) return false;
  ++held_;
  ++host_->requests;
  return true;
}

void HostShare::Give() {
  const std::lock_guard lock(OfProcess().mutex);
  --held_;
  --host_->requests;
}

}  // namespace ringfeed
