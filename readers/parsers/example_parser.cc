#include "readers/parsers/feature_parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

// TensorFlow's example.proto and feature.proto.
constexpr FeatureDialect kExample = {
    .parser = "example",
    .record = "tf.Example",
    .types_are = "a tf.Example holds uint8 (bytes), float32, int64 or int32",
    .map_field = 1,
    .kinds = {FeatureKind::kUnset, FeatureKind::kBytes, FeatureKind::kFloats, FeatureKind::kInt64s},
    .types = {{{DType::kUInt8, FeatureKind::kBytes},
               {DType::kFloat32, FeatureKind::kFloats},
               {DType::kInt64, FeatureKind::kInt64s},
               {DType::kInt32, FeatureKind::kInt64s}}}};

}  // namespace

std::shared_ptr<const Parser> ExampleParser(std::vector<FeatureSpec> features) {
  std::vector<WantedFeature> wanted;
  for (FeatureSpec& feature : features) wanted.push_back({std::move(feature)});
  return MakeFeatureParser(kExample, wanted);
}

}  // namespace ringfeed
