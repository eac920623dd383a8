#include "blocking_queue.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "array.h"
#include "exceptions.h"
#include "field_specs.h"
#include "fork_guard.h"
#include "gil.h"
#include "held_object.h"
#include "instance_input.h"
#include "interrupt.h"
#include "live_queues.h"
#include "reader_handle.h"
#include "ringfeed/compat/py_reader.h"
#include "ringfeed/decorators.h"
#include "ringfeed/queue/blocking_queue.h"
#include "user_call.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

using Queue = LoDTensorBlockingQueue;

CopyInput CopyOption(std::optional<bool> copy) {
  if (!copy) return CopyInput::kIfNeeded;
  return *copy ? CopyInput::kAlways : CopyInput::kNever;
}

Deadline LimitOf(std::optional<double> timeout) {
  constexpr double kLongest = 1e9;  // seconds; the clock's own unit would overflow
  if (!timeout || *timeout >= kLongest) return kNoDeadline;
  const std::chrono::duration<double> seconds(std::max(*timeout, 0.0));
  return DeadlineAfter(std::chrono::duration_cast<QueueClock::duration>(seconds));
}

bool CanBeIterated(nb::handle object) {
  return Py_TYPE(object.ptr())->tp_iter != nullptr || PySequence_Check(object.ptr()) != 0;
}

nb::python_error ErrorOf(nb::handle exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  return nb::python_error();
}

nb::tuple ArraysOf(Instance instance) {
  nb::list arrays;
  for (Tensor& tensor : instance) arrays.append(Array::OfOwnMemory(std::move(tensor)));
  return nb::tuple(arrays);
}

// PyReader that tells Python's producer the end of one pass and the begin of the next: on any
// thread that starts the chain again.
class PassedReader final : public InstanceSource {
 public:
  /// `passes` has methods end() and begin().
  PassedReader(std::shared_ptr<LoDTensorBlockingQueueHolder> holder, nb::handle passes,
               std::shared_ptr<ThrownKeeper> keeper)
      : holder_(std::move(holder)),
        reader_(holder_),
        passes_(Hold(passes)),
        keeper_(std::move(keeper)) {}

  ReadResult ReadNext(Instance* instance, std::stop_token stop, Status* status) override {
    read_ = true;
    return reader_.ReadNext(instance, std::move(stop), status);
  }

  bool ReInit() override {
    const bool read = std::exchange(read_, false);
    if (!read && begun_ == nullptr) return reader_.ReInit();  // keeps what was pushed already
    const std::shared_ptr<Queue> queue = holder_->GetQueue();
    if (!read && queue == begun_ && queue->status().ok()) return true;  // this pass goes on
    if (read || queue == begun_) {
      Tell("end");
      reader_.ReInit();
      Tell("begin");
    } else {
      reader_.ReInit();  // takes the owner's new queue, and fills it
    }
    begun_ = holder_->GetQueue();
    return true;
  }

  bool Ready() const override { return reader_.Ready(); }
  std::vector<SlotSpec> slots() const override { return reader_.slots(); }

 private:
  void Tell(const char* what) {
    CallUser(*keeper_, [&] { passes_->Get().attr(what)(); });
  }

  std::shared_ptr<LoDTensorBlockingQueueHolder> holder_;
  PyReader reader_;
  std::shared_ptr<HeldObject> passes_;
  std::shared_ptr<ThrownKeeper> keeper_;
  bool read_ = false;             // since the last ReInit
  std::shared_ptr<Queue> begun_;  // of the last ReInit after a read
};

/// Reused memory for copies: fresh memory costs several times the copy. A buffer comes back by
/// itself when its last owner drops it, even after the pool's end. Thread safe.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  /// Keeps up to `most_free` unused buffers.
  explicit BufferPool(std::size_t most_free) : most_free_(most_free) {}

  /// At least `bytes`, aligned to 64; not initialised.
  std::shared_ptr<std::byte> Take(std::size_t bytes) {
    Buffer buffer = TakeFree(bytes);
    if (buffer.data == nullptr) {
      buffer.bytes = std::max<std::size_t>(bytes, 1);
      buffer.data.reset(static_cast<std::byte*>(::operator new(buffer.bytes, kAlign)));
    }
    std::byte* data = buffer.data.get();
    auto lent = std::make_shared<Buffer>(std::move(buffer));
    return std::shared_ptr<std::byte>(data, [lent, pool = weak_from_this()](std::byte*) {
      if (const std::shared_ptr<BufferPool> home = pool.lock()) home->GiveBack(std::move(*lent));
    });
  }

 private:
  static constexpr std::align_val_t kAlign{64};

  struct FreeAligned {
    void operator()(std::byte* data) const { ::operator delete(data, kAlign); }
  };
  struct Buffer {
    std::unique_ptr<std::byte, FreeAligned> data;
    std::size_t bytes = 0;
  };

  // Never one of more than twice the size: then a few small arrays would hold much memory.
  Buffer TakeFree(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = free_.size(); i-- > 0;) {
      if (free_[i].bytes < bytes || free_[i].bytes / 2 > bytes) continue;
      Buffer found = std::move(free_[i]);
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
      return found;
    }
    return {};
  }

  void GiveBack(Buffer buffer) {
    Buffer dropped;
    const std::scoped_lock lock(mutex_);
    free_.push_back(std::move(buffer));
    if (free_.size() <= most_free_) return;
    dropped = std::move(free_.front());
    free_.erase(free_.begin());
  }

  const std::size_t most_free_;
  std::mutex mutex_;
  std::vector<Buffer> free_;  // the last one was used most recently
};

class QueueHandle {
 public:
  QueueHandle(std::size_t capacity, const std::vector<SlotTuple>& slots, bool learn_dtypes)
      : slots_(SlotSpecs(slots)),
        holder_(std::make_shared<LoDTensorBlockingQueueHolder>()),
        pool_(std::make_shared<BufferPool>((capacity + 2) * slots.size())) {
    holder_.Get().InitOnce(capacity, slots_, {.learn_dtypes = learn_dtypes});
    NoteQueue(holder_.Shared());
  }

  bool Push(nb::handle arrays, std::optional<bool> copy, std::optional<double> timeout) const {
    if (!CanBeIterated(arrays)) throw nb::next_overload();  // of another type
    const QueueCall call;
    const std::shared_ptr<Queue> queue = Get();
    Instance instance = InstanceOf(slots_, arrays, CopyOption(copy),
                                   [&](std::size_t bytes) { return pool_->Take(bytes); });
    QueueResult result = QueueResult::kTimeout;
    const bool done = WaitUnlocked(
        [&](Deadline deadline) {
          result = queue->PushUntil(std::move(instance), deadline);
          return result != QueueResult::kTimeout;
        },
        LimitOf(timeout));
    if (!done) Raise(Status(StatusCode::kDeadlineExceeded, "the queue is still full"));
    return result == QueueResult::kOk;
  }

  nb::object Pop(std::optional<double> timeout) const {
    const QueueCall call;
    const std::shared_ptr<Queue> queue = Get();
    Instance instance;
    QueueResult result = QueueResult::kTimeout;
    const bool done = WaitUnlocked(
        [&](Deadline deadline) {
          result = queue->PopUntil(&instance, deadline);
          return result != QueueResult::kTimeout;
        },
        LimitOf(timeout));
    if (!done) Raise(Status(StatusCode::kDeadlineExceeded, "the queue is still empty"));
    if (result == QueueResult::kFailed) RaiseFailure(*queue);
    if (result != QueueResult::kOk) return nb::none();
    return ArraysOf(std::move(instance));
  }

  bool AwaitDTypes() const {
    const QueueCall call;
    const std::shared_ptr<Queue> queue = Get();
    QueueResult result = QueueResult::kTimeout;
    (void)WaitUnlocked([&](Deadline deadline) {
      result = queue->AwaitSlots(deadline);
      return result != QueueResult::kTimeout;
    });
    return result == QueueResult::kOk;
  }

  void Close() const {
    if (holder_.ForkedSince()) return;
    const std::shared_ptr<Queue> queue = Get();
    const GilReleased unlocked;
    queue->Close();
  }

  void Kill(nb::handle reason) const {
    const std::shared_ptr<Queue> queue = Get();
    Status status = StatusOf(reason);
    const GilReleased unlocked;
    queue->Kill(std::move(status));
  }

  void Fail(nb::handle reason) const {
    const std::shared_ptr<Queue> queue = Get();
    Status status = StatusOf(reason);
    const GilReleased unlocked;
    queue->Close(std::move(status));
  }

  void ReOpen() const {
    LoDTensorBlockingQueueHolder& holder = holder_.Get();
    keeper_->Forget();
    const GilReleased unlocked;
    holder.ReOpen();
  }

  ReaderHandle OpenReader(nb::handle passes, std::uint64_t ahead, std::uint64_t ahead_bytes) const {
    const std::shared_ptr<LoDTensorBlockingQueueHolder> holder = holder_.Shared();
    std::unique_ptr<InstanceSource> source;
    if (passes.is_none()) {
      source = std::make_unique<PyReader>(holder);
    } else {
      source = std::make_unique<PassedReader>(holder, passes, keeper_);
    }
    OpenOptions options;
    options.ahead_records = ahead;
    options.ahead_bytes = ahead_bytes;
    const auto open = [&] { return FromInstanceSource(std::move(source), options); };
    ReaderHandle reader(Unlocked(open), {keeper_});
    reader.set_endless(passes.is_none());  // what a new start drops is not put again
    return reader;
  }

  QueueParts Parts() const { return {holder_.Shared(), keeper_}; }

  // Releases the Python lock: a thread that re-opens the holder may need it to drop old instances.
  std::shared_ptr<Queue> Get() const {
    LoDTensorBlockingQueueHolder& holder = holder_.Get();
    const GilReleased unlocked;
    return holder.GetQueue();
  }

 private:
  Status StatusOf(nb::handle reason) const {
    if (PyExceptionInstance_Check(reason.ptr())) return keeper_->Keep(ErrorOf(reason)).status();
    if (!PyUnicode_Check(reason.ptr())) throw nb::next_overload();  // of another type
    return Status(StatusCode::kCancelled, nb::cast<std::string>(reason));
  }

  [[noreturn]] void RaiseFailure(const Queue& queue) const {
    const Status status = queue.status();
    if (status.code() == StatusCode::kUserError) keeper_->RaiseAgain(status);
    Raise(status);
  }

  std::vector<SlotSpec> slots_;  // as declared
  OwnedHere<LoDTensorBlockingQueueHolder> holder_;
  std::shared_ptr<BufferPool> pool_;
  std::shared_ptr<ThrownKeeper> keeper_ = std::make_shared<ThrownKeeper>();
};

}  // namespace

std::optional<QueueParts> QueuePartsOf(nb::handle object) {
  const QueueHandle* queue = nullptr;
  if (!nb::try_cast(object, queue) || queue == nullptr) return std::nullopt;
  return queue->Parts();
}

void BindBlockingQueue(nb::module_& module) {
  nb::class_<QueueHandle>(module, "LoDTensorBlockingQueue",
                          "A bounded queue of instances, shared by Python and C++. Any number of "
                          "threads push and pop; nobody waits with Python's lock.")
      .def(nb::init<std::size_t, const std::vector<SlotTuple>&, bool>(), nb::arg("capacity"),
           nb::arg("slots"), nb::arg("learn_dtypes") = false)
      .def("push", &QueueHandle::Push, nb::arg("arrays"), nb::arg("copy").none() = true,
           nb::arg("timeout") = nb::none(),
           nb::sig("def push(self, arrays: collections.abc.Iterable[typing.Any], "
                   "copy: bool | None = True, timeout: float | None = None) -> bool"),
           "Waits for room, `timeout` seconds at most. `arrays`: for each slot an array of host "
           "memory (a buffer or DLPack), or (array, lod) with the offsets of each level, a list or "
           "an int32 or int64 array. copy: "
           "True: the arrays may be used again at once; False: their memory is shared, ValueError "
           "if it cannot be; None: shared if it can be. False after close or kill. Raises "
           "InvalidArgument or TypeError, naming the slot, for what is not as declared, and "
           "DeadlineExceeded.")
      .def("pop", &QueueHandle::Pop, nb::arg("timeout") = nb::none(),
           nb::sig("def pop(self, timeout: float | None = None) -> tuple[Array, ...] | None"),
           "Waits for an instance, `timeout` seconds at most: a tuple of Arrays; None at the end. "
           "Raises what kill or fail "
           "was given, and DeadlineExceeded.")
      .def("await_dtypes", &QueueHandle::AwaitDTypes,
           "Waits until the dtypes are known, which are those of the first instance if none were "
           "declared. False if the queue ended before one came.")
      .def("close", &QueueHandle::Close, "No more pushes; what is in it is still popped.")
      .def("kill", &QueueHandle::Kill, nb::arg("reason"),
           nb::sig("def kill(self, reason: str | BaseException) -> None"),
           "Ends it at once, for good. The first consumer gets the exception `reason`, others a "
           "copy (a UserError with its text if it cannot be copied); all a Cancelled with that "
           "text if it is one. Raises TypeError for anything else.")
      .def("fail", &QueueHandle::Fail, nb::arg("reason"),
           nb::sig("def fail(self, reason: str | BaseException) -> None"),
           "As kill, but what is in it is popped before, and its reader can be reset.")
      .def("reopen", &QueueHandle::ReOpen,
           "Closes it and goes on with an empty one, which its reader's reset takes. Raises what "
           "it was killed with.")
      .def("reader", &QueueHandle::OpenReader, nb::arg("passes") = nb::none(), nb::arg("ahead") = 0,
           nb::arg("ahead_bytes") = 0,
           "A chain's Reader that takes from it; once. Raises InvalidArgument while the dtypes are "
           "not known. Its reset puts an empty queue in place: "
           "`passes.end()` is called before, `passes.begin()` after that, by the thread that "
           "resets, if something was read. Of what is in it `ahead` instances are taken beyond "
           "what the loop got, and `ahead_bytes` of their bytes. 0 for both: 4, or the rows of the "
           "batches that wait.")
      .def(
          "size", [](const QueueHandle& h) { return h.Get()->Size(); },
          "How many instances are in it; others may push and pop meanwhile.")
      .def(
          "cap", [](const QueueHandle& h) { return h.Get()->Cap(); },
          "How many instances it holds.")
      .def(
          "is_closed", [](const QueueHandle& h) { return h.Get()->IsClosed(); },
          "Whether it takes no more, by close, fail or kill.")
      .def_prop_ro(
          "is_killed", [](const QueueHandle& h) { return h.Get()->IsKilled(); },
          "Whether kill ended it.");
}

}  // namespace ringfeed::python
