#include "tools/table_rows.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "ringfeed/source.h"
#include "tools/command.h"
#include "tools/given_files.h"

#ifdef RINGFEED_WITH_ARROW
#include "ringfeed/tables/table_files.h"
#endif

namespace ringfeed::tools {

#ifdef RINGFEED_WITH_ARROW

namespace {

std::string FormatOfFile(const std::string& file) {
  using namespace std::string_view_literals;
  std::ifstream stream(file, std::ios::binary);
  if (!stream.is_open()) {
    if (file.ends_with(".parquet")) return "parquet";
    return file.ends_with(".arrow") ? "arrow" : "";
  }
  std::array<char, 8> bytes{};
  stream.read(bytes.data(), bytes.size());
  const std::string_view head(bytes.data(), static_cast<std::size_t>(stream.gcount()));
  if (head.starts_with("PAR1") || head.starts_with("PARE")) return "parquet";
  return head.starts_with("ARROW1") || head.starts_with("\xff\xff\xff\xff"sv) ? "arrow" : "";
}

}  // namespace

std::string TableFormat(const std::vector<std::string>& files, const OpenOptions& options) {
  if (!options.format.empty() || std::ranges::any_of(files, IsStreamName)) return {};
  for (const std::string& file : ExpandNames(files)) {
    if (file[file.rfind('/') + 1] != '_') return FormatOfFile(file);  // "_SUCCESS" beside them
  }
  return {};
}

Reader OpenTableRows(const std::string& format, const std::vector<std::string>& files,
                     const OpenOptions& options) {
  TableOptions table;
  table.open = options;
  return format == "parquet" ? OpenParquet(files, table) : OpenArrowIpc(files, table);
}

#else

std::string TableFormat(const std::vector<std::string>&, const OpenOptions&) { return {}; }
Reader OpenTableRows(const std::string&, const std::vector<std::string>&, const OpenOptions&) {
  throw Refuse("this build reads no tables");
}

#endif

}  // namespace ringfeed::tools
