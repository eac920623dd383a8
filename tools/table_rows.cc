#include "tools/table_rows.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include "ringfeed/source.h"
#include "tools/command.h"
#include "tools/given_files.h"
#include "tools/option_values.h"

#ifdef RINGFEED_WITH_ARROW
#include "ringfeed/tables/table_files.h"
#endif

namespace ringfeed::tools {
namespace {

#ifdef RINGFEED_WITH_ARROW

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

std::string FormatOfTable(const std::vector<std::string>& files, const OpenOptions& options) {
  if (!options.format.empty() || std::ranges::any_of(files, IsStreamName)) return {};
  for (const std::string& file : ExpandNames(files)) {
    if (file[file.rfind('/') + 1] != '_') return FormatOfFile(file);  // "_SUCCESS" beside them
  }
  return {};
}

#else

std::string FormatOfTable(const std::vector<std::string>&, const OpenOptions&) { return {}; }

#endif

}  // namespace

void AddColumnsOption(CLI::App* app, TableOptions* tables) {
  app->add_option("--columns", tables->columns,
                  "of a table: those that are read, as id,image.bytes; default: all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAMES");
}

void AddTableOptions(CLI::App* app, TableOptions* tables) {
  AddColumnsOption(app, tables);
  AddChoice(app, "--nulls", &tables->nulls.on_null,
            {{"fail", OnNull::kFail}, {"default", OnNull::kDefault}, {"mask", OnNull::kMask}},
            "of a table: a row with a null is damaged; or 0, or an empty row, stands for it; mask: "
            "and a field NAME_valid tells which are none");
}

std::string TableFormat(const std::vector<std::string>& files, const OpenOptions& options,
                        const TableOptions& tables) {
  std::string format = FormatOfTable(files, options);
  const bool said = !tables.columns.empty() || tables.nulls.on_null != OnNull::kFail;
  if (!said || !format.empty()) return format;
  throw Refuse("--columns and --nulls are of tables (Parquet, Arrow), and " + files.front() +
               " is none that this build reads");
}

Reader OpenTableRows([[maybe_unused]] const std::string& format,
                     [[maybe_unused]] const std::vector<std::string>& files,
                     const OpenOptions& options, TableOptions tables) {
  tables.open = options;
#ifdef RINGFEED_WITH_ARROW
  return format == "parquet" ? OpenParquet(files, tables) : OpenArrowIpc(files, tables);
#else
  throw Refuse("this build reads no tables");
#endif
}

}  // namespace ringfeed::tools
