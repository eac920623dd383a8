#include "readers/formats/data_set_table.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "io/data_file.h"
#include "io/remote/remote_source.h"

namespace ringfeed {

namespace fs = std::filesystem;

Status BadTable(const std::string& table, StatusCode code, const std::string& why) {
  return Status(code, "the data set's index " + why, {table, -1, -1});
}

Status ReadDataSetTable(const std::string& table, std::string* text) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  if (IsRemote(table)) return ReadObject(table, kMostBytes, text);
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(table, &descriptor, &facts);
  if (!status.ok()) return status;
  const auto bytes = static_cast<std::uint64_t>(facts.st_size);
  std::size_t got = 0;
  if (bytes > kMostBytes) {
    status = BadTable(table, StatusCode::kUnsupported, "has more than 1 GiB");
  } else {
    text->resize(static_cast<std::size_t>(bytes));
    status = ReadWhole(descriptor, 0, std::as_writable_bytes(std::span(*text)), &got);
    text->resize(got);
  }
  close(descriptor);
  return status;
}

std::string NameBeside(const std::string& table, const fs::path& name) {
  if (IsRemote(table)) return FolderOfAddress(table) + name.string();
  return (fs::path(table).parent_path() / name).string();
}

bool LeadsBelow(const fs::path& name) {
  return !name.empty() && name.is_relative() && name.native().find('\0') == std::string::npos &&
         std::none_of(name.begin(), name.end(), [](const fs::path& part) { return part == ".."; });
}

}  // namespace ringfeed
