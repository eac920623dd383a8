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

namespace ringfeed {

/// One array in a file: rows of one size, back to back or overlapping, behind a header that says
/// how many.
struct ArrayLayout {
  std::uint64_t header_bytes = 0;
  std::uint64_t row_bytes = 1;
  /// From one row's start to the next one's, at most row_bytes; 0: as much. Overlapping rows go on
  /// as long as each has data that none before it has.
  std::uint64_t stride_bytes = 0;
  std::uint64_t stride() const { return stride_bytes == 0 ? row_bytes : stride_bytes; }
  /// What is left of the data where `left` bytes, less than a row, stand behind the last row's
  /// stride: without what that row has already. `any`: there is a row.
  std::uint64_t TailOf(std::uint64_t left, bool any) const {
    const std::uint64_t had = any ? row_bytes - stride() : 0;
    return left - std::min(left, had);
  }
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

/// Why rows of so many bytes are not read: kResourceExhausted where records may not be so long.
Status CheckRowBytes(std::uint64_t row_bytes, const FramerOptions& options);
/// Its rows by themselves. Not of an array that is gathered.
std::unique_ptr<UnitFramer> NewArrayUnitFramer(const FramerOptions& options);
/// Where its rows stand: by arithmetic, once `head` has the header. kUnsupported for an array that
/// is gathered.
OwnIndexResult ArrayIndex(const FramerOptions& options, std::span<const std::byte> head,
                          const ReadArrayHeader& read_header);

/// Records of one size at one distance, the last one perhaps shorter: by arithmetic.
class FixedIndex final : public RecordIndex {
 public:
  struct Layout {
    FixedUnits units{};
    std::uint64_t records = 0;
    std::uint64_t file_bytes = 0;       ///< where the last record's bytes end at the latest
    std::vector<IndexDamage> damage{};  ///< no record's, but for those that are lost
    bool lost = false;                  ///< no record can be had, whatever is read
  };
  explicit FixedIndex(Layout layout) : layout_(std::move(layout)) {}

  std::uint64_t records() const override { return layout_.records; }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  /// None where the last record is shorter, or all are lost.
  std::optional<FixedUnits> fixed() const override;
  std::span<const IndexDamage> damage() const override { return layout_.damage; }

 private:
  const Layout layout_;
};

/// Rows of one size behind each other: `header_bytes` that are passed over, then rows of
/// `row_bytes`, each starting `stride_bytes` after the one before. The last row needs no padding.
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

/// The file is one record, an empty file an empty record. Needs the whole file in one piece.
std::shared_ptr<const Format> RawFileFormat();

}  // namespace ringfeed
