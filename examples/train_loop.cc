// A training loop on one device, a logistic regression over 13 numbers. The device is emulated, for
// a dry run: hazards are what a GPU would get wrong now and then.
//
//   ringfeed make table --kind table --records 100000 && train_loop table/*.tfrecord
#include <cmath>
#include <iostream>

#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

struct Model {  // in device memory
  float weights[13] = {}, bias = 0;
  double loss = 0, rows = 0;
  void Train(const rf::Tensor& dense, const rf::Tensor& labels) {
    const float* x = dense.Values<float>().data();
    for (const std::int64_t label : labels.Values<std::int64_t>()) {
      float logit = bias;
      for (int i = 0; i < 13; ++i) logit += weights[i] * x[i];
      const float off = 1 / (1 + std::exp(-logit)) - static_cast<float>(label);
      for (int i = 0; i < 13; ++i) weights[i] -= 1e-5F * off * x[i];
      bias -= 1e-2F * off;
      loss += std::log1p(std::exp(label != 0 ? -logit : logit));
      x += 13, ++rows;
    }
  }
};

int main(int argc, char** argv) try {
  const auto need = [](const rf::Status& done) { done.ok() ? void() : throw rf::Error(done); };
  auto parser = rf::ExampleParser({{"dense", rf::kFloat32, {13}}, {"label", rf::kInt64, {}}});
  auto samples = rf::Parse(rf::OpenFiles({argv + 1, argv + argc}), parser);
  auto batches = rf::Batch(rf::Shuffle(samples, {.window = 8192, .seed = 7}), {.size = 256});
  const auto gpu = rf::EmulatedDevices::Open({.simulated = true});
  rf::DeviceFeed feed(batches, {.backend = gpu, .devices = {0}});
  rf::DeviceStream stream;
  std::byte* memory = nullptr;
  need(gpu->BindThread(0));
  need(gpu->CreateStream(0, rf::StreamPriority::kNormal, &stream));
  need(gpu->AllocDevice(0, sizeof(Model), &memory));
  need(gpu->Fill(stream, memory, std::byte{0}, sizeof(Model)));
  while (auto lease = feed.Next()) {
    const auto xy = lease->On(stream);  // the stream waits for the copy, this thread does not
    auto train = [=, x = xy[0], y = xy[1]] { reinterpret_cast<Model*>(memory)->Train(x, y); };
    const rf::MemoryAccess uses[] = {
        {xy[0].data, xy[0].bytes}, {xy[1].data, xy[1].bytes}, {memory, sizeof(Model), true}};
    need(gpu->LaunchHost(stream, train, uses));  // with CUDA: your kernels, on stream.handle
  }                                              // the lease gives its slot back, behind the step
  Model model;
  need(gpu->CopyToHost(stream, reinterpret_cast<std::byte*>(&model), memory, sizeof(Model)));
  need(gpu->SyncStream(stream));
  std::cout << feed.Stats().devices[0].batches << " batches, loss " << model.loss / model.rows
            << ", hazards: " << gpu->offences().size() << "\n";
} catch (const std::exception& error) {
  std::cerr << "train_loop: " << error.what() << "\n";
  return 1;
}
