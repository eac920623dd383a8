// The net of digits_from_tar.py in C++, by LibTorch, on the same shards in the same order:
// ringfeed::jpeg decodes, and the device crops, flips and normalises.
//
//   python digits_from_tar.py data/digits 5 && digits_with_libtorch data/digits 5 [emu:1|cuda:0]
//
// Both draw the first weights from the same seed in the same order, so both end with the same loss.
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "ringfeed/export/torch_blob.h"  // needs Torch before it
#include "ringfeed/jpeg.h"
#include "ringfeed/ringfeed.h"
#if RINGFEED_WITH_CUDA
#include "ringfeed/devices/cuda_devices.h"
#endif

namespace rf = ringfeed;

namespace {

constexpr std::size_t kSide = 16;  // of an image, in pixels
constexpr std::size_t kCrop = 14;
constexpr std::uint64_t kSeed = 7;

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): each bit of the result hangs on all.
std::uint64_t Mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

// What Map calls, by several threads at once. Where the crop stands and whether it is flipped is
// drawn by the sample's number and the epoch: what a sample becomes must not depend on who reads
// it, and when.
void PlaceSample(const rf::MapInput& input, rf::RowWriter& row) {
  const auto key = (*input.fields)["__key__"].Values<char>();
  std::uint64_t number = 0;
  const char* const end = key.data() + key.size();
  const auto [stopped, error] = std::from_chars(key.data(), end, number);
  if (error != std::errc() || stopped != end) throw std::runtime_error("its key is no number");

  constexpr std::size_t kPlaces = kSide - kCrop + 1;
  const std::uint64_t drawn = Mixed(Mixed(Mixed(kSeed) ^ input.epoch) ^ number);
  const std::array<std::int32_t, 3> place = {static_cast<std::int32_t>(drawn % kPlaces),
                                             static_cast<std::int32_t>(drawn / kPlaces % kPlaces),
                                             static_cast<std::int32_t>(drawn >> 63)};
  std::memcpy(row.Fixed(0).data(), place.data(), sizeof(place));
}

rf::Reader OpenBatches(const std::string& folder, std::uint32_t epoch) {
  auto records = rf::OpenFiles({folder + "/digits-*.tar"}, {.first_epoch = epoch});
  auto shuffled = rf::Shuffle(records, {.seed = kSeed, .mode = rf::ShuffleMode::kGlobal});
  auto samples = rf::Parse(shuffled, rf::TarParser({{"jpg", rf::kUInt8, {-1}},
                                                    {"cls", rf::kInt64, {}},
                                                    {"__key__", rf::kUInt8, {-1}}}));
  auto images = rf::jpeg::Decode(samples, {.height = kSide, .width = kSide, .channels = 1});
  auto placed =
      rf::Map(images, {{"place", rf::kInt32, {3}}}, PlaceSample, {.keep = {"jpg", "cls"}});
  return rf::Batch(placed, {.size = 64});
}

torch::nn::Sequential MakeNet() {
  using namespace torch::nn;
  torch::manual_seed(kSeed);
  // In braces, so that the layers draw their weights from left to right.
  return Sequential{Conv2d(1, 8, 3), ReLU(),    MaxPool2d(2),          Conv2d(8, 16, 3),
                    ReLU(),          Flatten(), Linear(16 * 4 * 4, 10)};
}

void Train(const std::string& folder, std::uint32_t epochs, const std::string& device_name) {
  const bool is_cuda = device_name.starts_with("cuda");
  const auto backend = rf::OpenDevices(is_cuda ? "cuda" : device_name);
  // What an emulated device has is host memory to Torch.
  const torch::Device device(is_cuda ? device_name : "cpu");
  const std::vector<int> numbers = {std::max<int>(device.index(), 0)};
  const rf::NormalizeField normalize = {.field = 1,  // "jpg"
                                        .mean = {75},
                                        .scale = {1 / 85.0F},
                                        .channels_first = true,
                                        .crop_height = kCrop,
                                        .crop_width = kCrop,
                                        .crops = 0};  // "place"
  torch::set_num_threads(1);
  torch::nn::Sequential net = MakeNet();
  net->to(device);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  double loss = 0;
  std::int64_t timed_rows = 0;
  auto started = std::chrono::steady_clock::now();
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    if (epoch == 1) timed_rows = 0, started = std::chrono::steady_clock::now();
    double total = 0;
    std::int64_t rows = 0;
    rf::DeviceFeed feed(OpenBatches(folder, epoch),
                        {.backend = backend, .devices = numbers, .transforms = {normalize}});
    while (auto batch = feed.Next()) {
      const auto tensors = batch->WaitHost();
      const torch::Tensor labels = rf::TorchBlob(tensors[2]);
      const torch::Tensor logits = net->forward(rf::TorchBlob(tensors[1]));
      const torch::Tensor step = torch::nn::functional::cross_entropy(logits, labels);
      optimizer.zero_grad();
      step.backward();
      optimizer.step();
      rows += labels.size(0);
      // item() waits for the step: behind it the batch's memory may be written again.
      total += step.item<float>() * static_cast<double>(labels.size(0));
    }
    timed_rows += rows;
    loss = total / static_cast<double>(rows);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
  std::printf("ringfeed, LibTorch: loss %.12f, %.0f rows a second\n", loss,
              static_cast<double>(timed_rows) / took.count());
}

}  // namespace

int main(int argc, char** argv) try {
#if RINGFEED_WITH_CUDA
  rf::UseCuda();
#endif
  if (argc < 2) throw std::runtime_error("digits_with_libtorch FOLDER [EPOCHS [emu:1|cuda:0]]");
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 5;
  Train(argv[1], static_cast<std::uint32_t>(epochs), argc > 3 ? argv[3] : "emu:1");
} catch (const std::exception& error) {
  std::fprintf(stderr, "digits_with_libtorch: %s\n", error.what());
  return 1;
}
