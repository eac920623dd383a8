// Devices and what can be asked of them, here emulated ones: memory, streams, events, kernels.
//
// Prints:
//   kinds: cuda emu mine
//   3 pieces, 1 launch
//   widened: 1 2 3 4
//   padded on the host: 1 2 0 3 0 0
//   cropped and mirrored on the host: 5 4
//   made on EMU:0: 1 instance
#include <cstring>
#include <iostream>
#include <utility>
#include <vector>

#include "ringfeed/devices/device_backend.h"
#include "ringfeed/devices/device_kernels.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void Need(const rf::Status& status) {
  if (!status.ok()) throw rf::Error(status);
}

/// Copies numbers to the device in two pieces, makes them wider there, and brings them back.
void Widen(rf::DeviceBackend& gpu) {
  rf::DeviceInfo info;
  Need(gpu.Info(0, &info));
  alignas(4096) static std::byte host[4096];
  const std::uint16_t tokens[] = {1, 2, 3, 4};
  std::memcpy(host, tokens, sizeof tokens);
  Need(gpu.BindThread(0));
  Need(gpu.RegisterHost(host, sizeof host));  // copies from there do not block
  rf::DeviceStream stream;
  rf::DeviceEvent begin, end;
  std::byte *narrow = nullptr, *wide = nullptr;
  Need(gpu.CreateStream(0, rf::StreamPriority::kNormal, &stream));
  Need(gpu.CreateEvent(0, rf::EventKind::kTimed, &begin));
  Need(gpu.CreateEvent(0, rf::EventKind::kTimed, &end));
  Need(gpu.AllocDevice(0, 256, &narrow));
  Need(gpu.AllocDevice(0, 256, &wide));
  const rf::CopyPiece pieces[] = {{narrow, host, 4}, {narrow + 4, host + 4, 4}};
  const rf::WidenTokens kernel = {narrow, wide, 4, rf::kInt64};
  Need(rf::CheckKernel(kernel));
  Need(gpu.Record(begin, stream));
  Need(gpu.CopyBatchToDevice(stream, pieces));
  Need(gpu.Launch(stream, kernel));
  Need(gpu.Record(end, stream));
  std::int64_t back[4];
  Need(gpu.CopyToHost(stream, reinterpret_cast<std::byte*>(back), wide, sizeof back));
  Need(gpu.SyncStream(stream));
  double milliseconds = -1;
  Need(gpu.Elapsed(begin, end, &milliseconds));
  const rf::BackendCounters counters = gpu.Counters();
  std::cout << counters.copies << " pieces, " << counters.launches << " launch\nwidened:";
  for (const std::int64_t token : back) std::cout << " " << token;
  std::cout << "\n";
  for (std::byte* memory : {narrow, wide}) Need(gpu.FreeDevice(0, memory));
  for (const rf::DeviceEvent event : {begin, end}) Need(gpu.DestroyEvent(event));
  Need(gpu.DestroyStream(stream));
  Need(gpu.UnregisterHost(host));
  if (milliseconds < 0) throw std::runtime_error("no time passed");
}

/// The kernels' twins on the host compute the same, bit by bit.
void OnHost() {
  const std::byte image[] = {std::byte{0}, std::byte{255}};
  float pixels[2];
  const rf::CastNormalize normalize = {.input = image,
                                       .output = reinterpret_cast<std::byte*>(pixels),
                                       .rows = 2,
                                       .scale = {1 / 255.F, 1, 1, 1}};
  rf::RunKernelOnHost(normalize);

  const std::byte steps[] = {std::byte{1}, std::byte{2}, std::byte{3}};
  const std::int64_t offsets[] = {0, 2, 3};
  std::byte padded[6];
  const rf::RaggedToPadded pad = {.input = steps,
                                  .offsets = offsets,
                                  .output = padded,
                                  .rows = 2,
                                  .length = 3,
                                  .input_units = 3};
  rf::RunKernelOnHost(pad);
  std::cout << "padded on the host:";
  for (const std::byte step : padded) std::cout << " " << std::to_integer<int>(step);

  std::byte gathered[3];
  const rf::GatheredPiece piece = {.from = 1, .to = 0, .bytes = 2};
  const rf::GatherPieces gather = {steps, sizeof steps, &piece, 1, gathered, sizeof gathered};
  rf::RunKernelOnHost(gather);
  std::uint64_t sum = 0;
  rf::RunKernelOnHost(rf::Checksum{gathered, 2, &sum});
  std::uint32_t crc = 0;  // of a text, here of one piece
  const rf::SummedPiece summed = {.from = 1, .bytes = 2};
  rf::RunKernelOnHost(rf::SumPieces{steps, sizeof steps, &summed, 1, &crc, 1});
  const bool reads_first = !rf::KernelAccesses(gather)[0].writes;
  if (sum == 0 || crc == 0 || !reads_first || pixels[1] != 1)
    throw std::runtime_error("a kernel is wrong");
  std::cout << "\n";
}

/// A source whose tensors are made where they are used. No decorator may follow it.
class OnDevice final : public rf::InstanceSource {
 public:
  explicit OnDevice(std::shared_ptr<rf::DeviceBackend> gpu) : gpu_(std::move(gpu)) {}
  rf::ReadResult ReadNext(rf::Instance* row, std::stop_token, rf::Status*) override {
    if (std::exchange(made_, true)) return rf::ReadResult::kEnd;
    std::byte* memory = nullptr;
    Need(gpu_->AllocDevice(0, 256, &memory));
    rf::Tensor tensor;
    tensor.dtype = rf::kFloat32;
    tensor.shape = {1};
    tensor.data = memory;
    tensor.bytes = sizeof(float);
    tensor.owner = {memory, [gpu = gpu_](std::byte* own) { (void)gpu->FreeDevice(0, own); }};
    tensor.place = {rf::DeviceType::kEmulated, 0};
    *row = {tensor};
    return rf::ReadResult::kRecord;
  }
  std::vector<rf::SlotSpec> slots() const override { return {{"x", rf::kFloat32, {1}}}; }
  bool on_device() const override { return true; }

 private:
  const std::shared_ptr<rf::DeviceBackend> gpu_;
  bool made_ = false;
};

/// A part of an image of 2 by 3 pixels, from line 1 and column 1 on, left and right swapped.
void Crop() {
  const std::byte image[] = {std::byte{0}, std::byte{1}, std::byte{2},
                             std::byte{3}, std::byte{4}, std::byte{5}};
  const std::int32_t place[] = {1, 1, 1};
  rf::CastNormalize crop = {.input = image,
                            .rows = 1,
                            .height = 2,
                            .width = 3,
                            .crop_height = 1,
                            .crop_width = 2,
                            .crops = place};
  std::vector<float> pixels(crop.output_height() * crop.output_width());
  crop.output = reinterpret_cast<std::byte*>(pixels.data());
  Need(rf::CheckKernel(crop));
  rf::RunKernelOnHost(crop);
  std::cout << (crop.takes_all() ? "as it is" : "cropped and mirrored") << " on the host:";
  for (const float pixel : pixels) std::cout << " " << pixel;
  std::cout << "\n";
}

int main() try {
  // A kind of one's own, for `OpenDevices("mine:2")`.
  rf::RegisterDeviceKind(
      "mine", [](const std::string& number) { return rf::OpenDevices("emu:" + number); },
      [](int* devices) { return *devices = 2, rf::Status(); });
  std::cout << "kinds:";
  for (const rf::DeviceKindStatus& kind : rf::DeviceKinds()) std::cout << " " << kind.name;
  std::cout << "\n";
  Widen(*rf::OpenDevices("mine:1"));
  OnHost();
  Crop();
  auto made = rf::FromInstanceSource(std::make_unique<OnDevice>(rf::OpenDevices("emu:1")));
  const rf::Instance row = made.ReadNext();
  std::cout << "made on " << rf::PlaceName(row["x"].place) << ": " << row.Rows() << " instance\n";
} catch (const std::exception& error) {
  std::cerr << "devices: " << error.what() << "\n";
  return 1;
}
