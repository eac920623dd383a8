#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"

namespace ringfeed {

/// One array in a file: rows of one size, back to back, behind a header that says how many.
struct ArrayLayout {
  std::uint64_t header_bytes = 0;
  std::uint64_t row_bytes = 1;
  std::uint64_t data_bytes = kUnknownSize;  ///< kUnknownSize: up to the end of the file
  /// Where the data are no multiple of a row, the last record is shorter, in whole items; or, with
  /// drop_tail, left out.
  bool short_tail = false;
  bool drop_tail = false;
  std::uint64_t item_bytes = 1;
  /// Dimensions of an array that is stored with its first one running fastest; empty where rows
  /// stand in one piece. Such rows are gathered, so that all of it must be held.
  std::vector<std::uint64_t> column_major{};
};

/// What a format finds at the start of its file.
struct ArrayHeader {
  Status status;               ///< without a place
  std::size_t need_bytes = 0;  ///< more of the file is needed to tell
  ArrayLayout layout;
  std::optional<FileElements> elements{};  ///< where the file says what they are
};
using ReadArrayHeader = std::function<ArrayHeader(std::span<const std::byte> head)>;

/// Delivers each row as a record. A file that ends before its array does, or goes on behind it, is
/// damaged; all whole rows are delivered.
std::unique_ptr<Framer> NewArrayFramer(const FramerOptions& options, ReadArrayHeader read_header);

/// Its rows by themselves. Not of an array that is gathered.
std::unique_ptr<UnitFramer> NewArrayUnitFramer(const FramerOptions& options);
/// Where its rows stand: by arithmetic, once `head` has the header. kUnsupported for an array that
/// is gathered.
OwnIndexResult ArrayIndex(const FramerOptions& options, std::span<const std::byte> head,
                          const ReadArrayHeader& read_header);

}  // namespace ringfeed
