#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "ringfeed/reader.h"

namespace ringfeed::python {

// Threads of ringfeed's may call Python, so none may be left when the interpreter ends: atexit
// closes all readers that still exist.

/// From now on the reader is closed at exit, if it still exists then. Thread safe.
void NoteReader(const std::shared_ptr<Reader>& reader);

/// `close_all`, which the package registers with atexit.
void BindLiveReaders(nanobind::module_& module);

}  // namespace ringfeed::python
