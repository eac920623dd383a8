#pragma once

#include <memory>

#include "readers/formats/array_framer.h"
#include "readers/formats/format.h"

namespace ringfeed {

/// NumPy's array file, versions 1 to 3, as numpy.lib.format documents it: a magic, a version, and a
/// Python dict of the type, the order and the shape; then the elements. A record is a row along the
/// first dimension in C order, its elements in the byte order of the file; a scalar is one row.
std::shared_ptr<const Format> NpyFormat();

/// What the header at the start of a file says. Not supported: Python objects, structured types,
/// rows without any bytes.
ArrayHeader ReadNpyHeader(std::span<const std::byte> head);

}  // namespace ringfeed
