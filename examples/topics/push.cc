// Instances that threads of one's own push: a queue that a chain reads, pass after pass.
//
// Prints:
//   pass 1: 4 instances
//   pass 2: 4 instances
//   by hand: 2 batches
//   a queue of 2 for x is learnt as int64, then timeout
//   popped 7, then the end: 1
//   the next pass has a queue of its own: 1
//   killed: user_error: the source is gone
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

/// What a queue tells, and calls that do not wait for ever.
void Queue() {
  rf::LoDTensorBlockingQueue queue(2, {{"x", rf::kFloat32, {1}}}, {.learn_dtypes = true});
  const auto soon = [] { return rf::DeadlineAfter(std::chrono::milliseconds(1)); };
  rf::Instance seven = {rf::MakeTensor(std::vector<std::int64_t>{7})};
  queue.Push(seven);
  if (queue.AwaitSlots(soon()) != rf::QueueResult::kOk) throw std::runtime_error("none are known");
  queue.Push(seven);
  const rf::SlotSpec slot = queue.slots().at(0);
  std::cout << "a queue of " << queue.Cap() << " for " << slot.name << " is learnt as "
            << rf::DTypeName(slot.dtype) << ", then "
            << rf::QueueResultName(queue.PushUntil(std::move(seven), soon())) << "\n";
  queue.Close();  // what is in it is still popped
  rf::Instance instance;
  const rf::QueueResult popped = queue.PopUntil(&instance, soon());
  if (popped != rf::QueueResult::kOk || queue.Size() != 1 || !queue.Pop() || !queue.IsClosed())
    throw std::runtime_error("an instance is missing");
  bool ok = true;
  queue.Pop(&ok);  // Paddle's form
  std::cout << "popped " << instance[0].Values<std::int64_t>()[0] << ", then the end: " << !ok
            << "\n";
}

/// A holder opens a new queue for each pass, unless somebody else did. A killed one is the end.
void Holder(const std::vector<rf::SlotSpec>& slots) {
  rf::LoDTensorBlockingQueueHolder holder;
  holder.InitOnce(2, slots);
  const auto first = holder.GetQueue();
  rf::QueueProducer producer(first, Generate);
  producer.Stop();  // closes the queue and waits for the thread
  const auto second = holder.ReOpen();
  std::cout << "the next pass has a queue of its own: " << (holder.ReOpenAfter(first) == second)
            << "\n";
  const std::shared_ptr<rf::LoDTensorBlockingQueue> queue = second;
  queue->Kill(rf::Status(rf::StatusCode::kUserError, "the source is gone"));
  if (!queue->IsKilled()) throw std::runtime_error("it goes on");
  std::cout << "killed: " << queue->status().ToString() << "\n";
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
  Queue();
  Holder(slots);

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
