#include "tools/feed/position_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <span>

#include "readers/formats/writing/output_file.h"
#include "readers/formats/writing/output_target.h"
#include "ringfeed/status.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

}  // namespace

PositionSummary SummaryOf(const std::string& position) {
  try {
    const Json json = Json::parse(position);
    PositionSummary summary;
    if (!json.at("batch").is_number_unsigned()) {
      throw Error(Status(StatusCode::kInvalidArgument, "this is no position: its batch is none"));
    }
    summary.batch = json.at("batch").get<std::uint64_t>();
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

void CheckPositionFile(const std::string& path) {
  std::string target;
  const Status status = FindOutputTarget(path, &target);
  if (!status.ok()) throw Error(status);
}

void WritePositionFile(const std::string& path, const std::string& position) {
  OutputFile file(path);
  file.Sync();
  Status status = file.Open();
  const std::string line = position + "\n";
  if (status.ok()) status = file.Append(std::as_bytes(std::span(line)));
  if (status.ok()) status = file.Commit();
  if (!status.ok()) {
    throw Error(Status(status.code(), "the position " + path + ": " + status.message()));
  }
}

}  // namespace ringfeed::tools
