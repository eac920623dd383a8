#include "readers/parsers/example/feature_parser.h"
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

constexpr FeatureDialect kSequenceExample = [] {
  FeatureDialect dialect = kExample;
  dialect.parser = "sequence";
  dialect.record = "tf.SequenceExample";
  dialect.types_are = "a tf.SequenceExample holds uint8 (bytes), float32, int64 or int32";
  dialect.lists_field = 2;
  return dialect;
}();

}  // namespace

std::shared_ptr<const Parser> ExampleParser(std::vector<FeatureSpec> features) {
  std::vector<WantedFeature> wanted;
  for (FeatureSpec& feature : features) wanted.push_back({std::move(feature)});
  return MakeFeatureParser(kExample, wanted);
}

std::shared_ptr<const Parser> SequenceExampleParser(std::vector<FeatureSpec> context,
                                                    std::vector<FeatureSpec> sequences) {
  std::vector<WantedFeature> wanted;
  for (FeatureSpec& feature : context) wanted.push_back({std::move(feature)});
  for (FeatureSpec& feature : sequences) {
    wanted.push_back({.spec = std::move(feature), .sequence = true});
  }
  return MakeFeatureParser(kSequenceExample, wanted);
}

}  // namespace ringfeed
