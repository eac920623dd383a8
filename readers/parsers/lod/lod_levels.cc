#include "readers/parsers/lod/lod_levels.h"

#include <memory>
#include <utility>

namespace ringfeed {
namespace {

// Rows that stand in one batch have one owner: then there is nothing to join.
void KeepAlive(const std::shared_ptr<const void>& other, Tensor* tensor) {
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  if (other == tensor->owner) return;
  tensor->owner = std::make_shared<const Both>(std::move(tensor->owner), other);
}

}  // namespace

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
    if (parser.role(f) == FieldRole::kLodValues) tensor.lod.clear();
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
