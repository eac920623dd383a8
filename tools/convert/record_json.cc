#include "tools/convert/record_json.h"

#include "ringfeed/formats.h"
#include "tools/convert/feature_json.h"
#include "tools/json_value.h"
#include "tools/report.h"

namespace ringfeed::tools {
namespace {

using Bytes = std::span<const std::byte>;

Status NotOne(const char* what) {
  return Status(StatusCode::kDamaged, std::string("the record is no ") + what +
                                          "; name its fields by --parse, or print it --as text");
}

Status ExampleToJson(Bytes record, std::string* json) {
  return AppendExampleJson(record, json) ? Status() : NotOne("tf.Example");
}

Status OFRecordToJson(Bytes record, std::string* json) {
  return AppendOFRecordJson(record, json) ? Status() : NotOne("OFRecord");
}

Status LineToJson(Bytes record, std::string* json) {
  const std::string_view line(reinterpret_cast<const char*>(record.data()), record.size());
  if (!Json::accept(line)) return NotOne("JSON");
  *json += line;
  return {};
}

Status SampleToJson(Bytes record, std::string* json) {
  TarSample sample;
  Status status = SplitTarSample(record, &sample);
  if (!status.ok()) return status;
  *json += "{\"__key__\": ";
  AppendJsonKey(sample.key, json);
  for (const TarMember& member : sample.members) {
    *json += ", ";
    AppendJsonKey(member.extension, json);
    *json += ": ";
    AppendJsonBytes(member.bytes, json);
  }
  *json += '}';
  return {};
}

bool IsBytes(const FieldSpec& field) {
  return field.dtype == DType::kUInt8 && field.shape == Shape{-1};
}

}  // namespace

RecordToJson JsonOfFormat(std::string_view format) {
  const std::string_view family = format.substr(0, format.find(':'));
  if (family == "tfrecord") return ExampleToJson;
  if (family == "ofrecord") return OFRecordToJson;
  if (family == "jsonl") return LineToJson;
  if (family == "tar") return SampleToJson;
  return nullptr;
}

void AppendRowJson(const std::vector<FieldSpec>& fields, const Instance& row, std::string* json) {
  *json += '{';
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (f > 0) *json += ", ";
    AppendJsonKey(fields[f].name, json);
    *json += ": ";
    if (!row[f].lod.empty()) {
      AppendJsonSequences(row[f], json);
    } else if (IsBytes(fields[f])) {
      AppendJsonBytes({row[f].data, row[f].bytes}, json);
    } else {
      AppendJsonArray(row[f].dtype, row[f].shape, row[f].data, json);
    }
  }
  *json += '}';
}

}  // namespace ringfeed::tools
