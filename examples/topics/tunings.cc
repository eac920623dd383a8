// A tuning as `ringfeed tune` writes it, made, saved and taken by a chain and a feed.
//
// Prints:
//   read by pread, 2 threads, 4 batches
//   5 batches on each device: emu
//   what a row costs: 75 ns, as it was written: 1
#include <fstream>
#include <iostream>

#include "ringfeed/devices/transfer_costs.h"
#include "ringfeed/ringfeed.h"
#include "ringfeed/tuning.h"

namespace rf = ringfeed;

int main() try {
  rf::Tuning tuning;
  tuning.machine = rf::ThisMachine();  // on another one it is refused
  tuning.format = "lines";
  tuning.threads = 2;
  tuning.io.path = rf::IoPath::kPread;
  tuning.slots = 4;
  const auto gpus = rf::OpenDevices("emu");
  tuning.devices = rf::DeviceKindOf(*gpus, 0);  // a feed onto another kind refuses it
  tuning.device_slots = 5;
  std::ofstream("ringfeed.tuned.json") << rf::TuningText(tuning);

  const rf::Tuning found = rf::ReadTuning("ringfeed.tuned.json");
  const auto options = rf::OpenOptions::Tuned("ringfeed.tuned.json");
  std::ofstream("lines.txt") << "one\n";
  rf::Reader batches =
      rf::Batch(rf::OpenFiles({"lines.txt"}, options), {.size = 1, .slots = found.slots});
  batches.ReadNext();
  std::cout << "read by " << rf::IoPathName(batches.Stats().io.at(0).path) << ", "
            << options.threads << " threads, " << found.slots << " batches\n";

  const auto feeding = rf::FeedOptions::Tuned("ringfeed.tuned.json");
  std::cout << feeding.slots << " batches on each device: " << feeding.tuned_devices << "\n";

  // What it costs to bring rows onto a device, as `ringfeed bench --gpu --costs-out` writes it.
  const rf::TransferCosts measured = {.row_ns = 75};
  if (const rf::Status status = measured.Check(); !status.ok()) throw rf::Error(status);
  std::ofstream("costs.json") << measured.Text("a device of mine");
  const rf::TransferCosts costs = rf::TransferCosts::Load("costs.json");
  std::cout << "what a row costs: " << costs.row_ns
            << " ns, as it was written: " << (costs == measured) << "\n";
} catch (const std::exception& error) {
  std::cerr << "tunings: " << error.what() << "\n";
  return 1;
}
