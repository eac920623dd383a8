#include <array>
#include <string_view>
#include <utility>

#include "ringfeed/compat/registry.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

[[noreturn]] void Refuse(const std::string& message) {
  throw Error(Status(StatusCode::kInvalidArgument, message));
}

template <typename T>
const T& ValueOf(const std::map<std::string, AttributeValue>& values, const std::string& name,
                 AttributeType type) {
  const auto found = values.find(name);
  if (found == values.end()) {
    Refuse("there is no attribute " + name + ", expected a value of type " +
           AttributeTypeName(type));
  }
  const T* value = std::get_if<T>(&found->second);
  if (value == nullptr) {
    Refuse("the attribute " + name + " is of type " +
           AttributeTypeName(static_cast<AttributeType>(found->second.index())) + ", not " +
           AttributeTypeName(type));
  }
  return *value;
}

}  // namespace

std::string AttributeTypeName(AttributeType type) {
  constexpr std::array<std::string_view, 6> kNames = {
      "integer", "number", "boolean", "text", "list of integers", "list of texts"};
  static_assert(kNames.size() == std::variant_size_v<AttributeValue>);
  return std::string(kNames.at(static_cast<std::size_t>(type)));
}

Attributes& Attributes::Set(const std::string& name, AttributeValue value) {
  values_.insert_or_assign(name, std::move(value));
  return *this;
}

std::int64_t Attributes::Integer(const std::string& name) const {
  return ValueOf<std::int64_t>(values_, name, AttributeType::kInteger);
}

double Attributes::Number(const std::string& name) const {
  return ValueOf<double>(values_, name, AttributeType::kNumber);
}

bool Attributes::Boolean(const std::string& name) const {
  return ValueOf<bool>(values_, name, AttributeType::kBoolean);
}

const std::string& Attributes::Text(const std::string& name) const {
  return ValueOf<std::string>(values_, name, AttributeType::kText);
}

const std::vector<std::int64_t>& Attributes::Integers(const std::string& name) const {
  return ValueOf<std::vector<std::int64_t>>(values_, name, AttributeType::kIntegers);
}

const std::vector<std::string>& Attributes::Texts(const std::string& name) const {
  return ValueOf<std::vector<std::string>>(values_, name, AttributeType::kTexts);
}

std::size_t Attributes::Size(const std::string& name, std::size_t least) const {
  const std::int64_t value = Integer(name);
  if (value < 0 || static_cast<std::size_t>(value) < least) {
    Refuse(name + " must be at least " + std::to_string(least) + ", not " + std::to_string(value));
  }
  return static_cast<std::size_t>(value);
}

}  // namespace ringfeed
