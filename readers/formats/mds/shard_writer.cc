#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "base/scoped_descriptor.h"
#include "io/data_file.h"
#include "readers/formats/mds/mds.h"
#include "readers/formats/mds/shard.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNumberBytes = SampleTable::kNumberBytes;
/// Of a shard, which is kept in memory until its samples are counted.
constexpr std::uint64_t kMostShard = std::uint64_t{1} << 30;

// What a shard says of itself, and the table of it (streaming/base/format/mds/writer.py).
Json AboutShard() {
  return {{"column_names", Json::array({"data"})},
          {"column_encodings", Json::array({"bytes"})},
          {"column_sizes", Json::array({nullptr})},
          {"compression", nullptr},
          {"format", "mds"},
          {"hashes", Json::array()},
          {"size_limit", kMostShard},
          {"version", 2}};
}

void AppendNumber(std::uint64_t number, std::vector<std::byte>* to) {
  to->resize(to->size() + kNumberBytes);
  StoreLe(to->data() + to->size() - kNumberBytes, static_cast<std::uint32_t>(number));
}

/// One shard. A record is a sample of one column.
class MdsShardWriter final : public FileRecordWriter {
 public:
  using FileRecordWriter::FileRecordWriter;

 private:
  Status Append(std::span<const std::byte> record) override {
    if (record.size() > kMostShard || samples_.size() > kMostShard - record.size()) {
      return Status(StatusCode::kInvalidArgument,
                    "a shard of MDS is written with up to 1 GiB: write fewer records into each "
                    "(ringfeed convert --records-per-file)");
    }
    AppendNumber(record.size(), &samples_);
    samples_.insert(samples_.end(), record.begin(), record.end());
    ends_.push_back(samples_.size());
    return {};
  }
  Status Finish() override {
    const std::string about = AboutShard().dump();
    const std::uint64_t first = SampleTable::TableEnd(ends_.size()) + about.size();
    if (first + samples_.size() > std::numeric_limits<std::uint32_t>::max()) {
      return Status(StatusCode::kInvalidArgument, "a shard of MDS has less than 4 GiB");
    }
    std::vector<std::byte> head;
    AppendNumber(ends_.size(), &head);
    AppendNumber(first, &head);
    for (const std::uint64_t end : ends_) AppendNumber(first + end, &head);
    const auto text = std::as_bytes(std::span(about));
    head.insert(head.end(), text.begin(), text.end());
    Status status = file().Append(head);
    return status.ok() ? file().Append(samples_) : status;
  }

  std::vector<std::byte> samples_;
  std::vector<std::uint64_t> ends_;  ///< of each sample
};

// How many samples and bytes a shard has.
Status MeasureShard(const std::string& shard, std::uint64_t* samples, std::uint64_t* bytes) {
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(shard, &descriptor, &facts);
  if (!status.ok()) return status;
  const ScopedDescriptor closed(descriptor);
  std::array<std::byte, kNumberBytes> count{};
  std::size_t got = 0;
  status = ReadWhole(descriptor, 0, count, &got);
  *samples = LoadLe<std::uint32_t>(count.data());
  *bytes = static_cast<std::uint64_t>(facts.st_size);
  return status;
}

}  // namespace

RecordWriterResult NewMdsShardWriter(std::unique_ptr<OutputFile> file) {
  return {Status(), std::make_unique<MdsShardWriter>(std::move(file))};
}

Status WriteMdsTable(const std::string& table, const std::vector<std::string>& shards) {
  Json listed = Json::array();
  for (const std::string& shard : shards) {
    std::uint64_t samples = 0;
    std::uint64_t bytes = 0;
    Status status = MeasureShard(NameBeside(table, shard), &samples, &bytes);
    if (!status.ok()) return status;
    if (samples == 0) continue;  // which no writer of MDS makes
    Json about = AboutShard();
    about["raw_data"] = {{"basename", shard}, {"bytes", bytes}, {"hashes", Json::object()}};
    about["zip_data"] = nullptr;
    about["samples"] = samples;
    listed.push_back(std::move(about));
  }
  if (listed.empty()) {
    const bool is_gone = unlink(table.c_str()) == 0 || errno == ENOENT;
    return is_gone ? Status() : StatusFromErrno(errno, "remove " + table);
  }
  const std::string text = Json{{"shards", std::move(listed)}, {"version", 2}}.dump();
  OutputFile file(table);
  Status status = file.Open();
  if (status.ok()) status = file.Append(std::as_bytes(std::span(text)));
  return status.ok() ? file.Commit() : status;
}

}  // namespace ringfeed
