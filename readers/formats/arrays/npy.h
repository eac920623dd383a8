#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/arrays/array_framer.h"
#include "readers/formats/format.h"

namespace ringfeed {

/// NumPy's array file, versions 1 to 3, as numpy.lib.format documents it: a magic, a version, and a
/// Python dict of the type, the order and the shape; then the elements. A record is a row along the
/// first dimension in C order, its elements in the byte order of the file; a scalar is one row.
/// A writer must be told what a row is, and takes records of its bytes.
struct NpyRow {
  std::string descr;                 ///< of an element, as NumPy writes it: "<f4"
  std::vector<std::uint64_t> shape;  ///< of a row; {}: a single element
  std::size_t bytes = 0;             ///< 0: not told
};

/// "", "f4", "u1[28,28]": what follows "npy:".
Status ParseNpyRow(std::string_view text, NpyRow* row);

std::shared_ptr<const Format> NpyFormat(const NpyRow& row);
RecordWriterResult NewNpyWriter(std::unique_ptr<OutputFile> file, const NpyRow& row);

/// What the header at the start of a file says. Not supported: Python objects, structured types,
/// rows without any bytes.
ArrayHeader ReadNpyHeader(std::span<const std::byte> head);

}  // namespace ringfeed
