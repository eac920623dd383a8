#include "device_feed_handle.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "exceptions.h"
#include "gil.h"
#include "instance_arrays.h"
#include "interrupt.h"
#include "python_stage.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// A call that may run at the same time as others of its kind.
class Inside {
 public:
  explicit Inside(FeedGate* gate, Deadline limit = kNoDeadline)
      : gate_(gate->Enter(limit) ? gate : nullptr) {}
  ~Inside() {
    if (gate_ != nullptr) gate_->Leave();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  explicit operator bool() const { return gate_ != nullptr; }

 private:
  FeedGate* const gate_;
};

// How long Next stays inside at a time, and how long a new start waits for others to leave.
constexpr std::chrono::milliseconds kStay{20};
constexpr std::chrono::seconds kPatience{10};

// A batch counts when its loop has it.
FeedOptions CountedWhenTold(FeedOptions options) {
  options.count_when_told = true;
  return options;
}

// Asks again in short stays until the deadline.
template <typename Ask>
bool AskInside(FeedGate* gate, Deadline deadline, Ask&& ask) {
  do {
    const Inside inside(gate, deadline);
    if (inside && ask(std::min(deadline, DeadlineAfter(kStay)))) return true;
  } while (!NativeQueuePolicy::Expired(deadline));
  return false;
}

}  // namespace

DeviceFeedHandle::DeviceFeedHandle(ReaderHandle input, FeedOptions options,
                                   std::vector<SlotSpec> outputs, std::string devices_reason,
                                   DeviceStream stream)
    : input_(std::move(input)),
      options_(CountedWhenTold(std::move(options))),
      outputs_(std::move(outputs)),
      devices_reason_(std::move(devices_reason)),
      stream_(stream) {}

DeviceFeedHandle::~DeviceFeedHandle() = default;

DeviceFeed& DeviceFeedHandle::feed() {
  Reader& reader = input_.reader();
  if (DeviceFeed* const started = Started()) return *started;
  input_.MakeIndex(IndexPurpose::kReading);
  const GilReleased unlocked;
  const std::scoped_lock lock(mutex_);
  if (!feed_) {
    feed_.emplace(
        std::shared_ptr<DeviceFeed>(new DeviceFeed(reader, options_), &DeleteUnlocked<DeviceFeed>));
  }
  return feed_->Get();
}

DeviceFeed* DeviceFeedHandle::Started() const {
  input_.reader();  // throws in a forked child
  const GilReleased unlocked;
  const std::scoped_lock lock(mutex_);
  return feed_ ? &feed_->Get() : nullptr;
}

ReadResult DeviceFeedHandle::Await(std::optional<std::size_t> device_index, Taken* taken,
                                   Status* status) {
  DeviceFeed& devices = feed();
  ReadResult result = ReadResult::kTimeout;
  WaitUnlocked([&](Deadline limit) {
    return AskInside(&gate_, limit, [&](Deadline deadline) {
      result = device_index ? devices.TryNext(*device_index, &taken->lease, status, deadline)
                            : devices.TryNext(&taken->lease, status, deadline);
      const std::scoped_lock lock(mutex_);
      taken->start = starts_;
      return result != ReadResult::kTimeout;
    });
  });
  return result;
}

bool DeviceFeedHandle::HasNext() {
  if (SomeAreKept()) return true;
  Taken first;
  Status status;
  const ReadResult result = Await(std::nullopt, &first, &status);
  if (result == ReadResult::kRecord) SetAside(std::nullopt, std::move(first));
  return result != ReadResult::kEnd;
}

bool DeviceFeedHandle::SomeAreKept() {
  const GilReleased unlocked;
  const std::scoped_lock lock(mutex_);
  const auto holds = [](const auto& entry) { return entry.second.size() > 0; };
  return kept_.size() > 0 || std::any_of(kept_of_.begin(), kept_of_.end(), holds) ||
         std::any_of(set_aside_.begin(), set_aside_.end(), holds);
}

std::optional<DeviceFeedHandle::Taken> DeviceFeedHandle::TakeNext(
    std::optional<std::size_t> device_index) {
  feed();
  if (auto set_aside = TakeSetAside(device_index)) return set_aside;
  Taken taken;
  Status status;
  const ReadResult result = Await(device_index, &taken, &status);
  if (result == ReadResult::kFailed) {
    input_.RaiseFailure(status);
  }
  if (result != ReadResult::kRecord) return std::nullopt;
  return taken;
}

std::optional<DeviceFeedHandle::Ticket> DeviceFeedHandle::Next(
    std::optional<std::size_t> device_index) {
  std::optional<Taken> taken = TakeNext(device_index);
  const GilReleased unlocked;
  if (!taken) return std::nullopt;
  DeviceLease& lease = taken->lease;
  Ticket ticket{
      .lease = nullptr,
      .origin = lease.origin(),
      .place = lease.device_index(),
      .part = {lease.device(), lease.rows(), lease.valid_rows(), lease.slot(), lease.generation()},
      .start = taken->start};
  try {
    // Of a GPU's memory all who take an array say on which stream they read it, or that on none.
    const bool waits = stream_ || options_.backend->type() != DeviceType::kCuda;
    ticket.lease = waits ? SharedLease::Of(std::move(lease), stream_)
                         : SharedLease::Unwaited(std::move(lease));
  } catch (const Error& error) {
    // If only the stream was refused, because it is captured, say, the batch is still good.
    const bool is_lost = error.status().code() == StatusCode::kDeviceLost;
    if (stream_ && !is_lost) SetAside(device_index, std::move(*taken));
    taken.reset();
    throw;
  }
  return ticket;
}

void DeviceFeedHandle::SetAside(std::optional<std::size_t> device_index, Taken taken) {
  const std::scoped_lock lock(mutex_);
  set_aside_[device_index].push_back(std::move(taken));
}

std::optional<DeviceFeedHandle::Taken> DeviceFeedHandle::TakeSetAside(
    std::optional<std::size_t> device_index) {
  const GilReleased unlocked;
  std::deque<Taken> stale;  // released without the mutex
  const std::scoped_lock lock(mutex_);
  const auto take = [&](std::deque<Taken>* from) -> std::optional<Taken> {
    while (!from->empty() && from->front().start != starts_) {
      stale.push_back(std::move(from->front()));
      from->pop_front();
    }
    if (from->empty()) return std::nullopt;
    if (device_index && from->front().lease.device_index() != *device_index) return std::nullopt;
    std::optional<Taken> first(std::move(from->front()));
    from->pop_front();
    return first;
  };
  // A batch taken for all devices in turn may be this device's, too: HasNext asks so for loops of
  // one.
  if (auto taken = take(&set_aside_[std::nullopt])) return taken;
  return take(&set_aside_[device_index]);
}

nb::object DeviceFeedHandle::NextAs(std::optional<std::size_t> device_index,
                                    const BatchForm& form) {
  using Arrays = std::optional<std::pair<nb::tuple, Ticket>>;
  const auto take = [&]() -> Arrays {
    std::optional<Ticket> ticket = Next(device_index);
    if (!ticket) return std::nullopt;
    nb::tuple arrays = ArraysOf(TensorsOf(*ticket->lease), ticket->lease);
    return Arrays(std::in_place, std::move(arrays), std::move(*ticket));
  };
  return HandOver(KeptOf(device_index), form, take,
                  [&](Ticket&& ticket) { NoteHandedOut(std::move(ticket)); });
}

DeviceFeedHandle::Kept* DeviceFeedHandle::KeptOf(std::optional<std::size_t> device_index) {
  if (!device_index) return &kept_;
  const GilReleased unlocked;
  const std::scoped_lock lock(mutex_);
  return &kept_of_[*device_index];
}

Instance DeviceFeedHandle::TensorsOf(const SharedLease& lease) const {
  Instance tensors = lease.Tensors();
  if (!masked()) return tensors;
  std::optional<Tensor> mask = lease.Mask();
  if (!mask) {  // of no rows
    mask.emplace();
    mask->dtype = DType::kUInt8;
    mask->shape = {0};
    if (!tensors.empty()) mask->place = tensors.front().place;
  }
  tensors.push_back(std::move(*mask));
  return tensors;
}

void DeviceFeedHandle::NoteHandedOut(Ticket ticket) {
  const GilReleased unlocked;
  ticket.lease->Count();
  const std::scoped_lock lock(mutex_);
  if (ticket.start != starts_) return;
  last_ = last_of_[ticket.place] = ticket.part;
  if (!furthest_ || furthest_->batch <= ticket.origin.batch) furthest_ = std::move(ticket.origin);
}

std::optional<DeviceFeedHandle::Part> DeviceFeedHandle::LastPart(
    std::optional<std::size_t> device_index) const {
  const GilReleased unlocked;
  const std::scoped_lock lock(mutex_);
  if (!device_index) return last_;
  const auto found = last_of_.find(*device_index);
  return found == last_of_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<BatchOrigin> DeviceFeedHandle::Furthest() const {
  const GilReleased unlocked;
  const std::scoped_lock lock(mutex_);
  return furthest_;
}

void DeviceFeedHandle::Forget() {
  const GilReleased unlocked;
  ForEachKept([](Kept& kept) { kept.BeginAnew(); });
  const std::scoped_lock lock(mutex_);
  ++starts_;
  last_.reset();
  last_of_.clear();
  furthest_.reset();
}

template <typename Function>
void DeviceFeedHandle::ForEachKept(Function&& drop) {
  std::vector<Kept*> all = {&kept_};
  std::map<std::optional<std::size_t>, std::deque<Taken>> set_aside;
  {
    const std::scoped_lock lock(mutex_);
    set_aside.swap(set_aside_);
    for (auto& [place, kept] : kept_of_) all.push_back(&kept);
  }
  for (Kept* const kept : all) drop(*kept);
}

template <typename Function>
void DeviceFeedHandle::Restart(Function&& restart) {
  RefuseWithinStage();
  DeviceFeed* started = Started();
  const bool alone = WaitUnlocked([&](Deadline limit) { return gate_.EnterAlone(limit); },
                                  DeadlineAfter(kPatience));
  if (!alone) {
    Raise(Status(StatusCode::kDeadlineExceeded,
                 "other threads wait for batches of this feed: end their loops, then start again"));
  }
  struct Leave {
    FeedGate* gate;
    ~Leave() { gate->LeaveAlone(); }
  } const leave{&gate_};
  input_.Restart([&](Reader& reader) { started != nullptr ? restart(*started) : restart(reader); });
  Forget();
}

void DeviceFeedHandle::Reset() {
  Restart([](auto& feed) { feed.ReInit(); });
}

void DeviceFeedHandle::Restore(const std::string& position) {
  input_.MakeIndex(IndexPurpose::kCounting);
  Restart([&](auto& feed) { feed.Restore(position); });
}

void DeviceFeedHandle::SeekTo(std::uint64_t batch) {
  input_.MakeIndex(IndexPurpose::kCounting);
  Restart([&](auto& feed) { feed.SeekTo(batch); });
}

std::string DeviceFeedHandle::Position() {
  DeviceFeed* started = Started();
  Reader& reader = input_.reader();
  input_.MakeIndex(IndexPurpose::kReading);
  // A read would begin, and the feed decides how.
  const bool known = Unlocked([&] { return reader.KnowsPosition(); });
  if (started == nullptr && !known) started = &feed();
  WaitUnlocked([&](Deadline deadline) {
    const Inside inside(&gate_);
    return reader.AwaitPosition(deadline);
  });
  const GilReleased unlocked;
  const Inside inside(&gate_);
  return started != nullptr ? started->Position() : reader.Position();
}

std::optional<FeedStats> DeviceFeedHandle::Stats() const {
  DeviceFeed* started = Started();
  if (started == nullptr) return std::nullopt;
  const GilReleased unlocked;
  const Inside inside(&gate_);
  return started->Stats();
}

void DeviceFeedHandle::Close() {
  RefuseWithinStage();
  Status status;
  {
    std::shared_ptr<DeviceFeed> started;
    const GilReleased unlocked;
    {
      const std::scoped_lock lock(mutex_);
      if (feed_ && feed_->ForkedSince()) return;
      if (feed_) started = feed_->Shared();
    }
    ForEachKept([](Kept& kept) { kept.Drop(); });
    if (started != nullptr) status = started->Close();
  }
  input_.Close();
  if (!status.ok()) Raise(status);
}

}  // namespace ringfeed::python
