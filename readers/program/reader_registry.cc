#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "readers/chain/graph.h"
#include "readers/chain/reader_access.h"
#include "readers/program/built_in_readers.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

[[noreturn]] void Refuse(const std::string& message) {
  throw Error(Status(StatusCode::kInvalidArgument, message));
}

void CheckName(std::string_view what, const std::string& name) {
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const bool digit_first = !name.empty() && name[0] >= '0' && name[0] <= '9';
  if (name.empty() || digit_first || !std::all_of(name.begin(), name.end(), fits)) {
    Refuse("a " + std::string(what) + " is named by an identifier, not \"" + name + "\"");
  }
}

/// A value as `type`, whole numbers as numbers; false where it is of another type.
bool ConvertTo(AttributeType type, AttributeValue* value) {
  const auto* whole = std::get_if<std::int64_t>(value);
  if (type == AttributeType::kNumber && whole != nullptr) *value = static_cast<double>(*whole);
  return value->index() == static_cast<std::size_t>(type);
}

void CheckKind(ReaderKind* kind) {
  CheckName("reader", kind->name);
  std::vector<std::string> seen = {"name", "input"};
  for (AttributeSpec& attribute : kind->attributes) {
    CheckName("attribute", attribute.name);
    const std::string place = kind->name + ": the attribute " + attribute.name;
    if (std::find(seen.begin(), seen.end(), attribute.name) != seen.end()) {
      Refuse(place + " is declared twice, or is one of name and input");
    }
    seen.push_back(attribute.name);
    if (attribute.missing && !ConvertTo(attribute.type, &*attribute.missing)) {
      Refuse(place + " has a default that is no " + AttributeTypeName(attribute.type));
    }
  }
}

/// "batch_size, discard_leftover".
template <typename Items, typename NameOf>
std::string Listed(const Items& items, NameOf name_of) {
  std::string list;
  for (const auto& item : items) list += (list.empty() ? "" : ", ") + name_of(item);
  return list.empty() ? "none" : list;
}

std::string ListedAttributes(const ReaderKind& kind) {
  return Listed(kind.attributes, [](const AttributeSpec& attribute) { return attribute.name; });
}

/// The attributes as the factory gets them: all that are declared, each of its type.
Attributes Complete(const ReaderKind& kind, const Attributes& given) {
  for (const auto& [name, value] : given.values()) {
    const bool known = std::any_of(kind.attributes.begin(), kind.attributes.end(),
                                   [&n = name](const auto& a) { return a.name == n; });
    if (!known) {
      Refuse(kind.name + " has no attribute " + name + "; it has: " + ListedAttributes(kind));
    }
  }
  Attributes complete;
  for (const AttributeSpec& attribute : kind.attributes) {
    const auto found = given.values().find(attribute.name);
    if (found == given.values().end() && !attribute.missing) {
      Refuse(kind.name + " needs the attribute " + attribute.name +
             "; it has: " + ListedAttributes(kind));
    }
    AttributeValue value = found == given.values().end() ? *attribute.missing : found->second;
    const auto type_found = static_cast<AttributeType>(value.index());
    if (!ConvertTo(attribute.type, &value)) {
      Refuse(kind.name + ": the attribute " + attribute.name + " is of type " +
             AttributeTypeName(attribute.type) + ", not " + AttributeTypeName(type_found));
    }
    complete.Set(attribute.name, std::move(value));
  }
  return complete;
}

/// Programs have no operation that lets two readers take from one: they are told what they can do.
void RefuseTaken(const Reader& input) {
  const GraphNode& node = *ReaderAccess::NodeOf(input);
  if (std::holds_alternative<ShareNode>(node.kind()) || !node.HasConsumer()) return;
  Refuse(
      "the input has a consumer already, and a reader has one: create another reader of the same "
      "data for a second chain, or take as input what C++ made by Share");
}

class ReaderRegistry {
 public:
  /// The process's own. Never destroyed: readers may be made until the very end.
  static ReaderRegistry& Instance() {
    static auto* const registry = new ReaderRegistry();
    return *registry;
  }

  void Add(ReaderEntry reader) {
    CheckKind(&reader.kind);
    if (!reader.factory) Refuse(reader.kind.name + ": the factory is empty");
    const std::lock_guard lock(mutex_);
    const std::string name = reader.kind.name;
    if (!readers_.emplace(name, std::move(reader)).second) {
      Refuse("a reader " + name + " is registered already");
    }
  }

  /// A copy, so that nobody holds the lock while a factory runs.
  ReaderEntry Find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = readers_.find(name);
    if (found == readers_.end()) {
      throw Error(Status(StatusCode::kNotFound,
                         "no reader " + name + " is registered; there are: " +
                             Listed(readers_, [](const auto& reader) { return reader.first; })));
    }
    return found->second;
  }

  std::vector<ReaderKind> Kinds() const {
    const std::lock_guard lock(mutex_);
    std::vector<ReaderKind> kinds;
    for (const auto& [name, reader] : readers_) kinds.push_back(reader.kind);
    return kinds;
  }

 private:
  ReaderRegistry() {
    for (ReaderEntry& reader : BuiltInReaders()) Add(std::move(reader));
  }

  mutable std::mutex mutex_;
  std::map<std::string, ReaderEntry> readers_;
};

}  // namespace

void RegisterReader(const std::string& name, std::vector<AttributeSpec> attributes,
                    ReaderFactory factory) {
  ReaderRegistry::Instance().Add({{name, std::move(attributes)}, std::move(factory)});
}

std::vector<ReaderKind> RegisteredReaders() { return ReaderRegistry::Instance().Kinds(); }

Reader CreateReader(const std::string& name, const Attributes& attributes,
                    const std::vector<Reader>& inputs, Scope* scope) {
  const ReaderEntry found = ReaderRegistry::Instance().Find(name);
  const Attributes complete = Complete(found.kind, attributes);
  for (const Reader& input : inputs) {
    if (!input) Refuse(name + ": an input is an empty reader");
    RefuseTaken(input);
  }
  Reader reader = found.factory(complete, inputs, scope);
  if (!reader) Refuse(name + ": the factory made no reader");
  (void)reader.slots();  // throws where the chain cannot work
  return reader;
}

Reader OnlyInput(const std::vector<Reader>& inputs) {
  if (inputs.size() != 1) {
    Refuse("expected one reader as input, found " + std::to_string(inputs.size()));
  }
  return inputs.front();
}

}  // namespace ringfeed
