#include "readers/parsers/example/nested_features.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "readers/parsers/example/feature_names.h"
#include "readers/parsers/example/feature_scanner.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/lod_columns.h"

namespace ringfeed {
namespace {

Status Bad(const FeatureField& field, const std::string& why) {
  return Status(StatusCode::kDamaged, "feature \"" + field.name + "\" " + why);
}

// A nested feature without its inner level: the field of one of its sequences.
WantedFeature SequenceOf(WantedFeature wanted) {
  wanted.spec.shape.erase(wanted.spec.shape.begin());
  wanted.sequence = false;
  return wanted;
}

struct NestedScratch final : LoDScratch {
  NestedScratch(std::size_t column_count, std::size_t maps, std::size_t features)
      : LoDScratch(column_count), scans(maps), places(features) {}

  std::vector<FeatureScanner::Memory> scans;  // of each map
  std::vector<FieldLocation> places;          // of the row's features in the record
  FeatureValues values;
  std::vector<std::byte> elements;  // of the feature at hand
  std::vector<std::uint64_t> ends;  // of its sequences, in elements' bytes
  LocatedStorage storage;
};

class NestedFeaturesParser final : public LoDColumnsParser {
 public:
  NestedFeaturesParser(const FeatureDialect& dialect, const std::vector<WantedFeature>& features);

  std::string name() const override { return dialect_.parser; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<NestedScratch>(fields_.size(), scanners_.size(), features_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return static_cast<NestedScratch*>(scratch)->storage.Take();
  }
  Refusal Explain(const RecordSpan& record, const Status& why) const override {
    const std::span<const FeatureField> fields(features_);
    return ExplainMissingFeature(dialect_, fields.first(lists_), fields.subspan(lists_), record,
                                 why, fields_);
  }

 private:
  void Add(const WantedFeature& wanted);
  Status LocateRow(const RecordSpan& record, FieldLocation* locations, NestedScratch* own) const;
  Status LocatePlain(std::size_t feature, FieldLocation* column, NestedScratch* own) const;
  Status LocateNested(std::size_t feature, FieldLocation* columns, NestedScratch* own) const;
  Status ReadBytesList(const FeatureField& field, const FieldLocation& at,
                       NestedScratch* own) const;
  Status ReadSteps(const FeatureField& field, const FieldLocation& at, NestedScratch* own) const;
  Status ReadStep(const FeatureField& field, std::span<const std::byte> feature,
                  NestedScratch* own) const;

  const FeatureDialect& dialect_;
  std::vector<FeatureField> features_;  // of nested ones that of a sequence
  std::vector<bool> nested_;
  std::size_t lists_ = 0;  // the first of the features that are lists of features
  std::vector<FeatureScanner> scanners_;
};

NestedFeaturesParser::NestedFeaturesParser(const FeatureDialect& dialect,
                                           const std::vector<WantedFeature>& features)
    : dialect_(dialect) {
  gives_records_ = true;
  for (const WantedFeature& wanted : features) Add(wanted);
  using Map = FeatureScanner::Map;
  const std::span<const FeatureField> fields(features_);
  scanners_.emplace_back(dialect, Map::kFeatures, fields.first(lists_));
  if (dialect.lists_field != 0) {
    scanners_.emplace_back(dialect, Map::kLists, fields.subspan(lists_));
  }
}

void NestedFeaturesParser::Add(const WantedFeature& wanted) {
  const auto refuse = [&](const std::string& why) {
    Refuse(dialect_.record + (" parser: \"" + wanted.spec.name + "\" " + why));
  };
  const bool nested = IsNested(wanted);
  FeatureField field = MakeFeatureField(dialect_, nested ? SequenceOf(wanted) : wanted);
  if (nested && dialect_.converts) {
    refuse("has two levels: lists of bytes, and steps, of a tf.Example alone do");
  }
  if (nested && !wanted.sequence && field.kind != FeatureKind::kBytes) {
    refuse("has two levels, and a list of numbers is one: [-1]");
  }
  if (nested && field.has_default && !field.missing.empty()) {
    refuse("has two levels: its default is \"\", a row without a sequence");
  }
  if (!AddRows({wanted.spec.name, wanted.spec.dtype, wanted.spec.shape}, nested)) {
    refuse("is named twice");
  }
  if (!wanted.sequence) ++lists_;
  features_.push_back(std::move(field));
  nested_.push_back(nested);
}

void NestedFeaturesParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                                  Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<NestedScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    Status status = LocateRow(rows[row], locations + row * fields_.size(), own);
    if (!status.ok()) failures->push_back({row, std::move(status)});
  }
}

Status NestedFeaturesParser::LocateRow(const RecordSpan& record, FieldLocation* locations,
                                       NestedScratch* own) const {
  FieldLocation* places = own->places.data();
  for (std::size_t i = 0; i < scanners_.size(); ++i) {
    if (!scanners_[i].Scan(record, places, &own->scans[i])) {
      return Status(StatusCode::kDamaged, std::string("the record is no ") + dialect_.record);
    }
    places += scanners_[i].fields();
  }
  for (std::size_t f = 0; f < features_.size(); ++f) {
    Status status = nested_[f] ? LocateNested(f, locations, own) : LocatePlain(f, locations, own);
    if (!status.ok()) return status;
    locations += nested_[f] ? 2 : 1;
  }
  return {};
}

Status TooLarge(const FeatureField& field) {
  return Status(StatusCode::kUnsupported,
                "feature \"" + field.name + "\" has 4 GiB or more, which is not supported");
}

Status NestedFeaturesParser::LocatePlain(std::size_t feature, FieldLocation* column,
                                         NestedScratch* own) const {
  const FeatureField& field = features_[feature];
  const FieldLocation& at = own->places[feature];
  if (field.step == nullptr && StandsAsItIs(field, at)) {
    return LocateAt(at.data, at.bytes, at.bytes / field.unit_bytes, column) ? Status()
                                                                            : TooLarge(field);
  }
  own->elements.clear();
  std::size_t count = 0;
  Status status = ReadFeatureField(dialect_, field, at, &own->values, &own->elements, &count);
  if (!status.ok()) return status;
  const std::size_t bytes = own->elements.size();
  std::byte* const to = own->storage.Allocate(bytes);
  std::copy_n(own->elements.data(), bytes, to);
  return LocateAt(to, bytes, bytes / field.unit_bytes, column) ? Status() : TooLarge(field);
}

Status NestedFeaturesParser::LocateNested(std::size_t feature, FieldLocation* columns,
                                          NestedScratch* own) const {
  const FeatureField& field = features_[feature];
  const FieldLocation& at = own->places[feature];
  own->elements.clear();
  own->ends.clear();
  if (at.form == kFormMissing) {
    if (!field.has_default) return Bad(field, "is missing and has no default");
  } else {
    const bool steps = feature >= lists_;
    Status status = steps ? ReadSteps(field, at, own) : ReadBytesList(field, at, own);
    if (!status.ok()) return status;
  }
  return LocateSequences(own->elements, own->ends, field.unit_bytes, &own->storage, columns)
             ? Status()
             : TooLarge(field);
}

// All values of a list of bytes, each a sequence.
Status NestedFeaturesParser::ReadBytesList(const FeatureField& field, const FieldLocation& at,
                                           NestedScratch* own) const {
  FeatureValues& values = own->values;
  values.Clear();
  const std::span<const std::byte> run{at.data, at.bytes};
  if (at.form == kFormBytes) {
    values.kind = FeatureKind::kBytes;
    values.all_bytes.push_back(run);
  } else if (at.form == kFormNoBytes) {
    values.kind = FeatureKind::kBytes;
  } else if (at.form == kFormEntry || at.form == kFormFeature) {
    values.keeps_all_bytes = true;
    const auto read = at.form == kFormEntry ? ReadFeatureEntry : ReadFeature;
    const bool good = read(dialect_, run, 0, &values);
    values.keeps_all_bytes = false;
    if (!good) return Bad(field, "is malformed");
  } else {
    values.kind = static_cast<FeatureKind>(at.form);
  }
  if (values.kind == FeatureKind::kUnset) {
    return field.has_default ? Status() : Bad(field, "is missing and has no default");
  }
  if (values.kind != FeatureKind::kBytes) {
    return Bad(field, std::string("holds ") + FeatureKindName(values.kind) + " where " +
                          FeatureKindName(FeatureKind::kBytes) + " are expected");
  }
  for (const std::span<const std::byte> value : values.all_bytes) {
    if (value.size() % field.unit_bytes != 0) {
      return Bad(field, "holds " + std::to_string(value.size()) + " elements where a multiple of " +
                            std::to_string(field.unit_bytes) + " is expected");
    }
    own->elements.insert(own->elements.end(), value.begin(), value.end());
    own->ends.push_back(own->elements.size());
  }
  return {};
}

// A step that holds nothing is an empty sequence, as for TensorFlow.
Status NestedFeaturesParser::ReadStep(const FeatureField& field, std::span<const std::byte> feature,
                                      NestedScratch* own) const {
  FieldLocation at;
  if (!LocateUsualFeature(dialect_, feature, &at)) {
    if (feature.size() > std::numeric_limits<std::uint32_t>::max()) return TooLarge(field);
    if (!ReadFeature(dialect_, feature, 0, &own->values)) return Bad(field, "is malformed");
    const bool is_set = own->values.kind != FeatureKind::kUnset;
    at = {feature.data(), static_cast<std::uint32_t>(feature.size()), 0,
          is_set ? kFormFeature : kFormMissing};
  }
  if (at.form == kFormMissing) return {};
  if (StandsAsItIs(field, at)) {
    own->elements.insert(own->elements.end(), at.data, at.data + at.bytes);
    return {};
  }
  std::size_t count = 0;
  return ReadFeatureField(dialect_, field, at, &own->values, &own->elements, &count);
}

Status NestedFeaturesParser::ReadSteps(const FeatureField& field, const FieldLocation& at,
                                       NestedScratch* own) const {
  Status status;
  const auto read_step = [&](std::span<const std::byte> feature) {
    status = ReadStep(field, feature, own);
    if (status.ok()) own->ends.push_back(own->elements.size());
    return status.ok();
  };
  const auto read_list = [&](std::span<const std::byte> list) {
    return ForEachDelimited(list, 1, read_step);
  };
  const std::span<const std::byte> bytes{at.data, at.bytes};
  const bool well_formed =
      at.form == kFormSteps ? read_list(bytes) : ForEachDelimited(bytes, 2, read_list);
  if (!status.ok()) {
    return Status(status.code(),
                  status.message() + ", in step " + std::to_string(own->ends.size()));
  }
  return well_formed ? Status() : Bad(field, "is malformed");
}

}  // namespace

bool IsNested(const WantedFeature& feature) {
  const Shape& shape = feature.spec.shape;
  return shape.size() >= 2 && shape[0] < 0 && shape[1] < 0;
}

std::shared_ptr<const Parser> MakeNestedFeatureParser(const FeatureDialect& dialect,
                                                      const std::vector<WantedFeature>& features) {
  return std::make_shared<const NestedFeaturesParser>(dialect, features);
}

}  // namespace ringfeed
