#include "live_readers.h"

#include <mutex>
#include <vector>

#include "fork_guard.h"
#include "held_object.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

struct Live {
  std::mutex mutex;
  std::vector<std::weak_ptr<Reader>> readers;
  std::size_t sweep_at = 64;  // entries, before those that are gone are dropped
};

Live& TheLive() {
  static auto* live = new Live;  // outlasts whatever ends at exit
  return *live;
}

// What was given to a decorator cannot be closed itself.
void CloseEnds(const Reader& reader) {
  for (Reader& end : reader.EndPoints()) end.Close();
}

void CloseAll() {
  if (ForkCount() > 0) return;
  std::vector<std::weak_ptr<Reader>> readers;
  {
    const std::scoped_lock lock(TheLive().mutex);
    readers.swap(TheLive().readers);
  }
  {
    const nb::gil_scoped_release unlocked;
    for (const std::weak_ptr<Reader>& noted : readers) {
      if (const std::shared_ptr<Reader> reader = noted.lock()) CloseEnds(*reader);
    }
  }
  DropHeldObjects();
}

}  // namespace

void NoteReader(const std::shared_ptr<Reader>& reader) {
  Live& live = TheLive();
  const std::scoped_lock lock(live.mutex);
  if (live.readers.size() >= live.sweep_at) {
    std::erase_if(live.readers, [](const auto& noted) { return noted.expired(); });
    live.sweep_at = 2 * live.readers.size() + 64;
  }
  live.readers.push_back(reader);
}

void BindLiveReaders(nb::module_& module) {
  module.def(
      "close_all", &CloseAll,
      "Closes every reader of this process, and lets go of the functions that they call: at exit.");
}

}  // namespace ringfeed::python
