#include "reader_handle.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <future>
#include <initializer_list>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "gil.h"
#include "instance_arrays.h"
#include "interrupt.h"
#include "live_readers.h"
#include "text.h"

namespace nb = nanobind;

namespace ringfeed::python {

namespace {

// A thread that takes none of the process's signals except its own faults: signals are a matter for
// the program's threads.
template <typename Function>
std::jthread ThreadWithoutSignals(Function&& function) {
  struct Masked {
    Masked() {
      sigset_t signals;
      sigfillset(&signals);
      for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
        sigdelset(&signals, fault);
      }
      pthread_sigmask(SIG_SETMASK, &signals, &before);
    }
    ~Masked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before{};
  };
  const Masked masked;
  return std::jthread(std::forward<Function>(function));
}

// From Python 3.11 on, adds to the traceback the record at which a user's function failed.
void NotePlace(const nb::python_error& thrown, const DataPlace& place) {
  const nb::handle exception = thrown.value();
  if (place.file.empty() || !nb::hasattr(exception, "add_note")) return;
  std::string note = "at " + place.file;
  if (place.record >= 0) note += ": record " + std::to_string(place.record);
  exception.attr("add_note")(ReadableText(note));
}

}  // namespace

ReaderHandle::ReaderHandle(Reader reader, Keepers keepers)
    : reader_(std::shared_ptr<Reader>(new Reader(std::move(reader)), &DeleteUnlocked<Reader>)),
      keepers_(std::move(keepers)),
      last_(std::make_shared<LastRead>()) {
  last_->reader = reader_.Get().id();
  AllRead().Note(last_);
  NoteReader(reader_.Shared());
}

WeakList<ReaderHandle::LastRead>& ReaderHandle::AllRead() {
  static constinit OneInProcess<WeakList<LastRead>> all;
  return all.Get();
}

ReaderHandle ReaderHandle::On(Reader reader, const std::shared_ptr<ThrownKeeper>& keeper) const {
  Keepers keepers = keepers_;
  if (keeper != nullptr) keepers.push_back(keeper);
  ReaderHandle on(std::move(reader), std::move(keepers));
  on.endless_ = endless_;
  return on;
}

void ReaderHandle::MakeIndex(IndexPurpose purpose) const {
  Reader& reader = reader_.Get();
  if (HasIndex(purpose)) return;
  std::stop_source stop;
  std::promise<void> made;
  std::future<void> is_made = made.get_future();
  std::jthread maker = ThreadWithoutSignals([&] {
    try {
      reader.MakeIndex(purpose, stop.get_token());
      made.set_value();
    } catch (...) {
      made.set_exception(std::current_exception());
    }
  });
  try {
    WaitUnlocked([&](Deadline deadline) {
      return is_made.wait_until(deadline) == std::future_status::ready;
    });
  } catch (const nb::python_error&) {
    stop.request_stop();
    Unlocked([&] { maker.join(); });
    throw;
  }
  is_made.get();
  if (purpose == IndexPurpose::kReading) return;
  const std::scoped_lock lock(last_->mutex);
  last_->counted = true;
}

bool ReaderHandle::Next(Instance* instance, BatchOrigin* origin) const {
  Reader& reader = reader_.Get();
  MakeIndex(IndexPurpose::kReading);
  ReadResult result = ReadResult::kTimeout;
  WaitUnlocked([&](Deadline deadline) {
    result = reader.TryReadNext(instance, {.origin = origin, .deadline = deadline});
    return result != ReadResult::kTimeout;
  });
  if (result == ReadResult::kFailed) RaiseFailure(reader_.Get().status());
  return result == ReadResult::kRecord;
}

nb::object ReaderHandle::NextAs(const BatchForm& form) const {
  using Taken = std::optional<std::pair<nb::tuple, BatchOrigin>>;
  const auto take = [&]() -> Taken {
    Instance instance;
    BatchOrigin origin;
    if (!Next(&instance, &origin)) return std::nullopt;
    return Taken(std::in_place, ArraysOf(std::move(instance)), std::move(origin));
  };
  return HandOver(&last_->kept, form, take,
                  [&](BatchOrigin&& origin) { NoteHandedOut(std::move(origin)); });
}

std::string ReaderHandle::Position() const {
  Reader& reader = reader_.Get();
  MakeIndex(IndexPurpose::kReading);
  // A signal handler, or another thread, may ask in the middle of a call of next().
  const bool some_are_kept = last_->kept.any_uncounted();
  const std::optional<BatchOrigin> last = LastOrigin();
  // The origin of a batch says everything.
  if (!some_are_kept || !last) {
    WaitUnlocked([&](Deadline deadline) { return reader.AwaitPosition(deadline); });
  }
  return Unlocked([&] {
    if (!some_are_kept) return reader.Position();
    return last ? reader.Position(*last) : reader.StartPosition();
  });
}

void ReaderHandle::SkipBatches(std::uint64_t batches) const {
  MakeIndex(IndexPurpose::kCounting);
  if (last_->kept.any_under_way()) {  // called in the middle of a call, as Position may be
    const std::string position = Position();
    Restart([&](Reader& reader) {
      reader.Restore(position);
      reader.SkipBatches(batches);
    });
    return;
  }
  const std::uint64_t kept = last_->kept.size();
  if (batches < kept) {  // they were read before, and come first
    for (; batches > 0; --batches) {
      if (auto left_out = last_->kept.Take()) NoteHandedOut(std::move(left_out->ticket));
    }
    return;
  }
  Restart([&](Reader& reader) { reader.SkipBatches(batches - kept); });
}

std::optional<std::uint64_t> ReaderHandle::NextPass() const {
  if (const std::optional<BatchOrigin> kept = last_->kept.first()) return kept->pass;
  Reader& reader = reader_.Get();
  MakeIndex(IndexPurpose::kReading);
  std::optional<std::uint64_t> pass;
  WaitUnlocked([&](Deadline deadline) {
    return reader.TryNextPass(&pass, deadline) != ReadResult::kTimeout;
  });
  return pass;
}

bool ReaderHandle::HasNext() const {
  if (last_->kept.size() > 0) return true;
  Reader& reader = reader_.Get();
  MakeIndex(IndexPurpose::kReading);
  ReadResult result = ReadResult::kTimeout;
  WaitUnlocked([&](Deadline deadline) {
    result = reader.TryHasNext(deadline);
    return result != ReadResult::kTimeout;
  });
  return result != ReadResult::kEnd;
}

bool ReaderHandle::HasIndex(IndexPurpose purpose) const {
  const std::scoped_lock lock(last_->mutex);
  return purpose == IndexPurpose::kReading ? last_->began : last_->counted;
}

std::optional<BatchOrigin> ReaderHandle::LastOrigin() const {
  const std::scoped_lock lock(last_->mutex);
  return last_->origin;
}

void ReaderHandle::NoteHandedOut(BatchOrigin origin) const {
  const std::scoped_lock lock(last_->mutex);
  last_->origin = std::move(origin);
  last_->began = true;
}

void ReaderHandle::ForgetRead() const {
  std::vector<const void*> ids = {last_->reader};
  for (const Reader& end : reader_.Get().EndPoints()) ids.push_back(end.id());
  AllRead().ForEach([&](LastRead& read) {
    if (std::find(ids.begin(), ids.end(), read.reader) == ids.end()) return;
    read.kept.BeginAnew();
    const std::scoped_lock lock(read.mutex);
    read.origin.reset();
  });
}

void ReaderHandle::RaiseFailure(const Status& status) const {
  if (status.code() == StatusCode::kUserError) {
    try {
      RaiseThrown(status);
    } catch (const nb::python_error& thrown) {
      NotePlace(thrown, status.place());
      throw;
    }
  }
  Raise(status);
}

void ReaderHandle::RaiseThrown(const Status& status) const {
  for (const auto& keeper : keepers_) keeper->RaiseAgain(status);
}

void ReaderHandle::Close() const {
  if (reader_.ForkedSince()) return;
  last_->kept.Drop();
  Reader& reader = reader_.Get();
  const GilReleased unlocked;
  reader.Close();
}

void ReaderHandle::CloseEnds() const {
  if (reader_.ForkedSince()) return;
  Reader& reader = reader_.Get();
  const GilReleased unlocked;
  for (Reader& end : reader.EndPoints()) end.Close();
}

}  // namespace ringfeed::python
