#include "readers/parsers/parser.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "base/refuse.h"

namespace ringfeed {

namespace {

// Rows in one batch have one owner: then there is nothing to join.
void KeepAlive(const std::shared_ptr<const void>& other, Tensor* tensor) {
  using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  if (other == tensor->owner) return;
  tensor->owner = std::make_shared<const Both>(std::move(tensor->owner), other);
}

// Formats whose records are of one kind, and the parsers that take it. Others may hold anything.
// (OFRecord's is left out: a name like part-00000 says too little beside a damaged first record.)
struct RecordKind {
  std::string_view format;
  std::array<std::string_view, 2> parsers;
};
constexpr RecordKind kKinds[] = {
    {"tar", {"tar", ""}},        {"mds", {"mds", ""}},           {"litdata", {"litdata", "tokens"}},
    {"jsonl", {"jsonl", ""}},    {"csv", {"csv", ""}},           {"tsv", {"csv", ""}},
    {"npy", {"rows", "tokens"}}, {"tokens", {"rows", "tokens"}}, {"megatron", {"rows", "tokens"}}};
// Parsers that take one kind of record. A user's own, and the raw one, may take any.
constexpr std::string_view kOfOneKind[] = {"tar",     "jsonl",    "csv",  "ofrecord",
                                           "example", "sequence", "rows", "tokens",
                                           "lod",     "instance", "mds",  "litdata"};

template <typename List>
bool Holds(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

FormatCheck FormatCheckOf(const std::shared_ptr<const Parser>& parser) {
  if (parser == nullptr || !Holds(kOfOneKind, parser->name())) return nullptr;
  return [name = parser->name()](std::string_view format) {
    const auto* const kind =
        std::find_if(std::begin(kKinds), std::end(kKinds),
                     [&](const RecordKind& one) { return one.format == format; });
    if (kind == std::end(kKinds) || Holds(kind->parsers, name)) return Status();
    return Status(StatusCode::kInvalidArgument,
                  "the file is of the format " + std::string(format) +
                      ", no record of which is one of the parser \"" + name +
                      "\"\nlist files of one kind, or name the format if it is another (format=, "
                      "--format)");
  };
}

std::size_t FindRaggedField(const Parser& parser, const std::string& name, const std::string& who) {
  const auto refuse = [&](const std::string& why) { Refuse(who + ": " + why); };
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
