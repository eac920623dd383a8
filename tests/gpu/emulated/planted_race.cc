// planted_race CASE: a host that fills a slab again, with one mistake or none. Built with
// ThreadSanitizer, planted_race_test expects a report where there is a mistake.

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ringfeed/devices/emulated_devices.h"

namespace ringfeed {
namespace {

constexpr std::size_t kBytes = 65'536;

void Check(const Status& status) {
  if (!status.ok()) throw Error(status);
}

struct Host {
  Host() {
    Check(devices->BindThread(0));
    Check(devices->RegisterHost(slab.data(), kBytes));
    Check(devices->AllocDevice(0, kBytes, &slot));
    Check(devices->AllocDevice(0, kBytes, &other_slot));
    Check(devices->CreateStream(0, StreamPriority::kNormal, &stream));
    Check(devices->CreateStream(0, StreamPriority::kNormal, &other));
    for (DeviceEvent* event : {&before, &copied, &elsewhere}) {
      Check(devices->CreateEvent(0, EventKind::kPlain, event));
    }
  }

  /// The copy, and nothing that would let the host know of it: it has run when this returns, but
  /// relaxed accesses put nothing in order.
  void Copy() {
    std::atomic<bool> ran = false;
    Check(devices->Record(before, stream));
    Check(devices->CopyToDevice(stream, slot, slab.data(), kBytes));
    Check(devices->Record(copied, stream));
    Check(devices->LaunchHost(stream, [&] { ran.store(true, std::memory_order_relaxed); }, {}));
    while (!ran.load(std::memory_order_relaxed)) std::this_thread::yield();
  }

  void Await(DeviceEvent event) {
    for (bool done = false; !done;) Check(devices->Query(event, &done));
  }

  std::vector<std::byte> slab = std::vector<std::byte>(kBytes);
  std::shared_ptr<EmulatedDevices> devices = EmulatedDevices::Open(1);
  std::byte* slot = nullptr;
  std::byte* other_slot = nullptr;
  DeviceStream stream;
  DeviceStream other;
  DeviceEvent before;
  DeviceEvent copied;
  DeviceEvent elsewhere;
};

int Run(const std::string& mistake) {
  Host host;
  host.Copy();
  if (mistake == "nothing") {
    host.Await(host.copied);
  } else if (mistake == "synced-stream") {
    Check(host.devices->SyncStream(host.stream));
  } else if (mistake == "earlier-event") {
    host.Await(host.before);
  } else if (mistake == "enqueued-more") {
    for (int i = 0; i < 100; ++i) Check(host.devices->Fill(host.other, host.other_slot, {}, 1));
    Check(host.devices->Busy(host.stream, 1));
  } else if (mistake == "recorded-again") {
    Check(host.devices->Record(host.copied, host.stream));
  } else if (mistake == "other-stream") {
    Check(host.devices->Record(host.elsewhere, host.other));
    host.Await(host.elsewhere);
  } else if (mistake != "did-not-look") {
    return 2;
  }
  std::memset(host.slab.data(), 1, kBytes);
  return 0;
}

}  // namespace
}  // namespace ringfeed

int main(int argc, char** argv) { return argc == 2 ? ringfeed::Run(argv[1]) : 2; }
