#include "readers/parsers/example/feature_names.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace ringfeed {
namespace {

// The names in a map of the record; false if it has no such map.
bool ReadNames(const RecordSpan& record, std::uint32_t map_field, std::vector<std::string>* names) {
  const auto read_entry = [&](std::span<const std::byte> entry) {
    std::span<const std::byte> key;
    if (!ReadFeatureKey(entry, &key)) return false;
    names->emplace_back(reinterpret_cast<const char*>(key.data()), key.size());
    return true;
  };
  const auto read_map = [&](std::span<const std::byte> map) {
    return ForEachDelimited(map, 1, read_entry);
  };
  return map_field == 0 ? read_map(record.bytes())
                        : ForEachDelimited(record.bytes(), map_field, read_map);
}

}  // namespace

Refusal ExplainMissingFeature(const FeatureDialect& dialect, std::span<const FeatureField> features,
                              std::span<const FeatureField> lists, const RecordSpan& record,
                              const Status& why, const std::vector<FieldSpec>& fields) {
  for (const bool of_lists : {false, true}) {
    std::vector<std::string> names;
    if (of_lists && dialect.lists_field == 0) break;
    if (!ReadNames(record, of_lists ? dialect.lists_field : dialect.map_field, &names)) break;
    for (const FeatureField& field : of_lists ? lists : features) {
      if (field.has_default) continue;
      if (std::find(names.begin(), names.end(), field.name) != names.end()) continue;
      return MissingName((of_lists ? "feature list \"" : "feature \"") + field.name + "\"",
                         field.name, names);
    }
  }
  return RefusalOf(why, fields);
}

}  // namespace ringfeed
