// Instances that threads of one's own push: a queue that a chain reads, pass after pass.
//
// Prints:
//   pass 1: 4 instances
//   pass 2: 4 instances
//   by hand: 2 batches
//   random numbers: [3, 2]
#include <iostream>

#include "ringfeed/compat/py_reader.h"
#include "ringfeed/compat/random_data.h"
#include "ringfeed/compat/scope.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

/// Pushes four instances; its return is the end of the pass, and what it throws a failure.
void Generate(rf::LoDTensorBlockingQueue& queue, std::stop_token) {
  for (float x = 0; x < 4; ++x) {
    if (!queue.Push(rf::Instance{rf::MakeTensor(std::vector{x})})) return;  // closed
  }
}

int main() try {
  const std::vector<rf::SlotSpec> slots = {{"x", rf::kFloat32, {1}}};
  auto holder = std::make_shared<rf::LoDTensorBlockingQueueHolder>();
  const rf::BlockingQueueOptions options = {.spin_ns = 0};
  holder->InitOnce(2, slots, options);
  rf::Reader instances = rf::OpenPyReader(holder);
  for (int pass = 1; pass <= 2; ++pass) {
    if (pass > 1) instances.ReInit();                                // a new queue
    const rf::QueueProducer producer(holder->GetQueue(), Generate);  // on a thread
    int count = 0;
    while (instances.HasNext()) instances.ReadNext(), ++count;
    std::cout << "pass " << pass << ": " << count << " instances\n";
  }

  // A queue alone, filled by this thread. PyReader is the source that reads it.
  auto queue = std::make_shared<rf::LoDTensorBlockingQueue>(4, slots);
  if (const rf::Status status = rf::Produce(*queue, Generate); !status.ok())
    throw rf::Error(status);
  rf::Reader pairs =
      rf::Batch(rf::FromInstanceSource(std::make_unique<rf::PyReader>(queue)), {.size = 2});
  int count = 0;
  while (pairs.HasNext()) pairs.ReadNext(), ++count;
  std::cout << "by hand: " << count << " batches\n";

  // Readers by name, in a scope, as programs have them.
  rf::Scope scope;
  const rf::RandomDataOptions random = {.low = -1, .high = 1, .seed = 7, .count = 3};
  auto& reader = scope.Var<rf::ReaderHolder>("random");
  reader.Reset(rf::Batch(rf::RandomData({{"x", rf::kFloat32, {1, 2}}}, random), {.size = 3}));
  const rf::Instance batch = scope.Get<rf::ReaderHolder>("random").ReadNext();
  std::cout << "random numbers: " << rf::ShapeToString(batch["x"].shape) << "\n";
} catch (const std::exception& error) {
  std::cerr << "push: " << error.what() << "\n";
  return 1;
}
