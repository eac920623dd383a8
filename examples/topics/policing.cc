// A dry run that is stricter than hardware: streams and events by hand, and what is reported of
// them.
//
// Prints:
//   set up: 1 of 2 devices
//   a step of a millisecond: done at once 0, done later 1
//   a reader's thread hands over: 0 offences
//   written while it is copied: unordered
//   captured: 1, recorded: invalid_argument
//   of another context, recorded: invalid_argument
//   in the loop: 1 sync, 1 allocation
//   from a disk: 0 offences
//   held at most: 4096 bytes
#include <iostream>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void Need(const rf::Status& status) {
  if (!status.ok()) throw rf::Error(status);
}

/// A simulator's stream and its memory, in one thread and with a clock of its own.
struct Run {
  std::shared_ptr<rf::EmulatedDevices> gpu;
  rf::DeviceStream stream;
  std::byte* memory = nullptr;
  alignas(4096) std::byte host[4096] = {};

  Run() {
    rf::EmulatedOptions options;
    options.devices.resize(2);
    options.simulated = true;
    gpu = rf::EmulatedDevices::Open(options);
    Need(gpu->BindThread(0));
    Need(gpu->CreateStream(0, rf::StreamPriority::kNormal, &stream));
    Need(gpu->AllocDevice(0, sizeof host, &memory));
    Need(gpu->RegisterHost(host, sizeof host));
  }
};

/// Time passes where somebody waits; Query alone lets none pass in a simulator.
void Steps() {
  Run run;
  rf::DeviceBackend& gpu = *run.gpu;
  Need(gpu.LoadKernels(0));
  std::cout << "set up: " << run.gpu->SetUpDevices().size() << " of " << gpu.DeviceCount()
            << " devices\n";
  rf::DeviceStream other;
  rf::DeviceEvent done;
  Need(gpu.CreateStream(0, rf::StreamPriority::kHigh, &other));
  Need(gpu.CreateEvent(0, rf::EventKind::kPlain, &done));
  bool captured = false, at_once = false, later = false;
  gpu.BeginRange("step");  // for a profiler
  Need(gpu.Busy(run.stream, 1'000'000));
  gpu.EndRange();
  Need(gpu.RecordUnlessCaptured(done, run.stream, &captured));
  Need(gpu.StreamWait(other, done));  // what follows there comes after the step
  Need(gpu.CopyToDevice(other, run.memory, run.host, sizeof run.host));
  Need(gpu.Query(done, &at_once));
  gpu.Idle(gpu.NowNanos() + 2'000'000);
  Need(gpu.Query(done, &later));
  Need(gpu.SyncEvent(done));
  Need(gpu.DeviceStatus(0));
  if (captured || gpu.DeviceOfStream(run.stream) != 0 || gpu.Registrations() == nullptr)
    throw std::runtime_error("the stream is another's");
  std::cout << "a step of a millisecond: done at once " << at_once << ", done later " << later
            << "\n";
}

/// Actors stand for threads. What one wrote another may use after a hand-over.
void Hosts() {
  Run run;
  rf::EmulatedDevices& gpu = *run.gpu;
  if (!gpu.simulated()) throw std::runtime_error("actors are for simulators");
  const int token = 0;
  gpu.SetActor(1);  // a reader
  gpu.NoteHostWrite(run.host, sizeof run.host, "read");
  gpu.NoteHandOver(&token);
  gpu.SetActor(0);
  gpu.NoteTakeOver(&token);
  gpu.NoteHostRead(run.host, sizeof run.host, "look");
  Need(gpu.CopyToDevice(run.stream, run.memory, run.host, sizeof run.host));
  std::cout << "a reader's thread hands over: " << gpu.offences().size() << " offences\n";
  gpu.NoteHostWrite(run.host, sizeof run.host, "read");  // the copy may still run
  std::cout << "written while it is copied: " << gpu.offences().at(0).rule << "\n";
  gpu.Drain();
}

void Loop() {
  Run run;
  rf::EmulatedDevices& gpu = *run.gpu;
  rf::DeviceEvent event;
  Need(gpu.CreateEvent(0, rf::EventKind::kPlain, &event));
  gpu.SetCapture(run.stream, true);  // as if a graph were made of the stream
  const bool captured = gpu.IsCapturing(run.stream);
  const rf::Status recorded = gpu.Record(event, run.stream);
  gpu.SetCapture(run.stream, false);
  std::cout << "captured: " << captured << ", recorded: " << rf::StatusCodeName(recorded.code())
            << "\n";
  gpu.SetOtherContext(run.stream);  // as if another library had made it
  std::cout << "of another context, recorded: "
            << rf::StatusCodeName(gpu.Record(event, run.stream).code()) << "\n";
  const std::size_t before = gpu.offences().size();
  gpu.SetHotPath(true);
  (void)gpu.SyncStream(run.stream);
  const std::size_t syncs = gpu.offences().size() - before;
  gpu.SetHotPath(false);
  gpu.SetSteadyState(true);
  std::byte* more = nullptr;
  (void)gpu.AllocDevice(0, 256, &more);
  std::cout << "in the loop: " << syncs << " sync, " << gpu.offences().size() - before - syncs
            << " allocation\n";
}

int main() try {
  Steps();
  Hosts();
  Loop();
  Run run;
  run.gpu->NoteDirectWrite(0, run.memory, 4096, "cuFile");
  std::cout << "from a disk: " << run.gpu->offences().size() << " offences\n";
  std::cout << "held at most: " << run.gpu->MostHeldBytes(0) << " bytes\n";
  for (std::size_t call = 0; call < rf::kDeviceCalls; ++call) {
    if (run.gpu->CallsOf(static_cast<rf::DeviceCall>(call)) > 1) return 1;  // each was made once
  }
} catch (const std::exception& error) {
  std::cerr << "policing: " << error.what() << "\n";
  return 1;
}
