// What a lease tells: whose batch it is, which rows count, which streams use it; and where a feed
// goes on.
//
// Prints:
//   plans: auto batch members slabs direct
//   batch 0 on EMU:0: 4 rows, 4 count
//   batch 1 on EMU:1: 4 rows, 4 count
//   batch 2 on EMU:0: 4 rows, 2 count
//   batch 3 on EMU:1: 4 rows, 0 count
//   a timeline with 4 steps of the loop's
//   shared: 3 tensors, 5 offsets, a mask of 4
//   from batch 1: 2, again from the start: 3
#include <iostream>

#include "ringfeed/devices/timeline.h"
#include "ringfeed/ringfeed.h"

namespace rf = ringfeed;

void Need(const rf::Status& status) {
  if (!status.ok()) throw rf::Error(status);
}

/// Ten rows of a number, and of one or two.
class Samples final : public rf::InstanceSource {
 public:
  rf::ReadResult ReadNext(rf::Instance* row, std::stop_token, rf::Status*) override {
    if (made_ == 10) return rf::ReadResult::kEnd;
    std::vector<std::int64_t> several(1 + made_++ % 2, 7);
    *row = {rf::MakeScalar(1.5F), rf::MakeTensor(std::move(several)), rf::MakeScalar<int>(2)};
    return rf::ReadResult::kRecord;
  }
  bool ReInit() override { return made_ = 0, true; }

 private:
  std::size_t made_ = 0;
};

rf::Reader Batches() {
  auto rows = rf::FromInstanceSource(
      std::make_unique<Samples>(),
      {{"x", rf::kFloat32, {}}, {"several", rf::kInt64, {-1}}, {"label", rf::kInt32, {}}});
  return rf::Batch(rows, {.size = 4});
}

/// With kPad all devices step equally often. Counting is told, as by who may lose a step.
void Leases(const rf::FeedOptions& options, const std::vector<rf::DeviceStream>& streams) {
  rf::DeviceFeed feed(Batches(), options);
  rf::DeviceLease lease;
  rf::Status status;
  int steps = 0;
  while (feed.TryNext(&lease, &status, rf::kNoDeadline) == rf::ReadResult::kRecord) {
    (void)lease.On(streams.at(lease.device_index()));  // this thread does not wait
    const auto tensors = lease.WaitHost();             // it does, for who looks from the host
    if (tensors[0].shape.at(0) != static_cast<std::int64_t>(lease.rows()))
      throw std::runtime_error("the tensors have other rows");
    std::cout << "batch " << lease.number() << " on EMU:" << lease.device() << ": " << lease.rows()
              << " rows, " << lease.valid_rows() << " count\n";
    const bool known = lease.DeviceOffsets(1) != nullptr && lease.DeviceOffsets(0) == nullptr;
    if (!known || lease.DeviceMask() == nullptr || lease.slot() >= options.slots)
      throw std::runtime_error("the lease is another");
    if (lease.origin().batch > lease.number() || lease.generation() > lease.number() + 1)
      throw std::runtime_error("the batch is another");
    lease.Count();  // it was used
    const std::int64_t now = feed.backend()->NowNanos();
    options.timeline->Add(
        {.what = "step", .number = lease.number(), .begin_ns = now - 1, .end_ns = now});
    lease.Release();
    ++steps;
  }
  Need(status);
  int noted = 0;
  for (const rf::TimeSpan& span : options.timeline->spans())
    noted += std::string_view(span.what) == "step" ? 1 : 0;
  if (noted != steps) throw std::runtime_error("a step is missing");
  std::cout << "a timeline with " << noted << " steps of the loop's\n";
}

/// For tensors that go on alone: who takes one says on which stream it is used.
void Shared(const rf::FeedOptions& options, const std::vector<rf::DeviceStream>& streams) {
  rf::DeviceFeed feed(Batches(), options);
  const rf::DeviceStream first = streams.at(0);
  const std::shared_ptr<rf::SharedLease> shared = rf::SharedLease::Of(*feed.Next(), first);
  const rf::Instance tensors = shared->Tensors();
  const rf::Tensor offsets = shared->Offsets(1).value(), mask = shared->Mask().value();
  shared->UseOn(first);
  shared->UseOnNumbered(rf::SharedLease::kNoWait);  // numbers are DLPack's
  shared->WaitHost();                               // for who takes no stream, as Arrow
  shared->Count();
  // Who tells none gets CUDA's legacy stream, which emulated devices do not have.
  const auto told = reinterpret_cast<std::intptr_t>(first.handle);
  if (shared->first_stream() != first || shared->InterfaceStream(told) != told) {
    throw std::runtime_error("the stream is another");
  }
  std::cout << "shared: " << tensors.size() << " tensors, " << offsets.shape.at(0)
            << " offsets, a mask of " << mask.shape.at(0) << "\n";
}

std::size_t Count(rf::DeviceFeed& feed) {
  std::size_t count = 0;
  while (feed.Next()) ++count;
  return count;
}

int main() try {
  std::cout << "plans:";
  for (const rf::TransferPlan plan : rf::kTransferPlans)
    std::cout << " " << rf::TransferPlanName(plan);
  std::cout << "\n";
  const auto gpus = rf::EmulatedDevices::Open(2);
  std::vector<rf::DeviceStream> streams(2);
  for (int device = 0; device < 2; ++device) {
    Need(gpus->CreateStream(device, rf::StreamPriority::kNormal,
                            &streams[static_cast<std::size_t>(device)]));
  }
  Need(gpus->BindThread(0));
  rf::FeedOptions options;
  options.backend = gpus;
  options.last_step = rf::LastStep::kPad;
  options.count_when_told = true;
  options.timeline = std::make_shared<rf::Timeline>();
  Leases(options, streams);
  Shared(options, streams);
  options.last_step = rf::LastStep::kUneven;
  rf::DeviceFeed feed(Batches(), options);
  feed.SeekTo(1);
  std::cout << "from batch 1: " << Count(feed);
  feed.ReInit();
  (void)feed.Next();
  const std::string position = feed.Position();  // after nothing: no lease was counted
  feed.Restore(position);
  std::cout << ", again from the start: " << Count(feed) << "\n";
  if (feed.devices().size() != 2) return 1;
  Need(feed.Close());  // says what could not be ended in time
  for (const rf::DeviceStream stream : streams) Need(gpus->DestroyStream(stream));
} catch (const std::exception& error) {
  std::cerr << "leases: " << error.what() << "\n";
  return 1;
}
