#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "base/scoped_descriptor.h"
#include "io/data_file.h"
#include "readers/formats/mds/mds.h"
#include "readers/formats/mds/shard.h"
#include "readers/formats/samples/columns.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNumberBytes = SampleTable::kNumberBytes;
/// Of a shard, which is kept in memory until its samples are counted.
constexpr std::uint64_t kMostShard = std::uint64_t{1} << 30;

constexpr std::string_view kDataColumn = "data\tbytes\n";

// What a shard says of itself, and the table of it (streaming/base/format/mds/writer.py).
Json AboutShard(std::string_view columns) {
  Json names = Json::array();
  Json encodings = Json::array();
  Json sizes = Json::array();
  for (const SampleColumn& column : ColumnsOf(columns)) {
    const SampleEncoding encoding = EncodingOf(SampleFamily::kMds, column.encoding);
    names.push_back(column.name);
    encodings.push_back(column.encoding);
    sizes.push_back(encoding.variable() ? Json() : Json(encoding.value_bytes()));
  }
  return {{"column_names", std::move(names)},
          {"column_encodings", std::move(encodings)},
          {"column_sizes", std::move(sizes)},
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

class MdsShardWriter final : public FileRecordWriter {
 public:
  MdsShardWriter(std::unique_ptr<OutputFile> file, SampleLayout layout)
      : FileRecordWriter(std::move(file)), layout_(std::move(layout)) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    if (!layout_.columns.empty() && !layout_.Fills(record)) {
      return Status(StatusCode::kInvalidArgument,
                    "the record is no sample of MDS: " + std::string(SampleLayout::kFillsNot));
    }
    if (record.size() > kMostShard || samples_.size() > kMostShard - record.size()) {
      return Status(StatusCode::kInvalidArgument,
                    "a shard of MDS is written with up to 1 GiB: write fewer records into each "
                    "(ringfeed convert --records-per-file)");
    }
    if (layout_.columns.empty()) AppendNumber(record.size(), &samples_);
    samples_.insert(samples_.end(), record.begin(), record.end());
    ends_.push_back(samples_.size());
    return {};
  }
  Status Finish() override {
    const std::string about =
        AboutShard(layout_.columns.empty() ? kDataColumn : layout_.columns).dump();
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

  const SampleLayout layout_;
  std::vector<std::byte> samples_;
  std::vector<std::uint64_t> ends_;  ///< of each sample
};

// What a shard that was written here says of itself, with the number of its samples and its bytes.
Status DescribeShard(const std::string& shard, Json* about) {
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(shard, &descriptor, &facts);
  if (!status.ok()) return status;
  const ScopedDescriptor closed(descriptor);
  std::array<std::byte, 2 * kNumberBytes> start{};
  std::size_t got = 0;
  status = ReadWhole(descriptor, 0, start, &got);
  if (!status.ok()) return status;
  const auto samples = LoadLe<std::uint32_t>(start.data());
  const auto first = LoadLe<std::uint32_t>(start.data() + kNumberBytes);
  const std::uint64_t text_at = SampleTable::TableEnd(samples);
  const auto bytes = static_cast<std::uint64_t>(facts.st_size);
  const std::uint64_t text_end = std::min<std::uint64_t>(first, bytes);
  std::string text(text_end - std::min(text_at, text_end), '\0');
  status = ReadWhole(descriptor, text_at, std::as_writable_bytes(std::span(text)), &got);
  if (!status.ok()) return status;
  *about = Json::parse(text, nullptr, false);
  if (!about->is_object()) {
    return Status(StatusCode::kDamaged, "no columns are named there", {shard, -1, -1});
  }
  (*about)["samples"] = samples;
  (*about)["raw_data"] = {{"bytes", bytes}, {"hashes", Json::object()}};
  (*about)["zip_data"] = nullptr;
  return {};
}

class MdsEncoder final : public RowEncoder {
 public:
  explicit MdsEncoder(std::string columns) : columns_(std::move(columns)) {
    for (const SampleColumn& column : ColumnsOf(columns_)) {
      encodings_.push_back(EncodingOf(SampleFamily::kMds, column.encoding));
    }
  }

  std::string format() const override { return "mds:" + columns_; }

  Status Encode(const Instance& row, std::span<const std::byte>* record) override {
    sample_.clear();
    values_.clear();
    for (std::size_t f = 0; f < encodings_.size(); ++f) {
      const std::size_t begin = values_.size();
      if (encodings_[f].kind == SampleEncoding::Kind::kArray) {
        AppendMdsHeader(row[f].shape, &values_);
      }
      values_.insert(values_.end(), row[f].data, row[f].data + row[f].bytes);
      if (encodings_[f].variable()) AppendNumber(values_.size() - begin, &sample_);
    }
    sample_.insert(sample_.end(), values_.begin(), values_.end());
    *record = sample_;
    return {};
  }

 private:
  const std::string columns_;
  std::vector<SampleEncoding> encodings_;
  std::vector<std::byte> values_;
  std::vector<std::byte> sample_;
};

}  // namespace

RecordWriterResult NewMdsShardWriter(std::unique_ptr<OutputFile> file, const SampleLayout& layout) {
  return {Status(), std::make_unique<MdsShardWriter>(std::move(file), layout)};
}

RowEncoderResult NewMdsEncoder(const std::vector<FieldSpec>& fields) {
  std::string columns;
  for (const FieldSpec& field : fields) {
    const SampleColumn column = MdsColumnOf(field);
    if (column.encoding.empty() || column.name.find_first_of("\t\n") != std::string::npos) {
      return {Status(StatusCode::kUnsupported, "field \"" + field.name + "\" of type " +
                                                   std::string(DTypeName(field.dtype)) +
                                                   " can be no column of MDS"),
              nullptr};
    }
    columns += ColumnsText({&column, 1});
  }
  return {Status(), std::make_unique<MdsEncoder>(std::move(columns))};
}

Status WriteMdsTable(const std::string& table, const std::vector<std::string>& shards) {
  Json listed = Json::array();
  for (const std::string& shard : shards) {
    Json about;
    Status status = DescribeShard(NameBeside(table, shard), &about);
    if (!status.ok()) return status;
    if (about["samples"] == 0) continue;  // which no writer of MDS makes
    about["raw_data"]["basename"] = shard;
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
