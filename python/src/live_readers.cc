#include "live_readers.h"

#include <exception>

#include "exceptions.h"
#include "fork_guard.h"
#include "gil.h"
#include "held_object.h"
#include "live_queues.h"
#include "program_scope.h"
#include "record_writer.h"
#include "weak_list.h"

namespace nb = nanobind;

namespace ringfeed::python {
namespace {

WeakList<Reader>& TheLive() {
  static constinit OneInProcess<WeakList<Reader>> live;
  return live.Get();
}

// A reader that was given to a decorator cannot be closed itself.
void CloseEnds(const Reader& reader) {
  for (Reader& end : reader.EndPoints()) end.Close();
}

void CloseAll() {
  NoteExit();
  std::exception_ptr failure;  // of one; the others are closed all the same
  Unlocked([&] {
    CloseQueues();  // first: threads of readers may wait at one
    const auto close = [&](const Reader& reader) {
      try {
        CloseEnds(reader);
      } catch (...) {
        if (failure == nullptr) failure = std::current_exception();
      }
    };
    for (const Reader& reader : ReadersInScopes()) close(reader);
    TheLive().TakeEach(close);
    AwaitQueueCalls();
  });
  DropHeldObjects();
  DropWriters();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace

void NoteReader(const std::shared_ptr<Reader>& reader) { TheLive().Note(reader); }

void BindLiveReaders(nb::module_& module) {
  module.def("close_all", &CloseAll,
             "Closes every queue and reader of this process, lets go of the functions that they "
             "call, and discards what writers did not close: at exit.");
}

}  // namespace ringfeed::python
