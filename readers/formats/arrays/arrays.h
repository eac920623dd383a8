#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "readers/formats/stepped_framer.h"

namespace ringfeed {

/// One array in a file: a header that says how many rows follow, then rows of one size. Rows are
/// back to back or overlap.
struct ArrayLayout {
  std::uint64_t header_bytes = 0;
  std::uint64_t row_bytes = 1;
  /// From one row's start to the next one's, at most row_bytes; 0: row_bytes. Overlapping rows go
  /// on as long as each has data that no earlier row has.
  std::uint64_t stride_bytes = 0;
  std::uint64_t stride() const { return stride_bytes == 0 ? row_bytes : stride_bytes; }
  /// How many bytes of data are left if `left` bytes, less than a row, follow the last row's
  /// stride. Bytes that the last row already has do not count. `any`: there is a row.
  std::uint64_t TailOf(std::uint64_t left, bool any) const {
    const std::uint64_t had = any ? row_bytes - stride() : 0;
    return left - std::min(left, had);
  }
  std::uint64_t data_bytes = kUnknownSize;  ///< kUnknownSize: up to the end of the file
  /// If the data are no multiple of a row, the last record is shorter, in whole items. With
  /// drop_tail it is left out.
  bool short_tail = false;
  bool drop_tail = false;
  std::uint64_t item_bytes = 1;
  /// The dimensions of an array that is stored with its first one running fastest. Empty if a row
  /// is one piece of the file. Other rows are gathered, so the whole array must be held.
  std::vector<std::uint64_t> column_major{};
};

/// What a format finds at the start of its file.
struct ArrayHeader {
  Status status;               ///< it names no place
  std::size_t need_bytes = 0;  ///< more of the file is needed to tell
  ArrayLayout layout;
  std::optional<FileElements> elements{};  ///< what the file says its elements are, if it does
  std::vector<std::uint64_t> shape{};      ///< of the array, if it says so
};
using ReadArrayHeader = std::function<ArrayHeader(std::span<const std::byte> head)>;

/// Copies a row of a `column_major` array, whose elements begin at `data`, in C order: the last
/// index runs fastest. In the file the first one does.
void GatherRow(const ArrayLayout& layout, const std::byte* data, std::uint64_t row, std::byte* to);

/// A file that is one array; a format's own class says how its header is read. Each row is a
/// record. A file that ends before its array does, or goes on after it, is damaged. All whole rows
/// are delivered. A gathered array has no index: its rows cannot be read by themselves.
class ArrayFormat : public Format {
 public:
  explicit ArrayFormat(ReadArrayHeader read_header) : read_header_(std::move(read_header)) {}

  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const final;
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const final;
  /// By arithmetic, once `head` has the header.
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> head) const final;

 private:
  const ReadArrayHeader read_header_;
};

/// The rows of a file: so many bytes each, and so far from one to the next.
struct RowsInFile {
  std::uint64_t bytes = 0;
  std::uint64_t stride = 0;
};
/// Appends the rows from `at` on that end up to `end`, which is at hand, and start before the
/// limit. Returns the place after the last one.
std::uint64_t AppendRows(const RowsInFile& rows, std::uint64_t at, std::uint64_t end,
                         FrameCall* call);

/// Why rows of so many bytes are not read: kResourceExhausted if they exceed the longest record.
Status CheckRowBytes(std::uint64_t row_bytes, const FramerOptions& options);

/// Records of one size at one distance, the last one perhaps shorter: by arithmetic.
class FixedIndex final : public RecordIndex {
 public:
  struct Layout {
    FixedUnits units{};
    std::uint64_t records = 0;
    std::uint64_t file_bytes = 0;       ///< the last record's bytes end here at the latest
    std::vector<IndexDamage> damage{};  ///< in no record, except the lost ones
    bool lost = false;                  ///< no record can be had, whatever is read
    bool framed = false;                ///< the framer looks at each record that is read
  };
  explicit FixedIndex(Layout layout) : layout_(std::move(layout)) {}

  std::uint64_t records() const override { return layout_.records; }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  /// None if the last record is shorter, if all are lost, or the framer has to look at each.
  std::optional<FixedUnits> fixed() const override;
  bool units_are_payload() const override {
    return !layout_.lost && !layout_.framed &&
           layout_.units.stride_bytes == layout_.units.record_bytes;
  }
  std::span<const IndexDamage> damage() const override { return layout_.damage; }

 private:
  const Layout layout_;
};

/// Rows of one size: `header_bytes` that are passed over, then rows of `row_bytes`. Each row starts
/// `stride_bytes` after the start of the one before. The last row needs no padding.
struct FixedRowsLayout {
  std::uint64_t row_bytes = 0;
  std::uint64_t header_bytes = 0;
  std::uint64_t stride_bytes = 0;  ///< at least row_bytes
};

/// Reads "160" or "160,header=128,stride=192" (what follows "rows:").
Status ParseFixedRowsLayout(std::string_view text, FixedRowsLayout* layout);

std::shared_ptr<const Format> FixedRowsFormat(const FixedRowsLayout& layout);

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

/// What stands in front of the elements of such an array, version 1; empty if NumPy lacks the type.
std::string NpyHeaderOf(DType dtype, const Shape& shape);

/// What the header at the start of such a file says. Not supported: Python objects, structured
/// types, rows without any bytes.
ArrayHeader ReadNpyHeader(std::span<const std::byte> head);

/// The file is one record, an empty file an empty record. Needs the whole file in one piece.
std::shared_ptr<const Format> RawFileFormat();

}  // namespace ringfeed
