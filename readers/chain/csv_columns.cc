#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/refuse.h"
#include "readers/formats/format.h"
#include "readers/formats/text/text_formats.h"
#include "ringfeed/decorators.h"

namespace ringfeed {

namespace {

/// A format's text, taken apart: "csv:delimiter=;+gzip".
struct CsvText {
  CsvLayout layout;
  std::string compression;  ///< "+gzip", or empty
};

CsvText TakeApart(const std::vector<std::string>& names, const std::string& format) {
  std::string_view text = format;
  const std::string& first = names.front();
  const bool is_tsv = first.ends_with(".tsv") || first.find(".tsv.") != std::string::npos;
  if (text.empty()) text = is_tsv ? "tsv" : "csv";
  CsvText parts;
  const std::size_t plus = std::min(text.rfind('+'), text.size());
  // "delimiter=+" is no compression.
  if (plus > 0 && plus + 1 < text.size() && text[plus - 1] != '=') {
    parts.compression = text.substr(plus);
    text = text.substr(0, plus);
  }
  const std::string_view family = text.substr(0, text.find(':'));
  if (family != "csv" && family != "tsv") {
    Refuse("the columns are named in files of csv or tsv, not of \"" + format + "\"");
  }
  if (family == "tsv") parts.layout.delimiter = '\t';
  text.remove_prefix(std::min(family.size() + 1, text.size()));
  const Status status = ParseCsvLayout(text, &parts.layout);
  if (!status.ok()) throw Error(status);
  return parts;
}

}  // namespace

CsvColumns ReadCsvColumns(const std::vector<std::string>& names, const OpenOptions& options) {
  if (names.empty()) Refuse("the list of files is empty");
  for (const std::string& name : names) {
    if (!IsStreamName(name)) continue;
    Refuse("\"" + name + "\" is a stream, of which the first row comes once: name its columns");
  }
  CsvText parts = TakeApart(names, options.format);
  parts.layout.header = false;
  parts.layout.columns.clear();
  // Reads the first row of the first file that has one, whatever the reader's order.
  OpenOptions open;
  open.format = std::string(CsvFormat(parts.layout)->name()) + parts.compression;
  open.cycle = 1;
  open.threads = 1;
  open.max_record_bytes = options.max_record_bytes;
  open.io = options.io;
  open.arena = options.arena;
  Reader rows = OpenFiles(names, open);
  Instance row;
  const ReadResult result = rows.TryReadNext(&row);
  if (result == ReadResult::kFailed) throw Error(rows.status());
  if (result == ReadResult::kEnd) Refuse("none of the files has a row that names the columns");
  CsvColumns columns;
  columns.header.assign(reinterpret_cast<const char*>(row[0].data), row[0].bytes);
  parts.layout.header = true;
  parts.layout.columns = columns.header;
  columns.format = std::string(CsvFormat(parts.layout)->name()) + parts.compression;
  const FormatResult found = FindFormat(columns.format);
  if (!found.status.ok()) throw Error(found.status);
  return columns;
}

}  // namespace ringfeed
