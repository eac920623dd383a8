#include "ringfeed/journal.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exceptions.h"
#include "fork_guard.h"
#include "gil.h"
#include "module_parts.h"
#include "reader_handle.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

DeliveryRule RuleNamed(const std::string& name) {
  if (name == "once") return DeliveryRule::kOnce;
  if (name == "at_most_once") return DeliveryRule::kAtMostOnce;
  if (name == "any_times") return DeliveryRule::kAnyTimes;
  throw nb::value_error("a rule is \"once\", \"at_most_once\" or \"any_times\"");
}

// ringfeed/journal.py gives all of them.
JournalStart StartOf(const nb::dict& from) {
  JournalStart start;
  start.batch = nb::cast<std::uint64_t>(from["batch"]);
  start.rank = nb::cast<int>(from["rank"]);
  start.ranks = nb::cast<int>(from["ranks"]);
  start.replica = nb::cast<int>(from["replica"]);
  start.replicas = nb::cast<int>(from["replicas"]);
  start.batch_rows = nb::cast<std::uint64_t>(from["batch_rows"]);
  start.drop_remainder = nb::cast<bool>(from["drop_remainder"]);
  start.split_by_files = nb::cast<bool>(from["split_by_files"]);
  start.rule = RuleNamed(nb::cast<std::string>(from["rule"]));
  start.data = nb::cast<std::string>(from["data"]);
  start.launch = nb::cast<std::string>(from["launch"]);
  start.epoch = nb::cast<std::uint64_t>(from["epoch"]);
  start.total_records = nb::cast<std::uint64_t>(from["total_records"]);
  start.subset = nb::cast<bool>(from["subset"]);
  start.records = nb::cast<std::vector<std::uint64_t>>(from["records"]);
  return start;
}

// A journal until it is closed. Thread safe; called without Python's lock.
class Trail {
 public:
  Trail(std::string path, const JournalStart& start)
      : writer_(std::in_place, std::move(path), start) {}

  template <typename Note>
  Status With(Note&& note) {
    const std::scoped_lock lock(mutex_);
    if (!writer_) return {StatusCode::kInvalidArgument, "the journal was closed; open another one"};
    return note(*writer_);
  }
  void Close() {
    const std::scoped_lock lock(mutex_);
    writer_.reset();
  }

 private:
  std::mutex mutex_;  // guards the writer
  std::optional<JournalWriter> writer_;
};

class JournalHandle {
 public:
  JournalHandle(std::string path, const nb::dict& start)
      : trail_(Open(std::move(path), StartOf(start))) {}

  void Append(const ReaderHandle& reader) const {
    const std::optional<BatchOrigin> origin = reader.LastOrigin();
    if (!origin) throw nb::value_error("the loop has no batch yet: append() stands after one");
    Note([&](JournalWriter& writer) { return writer.Append(*origin); });
  }
  void End(std::uint64_t batches) const {
    Note([&](JournalWriter& writer) { return writer.End(batches); });
  }
  void Damage(std::uint64_t damaged) const {
    Note([&](JournalWriter& writer) { return writer.Damage(damaged); });
  }
  void Close() const {
    if (trail_.ForkedSince()) return;
    Trail& trail = trail_.Get();
    Unlocked([&] { trail.Close(); });
  }

 private:
  static std::shared_ptr<Trail> Open(std::string path, const JournalStart& start) {
    return Unlocked([&] { return std::make_shared<Trail>(std::move(path), start); });
  }
  template <typename Function>
  void Note(Function&& note) const {
    Trail& trail = trail_.Get();
    const Status status = Unlocked([&] { return trail.With(note); });
    if (!status.ok()) Raise(status);
  }

  OwnedHere<Trail> trail_;
};

}  // namespace

void BindJournal(nb::module_& module) {
  nb::class_<JournalHandle>(
      module, "JournalWriter",
      "The file of a Journal. Any thread may call; nobody waits with Python's "
      "lock. A forked child cannot use its parent's.")
      .def(nb::init<std::string, nb::dict>(), nb::arg("path"), nb::arg("start"),
           nb::sig("def __init__(self, path: str, start: dict[str, typing.Any]) -> None"))
      .def("append", &JournalHandle::Append, nb::arg("reader"),
           "Notes the batch that this reader handed out last.")
      .def("end", &JournalHandle::End, nb::arg("batches"),
           "Notes the end of the data, after so many batches.")
      .def("damage", &JournalHandle::Damage, nb::arg("damaged"),
           "Notes how many damaged records and ranges the run reported.")
      .def("close", &JournalHandle::Close, "Closes the file; more calls do nothing.");
}

}  // namespace ringfeed::python
