#include "readers/parsers/example/feature_parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

// OneFlow's oneflow.record_pb2.
constexpr FeatureDialect kOFRecord = {
    .parser = "ofrecord",
    .record = "OFRecord",
    .types_are = "an OFRecord gives float32, float64, int8, int32, int64 or uint8",
    .map_field = 0,
    .kinds = {FeatureKind::kUnset, FeatureKind::kBytes, FeatureKind::kFloats, FeatureKind::kDoubles,
              FeatureKind::kInt32s, FeatureKind::kInt64s},
    .types = {{{DType::kUInt8, FeatureKind::kBytes},
               {DType::kInt8, FeatureKind::kBytes},
               {DType::kFloat32, FeatureKind::kFloats},
               {DType::kFloat64, FeatureKind::kDoubles},
               {DType::kInt32, FeatureKind::kInt32s},
               {DType::kInt64, FeatureKind::kInt64s}}},
    .converts = true};

}  // namespace

std::shared_ptr<const Parser> OFRecordParser(std::vector<OFRecordFeatureSpec> features) {
  std::vector<WantedFeature> wanted;
  for (OFRecordFeatureSpec& feature : features) {
    wanted.push_back({{std::move(feature.name), feature.dtype, std::move(feature.shape),
                       std::move(feature.missing)},
                      feature.truncate});
  }
  return MakeFeatureParser(kOFRecord, wanted);
}

}  // namespace ringfeed
