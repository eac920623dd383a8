#include "readers/program/text_node.h"

#include <google/protobuf/reflection.h>

#include <algorithm>
#include <utility>

#include "ringfeed/status.h"

namespace ringfeed {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

AttributeValue ValueOf(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    default:
      return reflection.GetString(message, &field);
  }
}

AttributeValue ListOf(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    const auto values = reflection.GetRepeatedFieldRef<std::int64_t>(message, &field);
    return std::vector<std::int64_t>(values.begin(), values.end());
  }
  const auto values = reflection.GetRepeatedFieldRef<std::string>(message, &field);
  return std::vector<std::string>(values.begin(), values.end());
}

}  // namespace

std::string NamesOfFields(const google::protobuf::Descriptor& message) {
  std::string names;
  for (int i = 0; i < message.field_count(); ++i) {
    names += (i == 0 ? "" : ", ") + message.field(i)->name();
  }
  return names;
}

std::string TextNode::place() const {
  return *file_ + ":" + std::to_string(line_ + 1) + ":" + std::to_string(column_ + 1) + ": " +
         name_;
}

void TextNode::Refuse(const std::string& what) const {
  throw Error(Status(StatusCode::kInvalidArgument, place() + ": " + what));
}

const FieldDescriptor* TextNode::Field(const std::string& name) const {
  const FieldDescriptor* field = message_->GetDescriptor()->FindFieldByName(name);
  if (field == nullptr) throw Error(Status(StatusCode::kInternal, "no field " + name));
  return field;
}

bool TextNode::Has(const std::string& field) const {
  return message_->GetReflection()->HasField(*message_, Field(field));
}

std::string TextNode::Text(const std::string& field) const {
  std::string text = message_->GetReflection()->GetString(*message_, Field(field));
  if (text.empty()) Refuse(field + " is missing or empty, expected a name");
  return text;
}

std::vector<std::string> TextNode::Texts(const std::string& field) const {
  return std::get<std::vector<std::string>>(ListOf(*message_, *Field(field)));
}

std::int64_t TextNode::Integer(const std::string& field, std::int64_t missing) const {
  return Has(field) ? message_->GetReflection()->GetInt64(*message_, Field(field)) : missing;
}

TextNode TextNode::Child(const FieldDescriptor* field, int index) const {
  const Reflection& reflection = *message_->GetReflection();
  const Message& message = index < 0 ? reflection.GetMessage(*message_, field)
                                     : reflection.GetRepeatedMessage(*message_, field, index);
  const auto location = places_->GetLocation(field, index);
  TextNode child(message, *places_->GetTreeForNested(field, index), *file_);
  child.name_ = field->name();
  child.line_ = location.line;
  child.column_ = location.column;
  return child;
}

std::vector<TextNode> TextNode::Children(const std::string& field) const {
  const FieldDescriptor* descriptor = Field(field);
  std::vector<TextNode> children;
  if (!descriptor->is_repeated()) {
    if (Has(field)) children.push_back(Child(descriptor, -1));
    return children;
  }
  const int count = message_->GetReflection()->FieldSize(*message_, descriptor);
  for (int i = 0; i < count; ++i) children.push_back(Child(descriptor, i));
  return children;
}

TextNode TextNode::Choice() const {
  const auto* descriptor = message_->GetDescriptor();
  const FieldDescriptor* chosen =
      message_->GetReflection()->GetOneofFieldDescriptor(*message_, descriptor->oneof_decl(0));
  if (chosen == nullptr) Refuse("is empty, expected one of: " + NamesOfFields(*descriptor));
  return Child(chosen, -1);
}

Attributes TextNode::FieldsBut(const std::vector<std::string>& others) const {
  std::vector<const FieldDescriptor*> fields;
  message_->GetReflection()->ListFields(*message_, &fields);
  Attributes attributes;
  for (const FieldDescriptor* field : fields) {
    if (std::find(others.begin(), others.end(), field->name()) != others.end()) continue;
    attributes.Set(field->name(),
                   field->is_repeated() ? ListOf(*message_, *field) : ValueOf(*message_, *field));
  }
  return attributes;
}

}  // namespace ringfeed
