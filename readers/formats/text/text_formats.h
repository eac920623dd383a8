#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "readers/formats/format.h"

namespace ringfeed {

/// "lines": a record is a line without its end, which is LF or CRLF. A last line without an end is
/// a record as well, an empty line is an empty record; an empty file has none.
std::shared_ptr<const Format> LinesFormat();

/// "jsonl": lines, each of which should be a JSON value (JSON Lines, NDJSON); that is not checked
/// here. Detected by its names and by a first line that is an object. Lines of blanks alone are no
/// records, and a byte order mark at the file's start is passed over.
std::shared_ptr<const Format> JsonLinesFormat();

/// Whether that is the name of a format of text files: lines, jsonl, csv, tsv.
bool IsTextFormat(std::string_view format_name);

/// How the rows of a CSV file are separated.
struct CsvLayout {
  char delimiter = ',';
  bool header = false;  ///< the first row names the columns: it is passed over
  /// That row, without its end. A file whose first row has the same names in another order, or
  /// others too, has its rows put in this one's order (Format::OfFile). One that lacks a name is
  /// damaged from there on. Empty: the names mean nothing.
  std::string columns{};
};

/// "", "header", "header=HEX", "delimiter=;", "delimiter=tab,header", …: what follows "csv:" or
/// "tsv:". HEX is CsvLayout::columns. The delimiter is one byte, or tab, space, comma. What the
/// text does not set keeps its value in `layout`.
Status ParseCsvLayout(std::string_view text, CsvLayout* layout);

/// Rows per RFC 4180: a record is the bytes of a row without its end (LF or CRLF), quotes and all.
/// A field that starts with a quote may hold delimiters, line ends and doubled quotes; in other
/// fields a quote is a byte like any other. Empty lines are no rows, and a byte order mark at the
/// file's start is passed over. A quote that is open at the end of the file is damage, from its row
/// on. The first row is a record too unless the layout has a header: nothing in a file tells.
std::shared_ptr<const Format> CsvFormat(const CsvLayout& layout);

}  // namespace ringfeed
