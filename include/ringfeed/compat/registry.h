#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ringfeed/reader.h"

namespace ringfeed {

class Scope;

/// A value of an attribute.
using AttributeValue = std::variant<std::int64_t, double, bool, std::string,
                                    std::vector<std::int64_t>, std::vector<std::string>>;

/// Types of attributes, in the order of AttributeValue's alternatives.
enum class AttributeType : std::uint8_t { kInteger, kNumber, kBoolean, kText, kIntegers, kTexts };

/// The type's name: "integer", "list of texts", …
std::string AttributeTypeName(AttributeType type);

/// Declares one attribute of a reader. Without a default the attribute must be given.
struct AttributeSpec {
  std::string name;
  AttributeType type = AttributeType::kInteger;
  std::optional<AttributeValue> missing{};
};

/// Values of attributes by name. What a factory gets is complete: every declared attribute is
/// there, of its type.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, AttributeValue>> values)
      : values_(values) {}

  /// Sets or replaces a value.
  Attributes& Set(const std::string& name, AttributeValue value);
  const std::map<std::string, AttributeValue>& values() const { return values_; }

  // Each throws Error(kInvalidArgument) if there is no such attribute of that type.
  std::int64_t Integer(const std::string& name) const;
  double Number(const std::string& name) const;
  bool Boolean(const std::string& name) const;
  const std::string& Text(const std::string& name) const;
  const std::vector<std::int64_t>& Integers(const std::string& name) const;
  const std::vector<std::string>& Texts(const std::string& name) const;
  /// An integer that is a size; throws Error also if it is less than `least`.
  std::size_t Size(const std::string& name, std::size_t least = 0) const;

 private:
  std::map<std::string, AttributeValue> values_;
};

/// Makes a reader of complete attributes and the readers named as its inputs, in their order.
/// `scope` has what attributes name (queues, stores); it is null if the caller has none. Throws
/// Error if it cannot; called by one thread at a time or several.
using ReaderFactory = std::function<Reader(const Attributes& attributes,
                                           const std::vector<Reader>& inputs, Scope* scope)>;

/// A kind of reader: its name and what it takes.
struct ReaderKind {
  std::string name;
  std::vector<AttributeSpec> attributes;
};

/// Registers a kind of reader under `name`, for CreateReader and for programs that are loaded from
/// now on. Names of readers and attributes are identifiers (letters, digits, "_"); "name" and
/// "input" are no attributes, programs use them. Throws Error(kInvalidArgument) for others, for a
/// name that is taken and for a default of another type. Thread safe, as all functions here.
void RegisterReader(const std::string& name, std::vector<AttributeSpec> attributes,
                    ReaderFactory factory);

/// What is registered, ringfeed's own readers too, sorted by name.
std::vector<ReaderKind> RegisteredReaders();

/// Makes a reader of a registered kind. Attributes that are not given get their defaults. Throws
/// Error: kNotFound if the name is not registered; kInvalidArgument if an attribute is
/// unknown, missing or of another type (a whole number will do for a number): it names the reader,
/// the attribute and those there are, if an input has a consumer already, and if the chain
/// that ends here cannot work (a batch of batches); and what the factory throws.
Reader CreateReader(const std::string& name, const Attributes& attributes,
                    const std::vector<Reader>& inputs = {}, Scope* scope = nullptr);

/// The one input of a factory that takes one. Throws Error(kInvalidArgument) for another number.
Reader OnlyInput(const std::vector<Reader>& inputs);

}  // namespace ringfeed
