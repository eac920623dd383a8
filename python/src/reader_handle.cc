#include "reader_handle.h"

#include <nanobind/stl/string.h>

#include <exception>
#include <future>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "gil.h"
#include "interrupt.h"
#include "live_readers.h"
#include "text.h"

namespace nb = nanobind;

namespace ringfeed::python {

namespace {

// The last handle on a chain joins its threads, which may wait for the lock.
void DeleteUnlocked(Reader* reader) {
  if (!Py_IsInitialized() || PyGILState_Check() == 0) {
    delete reader;
    return;
  }
  const GilReleased unlocked;
  delete reader;
}

// Says in the traceback which record a user's function failed at, from Python 3.11 on.
void NotePlace(const nb::python_error& thrown, const DataPlace& place) {
  const nb::handle exception = thrown.value();
  if (place.file.empty() || !nb::hasattr(exception, "add_note")) return;
  std::string note = "at " + place.file;
  if (place.record >= 0) note += ": record " + std::to_string(place.record);
  exception.attr("add_note")(ReadableText(note));
}

}  // namespace

ReaderHandle::ReaderHandle(Reader reader, Keepers keepers)
    : reader_(std::shared_ptr<Reader>(new Reader(std::move(reader)), &DeleteUnlocked)),
      keepers_(std::move(keepers)) {
  NoteReader(reader_.Shared());
}

ReaderHandle ReaderHandle::On(Reader reader, const std::shared_ptr<ThrownKeeper>& keeper) const {
  Keepers keepers = keepers_;
  if (keeper != nullptr) keepers.push_back(keeper);
  return ReaderHandle(std::move(reader), std::move(keepers));
}

void ReaderHandle::MakeIndex(IndexPurpose purpose) const {
  Reader& reader = reader_.Get();
  if (purpose == IndexPurpose::kReading && Began()) return;
  std::stop_source stop;
  std::promise<void> made;
  std::future<void> is_made = made.get_future();
  std::jthread maker([&] {
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
}

bool ReaderHandle::Next(Instance* instance) const {
  Reader& reader = reader_.Get();
  MakeIndex(IndexPurpose::kReading);
  ReadResult result = ReadResult::kTimeout;
  BatchOrigin origin;
  WaitUnlocked([&](Deadline deadline) {
    result = reader.TryReadNext(instance, &origin, deadline);
    return result != ReadResult::kTimeout;
  });
  if (result == ReadResult::kFailed) RaiseFailure();
  if (result == ReadResult::kRecord) SetLastOrigin(std::move(origin));
  return result == ReadResult::kRecord;
}

bool ReaderHandle::Began() const {
  const std::scoped_lock lock(last_->mutex);
  return last_->began;
}

std::optional<BatchOrigin> ReaderHandle::LastOrigin() const {
  const std::scoped_lock lock(last_->mutex);
  return last_->origin;
}

void ReaderHandle::SetLastOrigin(std::optional<BatchOrigin> origin) const {
  const std::scoped_lock lock(last_->mutex);
  last_->origin = std::move(origin);
  last_->began = last_->began || last_->origin.has_value();
}

void ReaderHandle::RaiseFailure() const {
  const Status status = reader_.Get().status();
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
