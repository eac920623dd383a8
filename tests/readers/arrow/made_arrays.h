#pragma once

// Arrays and streams as a producer of Arrow's would make them, with values that a test knows.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ringfeed/tables/arrow_structures.h"

namespace ringfeed {

/// A column as its structures describe it, to be changed by tests before it is exported. Buffers
/// are exactly as long as the specification asks, so that a sanitizer sees a read past them.
struct MadeColumn {
  std::string format;
  std::string name;
  std::int64_t length = 0;
  std::int64_t offset = 0;
  std::int64_t null_count = 0;
  std::vector<std::optional<std::string>> buffers;  ///< none: a null pointer
  std::vector<MadeColumn> children;
  std::vector<MadeColumn> dictionary;  ///< one, or none
};

/// How often structures were made and released, over all threads of a test.
struct MadeCounts {
  int made = 0;
  int released = 0;
};

/// Exports it, sharing nothing with `column`.
ArrowSchema MakeSchema(const MadeColumn& column);
ArrowArray MakeArray(const MadeColumn& column, MadeCounts* counts = nullptr);

/// A row's bytes as a batch has them; none for a null.
using MadeValue = std::optional<std::string>;

/// A column and what its rows are.
struct MadeRows {
  MadeColumn column;
  std::vector<MadeValue> values;
  std::size_t row_bytes = 0;  ///< of values of a fixed size
};

/// Random rows of a kind: "i", "b", "d:5,0", "u", "vu", "+l i", "+w:3 +w:2 f", "dictionary u",
/// "struct l": with nulls if `nulls`, at a random offset, with garbage where nobody may look. If
/// `null_elements`, lists have some, which count as zeros in the values.
MadeRows MakeRows(const std::string& kind, std::int64_t rows, bool nulls, std::mt19937_64* random,
                  bool null_elements = false);
/// A structure of these columns, as the arrays of a stream are.
MadeColumn StructOf(std::vector<MadeColumn> members, std::int64_t rows);

/// A stream of these arrays, all of the first one's type; after them a failure, if there is one.
ArrowArrayStream MakeStream(std::vector<MadeColumn> arrays, std::string failure = {},
                            MadeCounts* counts = nullptr);

}  // namespace ringfeed
