#include "record_writer.h"

#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "bytes_of.h"
#include "exceptions.h"
#include "fork_guard.h"
#include "gil.h"
#include "ringfeed/formats.h"
#include "text.h"
#include "weak_list.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

// A writer, until it is closed or discarded. Thread safe; called without Python's lock.
class Output {
 public:
  Output(std::string path, std::unique_ptr<RecordWriter> writer)
      : path_(std::move(path)), writer_(std::move(writer)) {}

  const std::string& path() const { return path_; }

  Status Write(std::span<const std::byte> record) {
    const std::scoped_lock lock(mutex_);
    if (writer_ == nullptr) return over_;
    Status status = writer_->Write(record);
    records_ += status.ok() ? 1 : 0;
    return status;
  }
  Status Flush() {
    const std::scoped_lock lock(mutex_);
    return writer_ == nullptr ? over_ : writer_->Flush();
  }
  /// Does nothing if it is closed already. Discards the output on failure.
  Status Close() {
    const std::scoped_lock lock(mutex_);
    if (writer_ == nullptr) return {};
    Status status = writer_->Close();
    writer_.reset();
    return status;
  }
  /// Whether there was something to discard; later calls return `over`.
  bool Discard(Status over) {
    const std::scoped_lock lock(mutex_);
    if (writer_ == nullptr) return false;
    over_ = std::move(over);
    writer_.reset();
    return true;
  }
  std::uint64_t records() const {
    const std::scoped_lock lock(mutex_);
    return records_;
  }
  bool closed() const {
    const std::scoped_lock lock(mutex_);
    return writer_ == nullptr;
  }

 private:
  const std::string path_;
  mutable std::mutex mutex_;  // guards the following
  std::unique_ptr<RecordWriter> writer_;
  std::uint64_t records_ = 0;
  Status over_{StatusCode::kInvalidArgument, "the writer was closed; open another one"};
};

WeakList<Output>& TheOpen() {
  static constinit OneInProcess<WeakList<Output>> open;
  return open.Get();
}

// Throws no exception, since nothing could catch it.
void WarnOfDiscarded(const std::string& path) {
  const nb::error_scope raised;  // a pending exception stays pending
  const std::string text = std::string(ReadableText(path).c_str()) +
                           ": the writer was not closed, so there is no file; use it by \"with\", "
                           "or call close()";
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) PyErr_WriteUnraisable(nullptr);
}

class WriterHandle {
 public:
  WriterHandle(const std::string& path, std::string format)
      : format_(std::move(format)), output_(Open(path, format_)) {
    TheOpen().Note(output_.Shared());
  }
  ~WriterHandle() {
    if (output_.ForkedSince() || !Py_IsInitialized()) return;
    Output& output = output_.Get();
    if (DiscardIn(output)) WarnOfDiscarded(output.path());
  }
  WriterHandle(const WriterHandle&) = delete;
  WriterHandle& operator=(const WriterHandle&) = delete;

  void Write(nb::handle record) const {
    Output& output = output_.Get();
    if (PyObject_CheckBuffer(record.ptr()) == 0) throw nb::next_overload();  // of another type
    const BytesOf buffer(record);
    RaiseUnlessOk(Unlocked([&] { return output.Write(buffer.bytes()); }));
  }
  void Flush() const {
    Output& output = output_.Get();
    RaiseUnlessOk(Unlocked([&] { return output.Flush(); }));
  }
  void Close() const {
    if (output_.ForkedSince()) return;
    Output& output = output_.Get();
    RaiseUnlessOk(Unlocked([&] { return output.Close(); }));
  }
  void Discard() const {
    if (!output_.ForkedSince()) DiscardIn(output_.Get());
  }
  void Exit(nb::handle type) const {
    if (type.is_none()) {
      Close();
    } else {
      Discard();
    }
  }

  std::uint64_t records() const {
    Output& output = output_.Get();
    return Unlocked([&] { return output.records(); });
  }
  bool closed() const {
    Output& output = output_.Get();
    return Unlocked([&] { return output.closed(); });
  }
  nb::str path() const { return FileNameText(output_.Get().path()); }
  const std::string& format() const { return format_; }

 private:
  static std::shared_ptr<Output> Open(const std::string& path, const std::string& format) {
    RecordWriterResult opened = Unlocked([&] { return OpenRecordWriter(path, format); });
    RaiseUnlessOk(opened.status);
    return std::make_shared<Output>(path, std::move(opened.writer));
  }
  static void RaiseUnlessOk(const Status& status) {
    if (!status.ok()) Raise(status);
  }
  static bool DiscardIn(Output& output) {
    const GilReleased unlocked;
    return output.Discard(
        Status(StatusCode::kInvalidArgument, "the writer was discarded; open another one"));
  }

  std::string format_;
  OwnedHere<Output> output_;
};

}  // namespace

void DropWriters() {
  TheOpen().TakeEach([](Output& output) {
    const bool dropped = Unlocked(
        [&] { return output.Discard(Status(StatusCode::kCancelled, "the program ends")); });
    if (dropped) WarnOfDiscarded(output.path());
  });
}

void BindRecordWriter(nb::module_& module) {
  nb::class_<WriterHandle>(
      module, "RecordWriter",
      "Writes records into one file, which appears under its name when close succeeds. A context "
      "manager: its end closes it, an exception discards it. Any number of threads may write, each "
      "record as a whole; nobody waits with Python's lock. After a failure every call raises it. "
      "In "
      "a forked child close and discard do nothing, the other calls raise RuntimeError.")
      .def(nb::init<const std::string&, std::string>(), nb::arg("path"), nb::arg("format"))
      .def("write", &WriterHandle::Write, nb::arg("record"),
           nb::sig("def write(self, record: bytes | bytearray | memoryview | typing.Any) -> None"),
           "Appends one record: bytes, or whatever exports a buffer in C order, which may be used "
           "again after this. Raises TypeError for what is none, InvalidArgument for what the "
           "format cannot hold, IoError.")
      .def("flush", &WriterHandle::Flush,
           "Hands over what is buffered, in a format of chunks the chunk at hand as it is.")
      .def("close", &WriterHandle::Close,
           "Writes out what is buffered and gives the file its name. If that fails there is no "
           "file, and what it failed of is raised. More calls do nothing.")
      .def("discard", &WriterHandle::Discard,
           "Ends it without a file. Does nothing if it is closed.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __enter__(self) -> RecordWriter"))
      .def(
          "__exit__",
          [](const WriterHandle& writer, nb::handle type, nb::handle, nb::handle) {
            writer.Exit(type);
          },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: object, value: object, traceback: object) -> None"))
      .def_prop_ro("records", &WriterHandle::records, "How many records were written.")
      .def_prop_ro("closed", &WriterHandle::closed, "Whether it was closed or discarded.")
      .def_prop_ro("path", &WriterHandle::path, "The file's name.")
      .def_prop_ro("format", &WriterHandle::format, "The format, as it was given.");
}

}  // namespace ringfeed::python
