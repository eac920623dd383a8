#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "ringfeed/reader.h"

namespace ringfeed::python {

// Threads of ringfeed's may call Python, so none may be left when the interpreter ends: all readers
// that are still there are closed by atexit.

/// From now on it is closed at exit, if it is there then. Thread safe.
void NoteReader(const std::shared_ptr<Reader>& reader);

/// `close_all`, which the package registers with atexit.
void BindLiveReaders(nanobind::module_& module);

}  // namespace ringfeed::python
