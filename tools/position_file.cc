#include "tools/position_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "ringfeed/status.h"
#include "tools/report_json.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

// What is written to `path` and synced.
int WriteSynced(const std::string& path, const std::string& text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  const ssize_t written = write(descriptor, text.data(), text.size());
  int error = 0;
  if (written < 0) {
    error = errno;
  } else if (static_cast<std::size_t>(written) < text.size()) {
    error = ENOSPC;
  } else if (fsync(descriptor) != 0) {
    error = errno;
  }
  close(descriptor);
  return error;
}

}  // namespace

PositionSummary SummaryOf(const std::string& position) {
  try {
    const Json json = Json::parse(position);
    PositionSummary summary;
    if (!json.at("batch").is_number_unsigned()) {
      throw Error(Status(StatusCode::kInvalidArgument, "this is no position: its batch is none"));
    }
    summary.batch = json.at("batch").get<std::uint64_t>();
    summary.run = json.value("run", std::uint64_t{0});
    Json data = json.value("data", Json::object());
    if (!data.is_object()) data = Json{{"text", data}};
    summary.records = data.value("records", std::uint64_t{0});
    data.erase("records");
    summary.data = data.dump();
    return summary;
  } catch (const Json::exception& failure) {
    throw Error(Status(StatusCode::kInvalidArgument,
                       std::string("this is no position: ") + failure.what()));
  }
}

std::string ReadPositionFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(StatusFromErrno(errno, "open the position " + path));
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad() || text.size() > kMostBytes) {
    throw Error(Status(StatusCode::kInvalidArgument, path + " holds no position"));
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

void WritePositionFile(const std::string& path, const std::string& position) {
  const std::string temporary = path + ".tmp-" + std::to_string(getpid());
  int error = WriteSynced(temporary, position + "\n");
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(temporary.c_str());
  throw Error(StatusFromErrno(error, "write the position " + path));
}

}  // namespace ringfeed::tools
