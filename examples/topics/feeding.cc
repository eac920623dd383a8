// A feed in more detail: what the device makes of fields, who gets which rows, what took how long.
//
// Prints:
//   EMU:0: float32 [4, 2], int64 [4], tokens [4, 2], sums 1 1 1 1
//   EMU:1: float32 [4, 2], int64 [4], tokens [4, 2], sums 1 1 1 1
//   2 parts on device 0, by batch
//   copies are in the trace: 1
//   a reader on a device: EMU:0
//   2 devices have a place: 1
//   rank 1 takes device 1
#include <iostream>

#include "ringfeed/device_feed.h"
#include "ringfeed/devices/timeline.h"
#include "ringfeed/devices/topology.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Sixteen images of two pixels, and tokens of one or two.
class Samples final : public rf::InstanceSource {
 public:
  rf::ReadResult ReadNext(rf::Instance* row, std::stop_token, rf::Status*) override {
    if (made_ == 16) return rf::ReadResult::kEnd;
    std::vector<std::uint16_t> tokens(1 + made_++ % 2, 7);
    *row = {rf::MakeTensor(std::vector<std::uint8_t>{0, 255}), rf::MakeScalar<std::uint16_t>(1),
            rf::MakeTensor(std::move(tokens))};
    return rf::ReadResult::kRecord;
  }
  bool ReInit() override { return made_ = 0, true; }

 private:
  std::size_t made_ = 0;
};

rf::Reader Batches() {
  auto rows = rf::FromInstanceSource(
      std::make_unique<Samples>(),
      {{"image", rf::kUInt8, {2}}, {"label", rf::kUInt16, {}}, {"tokens", rf::kUInt16, {-1}}});
  return rf::Batch(rows, {.size = 8});
}

/// The sum of each image: work of the program's own on a batch, before its lease. With CUDA a
/// second function, DeviceStage::enqueue, launches a kernel for it on call.stream.handle.
rf::Status SumImages(const rf::StageCall& call) {
  auto* const sums = reinterpret_cast<float*>(call.output(0));
  const auto pixels = call.fields[0].Values<float>();
  for (std::size_t i = 0; i < pixels.size(); i += 2) sums[i / 2] = pixels[i] + pixels[i + 1];
  return {};
}

void Feed(const std::shared_ptr<rf::EmulatedDevices>& gpus) {
  rf::FeedOptions options;
  options.backend = gpus;
  options.distribution = rf::Distribution::kSplit;  // half of each batch for each device
  options.transfer = rf::TransferPlanNamed("batch");
  options.costs = rf::TransferCosts{.member_ns = 600};  // "auto" would ask; a file: Load
  options.transforms = {rf::NormalizeField{.field = 0, .scale = {1 / 255.F}},
                        rf::WidenField{.field = 1}, rf::PadField{.field = 2, .length = 2}};
  const rf::StageOutput number = {.dtype = rf::kFloat32};  // one of each row
  options.stage = rf::DeviceStage{.outputs = {number}, .on_host = SumImages};
  options.timeline = std::make_shared<rf::Timeline>();
  rf::DeviceFeed feed(Batches(), options);
  while (auto lease = feed.Next()) {
    // Tensors that hold the lease together, for what goes on as tensors alone. Who takes one waits
    // for its copy, on a stream or here.
    const auto shared = rf::SharedLease::Unwaited(std::move(*lease));
    shared->WaitHost();
    const rf::Instance tensors = shared->Tensors();
    if (feed.Stats().devices[0].batches > 1) continue;
    std::cout << rf::PlaceName(tensors[0].place) << ": " << rf::DTypeName(tensors[0].dtype) << " "
              << rf::ShapeToString(tensors[0].shape) << ", " << rf::DTypeName(tensors[1].dtype)
              << " " << rf::ShapeToString(tensors[1].shape) << ", tokens "
              << rf::ShapeToString(tensors[2].shape) << ", sums";
    for (const float sum : tensors[3].Values<float>()) std::cout << " " << sum;
    std::cout << "\n";
  }
  const rf::FeedStats stats = feed.Stats();
  const rf::TransferPlan plan = stats.devices[0].transfer;
  std::cout << stats.devices[0].batches << " parts on device 0, by " << rf::TransferPlanName(plan)
            << "\n";
  bool copied = false;
  for (const rf::TimeSpan& span : options.timeline->spans()) {
    copied = copied || std::string_view(span.what) == "copy";
  }
  // Traces of several ranks can be merged, since each says whose it is.
  const rf::TimelineOrigin origin = {.host = "here", .rank = 0, .ranks = 1};
  const bool is_trace = options.timeline->ToChromeTrace(origin).find("\"ph\"") != std::string::npos;
  std::cout << "copies are in the trace: " << (copied && is_trace) << "\n";
}

/// What stands close to what; a few lines for a person are DescribeTopology.
void Places(rf::DeviceBackend& gpus) {
  const rf::Topology topology = rf::FindTopology(&gpus);
  for (const rf::DevicePlacement& device : topology.devices) {
    if (!device.status.ok()) throw rf::Error(device.status);
  }
  for (const rf::SharedUplink& uplink : topology.shared_uplinks) std::cerr << uplink.bridge << "\n";
  for (const rf::FilePlacement& file : topology.files) {
    for (const rf::DiskPlacement& disk : file.disks) std::cerr << disk.name << "\n";
  }
  std::cout << topology.devices.size()
            << " devices have a place: " << (rf::DescribeTopology(gpus) == topology.ToString())
            << "\n";
  const rf::Rank told = rf::FindRank([](const char*) { return nullptr; });  // no environment
  if (told.world_size != 1 || rf::ChooseDevice(told, 1) != 0) throw std::runtime_error("not alone");
  const rf::Rank second = {.rank = 1, .world_size = 2, .local_rank = 1, .local_world_size = 2};
  std::cout << "rank 1 takes device " << rf::ChooseDevice(second, 2) << "\n";
  const rf::ParallelGroups groups = {.tensor = 2};  // both split each layer: they share their data
  if (rf::DataRank(second, groups).world_size != 1) throw std::runtime_error("not the same data");
}

int main() try {
  const auto gpus = rf::EmulatedDevices::Open(2);
  Feed(gpus);
  rf::Reader on_device = rf::DoubleBufferOn(Batches(), gpus, 0);
  const rf::Instance batch = on_device.ReadNext();
  std::cout << "a reader on a device: " << rf::PlaceName(batch["image"].place) << "\n";
  Places(*gpus);
} catch (const std::exception& error) {
  std::cerr << "feeding: " << error.what() << "\n";
  return 1;
}
