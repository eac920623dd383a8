// The suite on NVIDIA's own library, in whichever mode it has here: in its compatibility mode it
// shows what is right, never a rate.

#include <memory>
#include <string>

#include "ringfeed/devices/cuda_devices.h"
#include "ringfeed/devices/device_kinds.h"
#include "tests/gpu/direct/direct_suite.h"

namespace ringfeed {
namespace {

std::shared_ptr<CuFileLibrary> TheLibrary() { return CuFileLibrary::Of(); }

std::shared_ptr<DeviceBackend> OpenCuda(std::string* why_not) {
  *why_not = TheLibrary()->why_not();
  if (!why_not->empty()) return nullptr;
  try {
    UseCuda();
    return OpenDevices("cuda");
  } catch (const Error& error) {
    *why_not = error.status().ToString();
  }
  return nullptr;
}

/// Whether files can be registered shows with the first one: without udev they cannot.
std::shared_ptr<DeviceBackend> OpenCudaThatReads(std::string* why_not) {
  std::shared_ptr<DeviceBackend> devices = OpenCuda(why_not);
  if (devices == nullptr) return nullptr;
  const TempDir folder;
  const std::string path = folder.File("rows.bin");
  WritePatternFile(path, 64 * 8192);
  OpenOptions options;
  options.format = "rows:8192";
  const auto parser = RowsParser({{"pixels", kUInt8, {8192}}});
  FeedOptions feed_options;
  feed_options.backend = devices;
  feed_options.devices = {0};
  feed_options.transfer = TransferPlan::kDirect;
  DeviceFeed feed(
      Batch(Shuffle(Parse(OpenFiles({path}, options), parser), {.mode = ShuffleMode::kGlobal}),
            {.size = 8}),
      feed_options);
  while (feed.Next()) {
  }
  const DeviceFeedStats stats = feed.Stats().devices[0];
  if (stats.transfer == TransferPlan::kDirect) return devices;
  *why_not = stats.transfer_reason;
  return nullptr;
}

INSTANTIATE_TEST_SUITE_P(CuFile, DirectTest,
                         testing::Values(DirectRig{"Cuda", OpenCudaThatReads, TheLibrary}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace ringfeed
