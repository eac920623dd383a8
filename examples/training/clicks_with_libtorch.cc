// The model of clicks_from_tfrecord.py in C++, by LibTorch, on the same files in the same order.
//
//   python clicks_from_tfrecord.py data/clicks 20 && clicks_with_libtorch data/clicks 20
//
// Both draw the first weights from the same seed in the same order, so both end with the same loss.
#include <ringfeed/ringfeed.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr int kNumbers = 22;
constexpr int kIds = 8;
constexpr int kBuckets = 16;
constexpr int kBatch = 32;
constexpr std::uint64_t kSeed = 7;

// Embeddings of the ids, their products with each other, and the numbers, to one logit.
struct Clicks : torch::nn::Module {
  Clicks()
      : vectors(register_module("vectors", torch::nn::Embedding(kIds * kBuckets, 4))),
        numbers(register_module("numbers", torch::nn::Linear(kNumbers, 4))),
        top(register_module("top", torch::nn::Linear((kIds + 1) * (kIds + 1) + 4, 1))) {}

  torch::Tensor Forward(const torch::Tensor& dense_in, const torch::Tensor& ids) {
    const torch::Tensor dense = torch::relu(numbers->forward(dense_in));
    const torch::Tensor all = torch::cat({vectors->forward(ids), dense.unsqueeze(1)}, 1);
    const torch::Tensor products = all.matmul(all.transpose(1, 2));
    return top->forward(torch::cat({products.flatten(1), dense}, 1));
  }

  torch::nn::Embedding vectors;
  torch::nn::Linear numbers;
  torch::nn::Linear top;
};

ringfeed::Reader OpenBatches(const std::string& folder, std::uint32_t epoch) {
  using namespace ringfeed;
  auto records = OpenFiles({folder + "/clicks-*.tfrecord"}, {.first_epoch = epoch});
  auto shuffled = Shuffle(records, {.seed = kSeed, .mode = ShuffleMode::kGlobal});
  auto rows = Parse(shuffled, ExampleParser({{"numbers", kFloat32, {kNumbers}},
                                             {"ids", kInt64, {kIds}},
                                             {"answer", kFloat32, {1}}}));
  return Batch(rows, {.size = kBatch});
}

// The same memory as a tensor of Torch's, which holds the batch until it goes. Nobody writes to it.
torch::Tensor ToTorch(const ringfeed::Tensor& tensor, torch::Dtype type) {
  const std::vector<std::int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
  const auto let_go = [owner = tensor.owner](void*) {};
  return torch::from_blob(const_cast<std::byte*>(tensor.data), sizes, let_go, type);
}

void Train(const std::string& folder, std::uint32_t epochs) {
  torch::set_num_threads(1);
  torch::manual_seed(kSeed);
  Clicks model;
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  double loss = 0;
  std::int64_t timed_rows = 0;
  auto started = std::chrono::steady_clock::now();
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    if (epoch == 1) timed_rows = 0, started = std::chrono::steady_clock::now();
    double total = 0;
    std::int64_t rows = 0;
    auto batches = OpenBatches(folder, epoch);
    while (batches.HasNext()) {
      const ringfeed::Instance batch = batches.ReadNext();
      const torch::Tensor answers = ToTorch(batch["answer"], torch::kFloat32);
      const torch::Tensor logits = model.Forward(ToTorch(batch["numbers"], torch::kFloat32),
                                                 ToTorch(batch["ids"], torch::kInt64));
      const torch::Tensor step = torch::binary_cross_entropy_with_logits(logits, answers);
      optimizer.zero_grad();
      step.backward();
      optimizer.step();
      rows += answers.size(0);
      total += step.item<float>() * static_cast<double>(answers.size(0));
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
  if (argc < 2) throw std::runtime_error("clicks_with_libtorch FOLDER [EPOCHS]");
  Train(argv[1], argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 20);
} catch (const std::exception& error) {
  std::fprintf(stderr, "clicks_with_libtorch: %s\n", error.what());
  return 1;
}
