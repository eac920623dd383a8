#include "readers/parsers/parser.h"

namespace ringfeed {

namespace {

// Rows that stand in one batch have one owner: then there is nothing to join.
void KeepAlive(const std::shared_ptr<const void>& other, Tensor* tensor) {
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  if (other == tensor->owner) return;
  tensor->owner = std::make_shared<const Both>(std::move(tensor->owner), other);
}

}  // namespace

std::size_t FindRaggedField(const Parser& parser, const std::string& name, const std::string& who) {
  const auto refuse = [&](const std::string& why) {
    throw Error(Status(StatusCode::kInvalidArgument, who + ": " + why));
  };
  std::string names;
  for (std::size_t f = 0; f < parser.fields().size(); ++f) {
    const FieldSpec& field = parser.fields()[f];
    if (parser.role(f) == FieldRole::kLodLevel) continue;
    names += (names.empty() ? "" : ", ") + field.name;
    if (field.name != name) continue;
    if (parser.role(f) == FieldRole::kNestedRows) {
      refuse("field \"" + name +
             "\" has two levels of LoD: a length of its rows would be of which?");
    }
    if (parser.role(f) == FieldRole::kLodValues) {
      refuse("field \"" + name + "\" has levels of LoD: its sequences are not rows");
    }
    if (!field.ragged()) {
      refuse("field \"" + name + "\" is " + ShapeToString(field.shape) +
             ", not ragged: its first dimension must be -1");
    }
    return f;
  }
  refuse("there is no field \"" + name + "\"; the chain has " + names);
  return 0;
}

std::vector<FieldSpec> TensorFields(const Parser& parser) {
  std::vector<FieldSpec> fields;
  for (std::size_t f = 0; f < parser.fields().size(); ++f) {
    if (parser.role(f) != FieldRole::kLodLevel) fields.push_back(parser.fields()[f]);
  }
  return fields;
}

Instance JoinLevels(const Parser& parser, Instance columns) {
  if (!parser.has_lod()) return columns;
  Instance tensors;
  std::size_t levels = 0;  // in front of this field
  for (std::size_t f = 0; f < columns.size(); ++f) {
    if (parser.role(f) == FieldRole::kLodLevel) {
      ++levels;
      continue;
    }
    Tensor tensor = std::move(columns[f]);
    if (parser.role(f) != FieldRole::kTensor) tensor.lod.clear();
    if (parser.role(f) == FieldRole::kNestedRows) {
      const Tensor& top = columns[f - levels];
      tensor.lod = top.lod;  // none of a single row
      KeepAlive(top.owner, &tensor);
    }
    for (; levels > 0; --levels) {
      const Tensor& level = columns[f - levels];
      tensor.lod.push_back({reinterpret_cast<const std::int64_t*>(level.data - kLevelLeadBytes),
                            (level.bytes + kLevelLeadBytes) / sizeof(std::int64_t)});
      KeepAlive(level.owner, &tensor);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace ringfeed
