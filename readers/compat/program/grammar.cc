#include "readers/compat/program/grammar.h"

#include <google/protobuf/descriptor.pb.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "base/refuse.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;

constexpr std::string_view kPackage = "ringfeed.program";
/// This message has the readers' messages inside, so their names are none of the language.
constexpr std::string_view kReaders = "Reader";

enum class Often : std::uint8_t { kOnce, kRepeated };
/// A field of a message; `type` is int64, double, bool, string or a message of the language.
struct Field {
  std::string_view message;
  std::string_view name;
  std::string_view type;
  Often often = Often::kOnce;
};

constexpr Often kRepeated = Often::kRepeated;
/// The language except its readers. Fields are numbered in this order: append only.
constexpr auto kLanguage = std::to_array<Field>({
    {"Program", "startup", "Startup"},
    {"Program", "main", "Block"},
    {"Startup", "op", "Creation", kRepeated},
    {"Block", "op", "Operation", kRepeated},
    {"Operation", "read", "Read"},
    {"Operation", "has_next", "HasNext"},
    {"Operation", "reset", "Reset"},
    {"Operation", "while", "While"},
    {"Operation", "if_else", "IfElse"},
    {"Operation", "fill_constant", "FillConstant"},
    {"Operation", "increase", "Increase"},
    {"Operation", "less_than", "LessThan"},
    {"Operation", "call", "Call"},
    {"Operation", "read_recordio", "ReadRecordIo"},
    {"Operation", "close_reader", "CloseReader"},
    {"Read", "reader", "string"},
    {"Read", "output", "string", kRepeated},
    {"HasNext", "reader", "string"},
    {"HasNext", "output", "string"},
    {"Reset", "reader", "string"},
    {"While", "condition", "string"},
    {"While", "body", "Block"},
    {"IfElse", "condition", "string"},
    {"IfElse", "then", "Block"},
    {"IfElse", "else", "Block"},
    {"FillConstant", "output", "string"},
    {"FillConstant", "value", "int64"},
    {"Increase", "x", "string"},
    {"Increase", "by", "int64"},
    {"LessThan", "x", "string"},
    {"LessThan", "y", "string"},
    {"LessThan", "value", "int64"},
    {"LessThan", "output", "string"},
    {"Call", "function", "string"},
    {"Call", "input", "string", kRepeated},
    {"Call", "output", "string", kRepeated},
    {"ReadRecordIo", "reader", "string"},
    {"ReadRecordIo", "count", "int64"},
    {"ReadRecordIo", "output", "string"},
    {"CloseReader", "reader", "string"},
});
/// In these messages exactly one field is set.
constexpr std::array<std::string_view, 2> kChoices = {"Operation", "Creation"};

void SetType(std::string_view type, FieldDescriptorProto* field) {
  if (type == "int64") return field->set_type(FieldDescriptorProto::TYPE_INT64);
  if (type == "double") return field->set_type(FieldDescriptorProto::TYPE_DOUBLE);
  if (type == "bool") return field->set_type(FieldDescriptorProto::TYPE_BOOL);
  if (type == "string") return field->set_type(FieldDescriptorProto::TYPE_STRING);
  field->set_type(FieldDescriptorProto::TYPE_MESSAGE);
  field->set_type_name("." + std::string(kPackage) + "." + std::string(type));
}

void AddField(const Field& field, DescriptorProto* message) {
  FieldDescriptorProto* added = message->add_field();
  added->set_name(std::string(field.name));
  added->set_number(message->field_size());
  added->set_label(field.often == kRepeated ? FieldDescriptorProto::LABEL_REPEATED
                                            : FieldDescriptorProto::LABEL_OPTIONAL);
  SetType(field.type, added);
  if (message->oneof_decl_size() > 0) added->set_oneof_index(0);
}

DescriptorProto* MessageOf(std::string_view name, FileDescriptorProto* file) {
  for (DescriptorProto& message : *file->mutable_message_type()) {
    if (message.name() == name) return &message;
  }
  DescriptorProto* message = file->add_message_type();
  message->set_name(std::string(name));
  for (const std::string_view choice : kChoices) {
    if (name == choice) message->add_oneof_decl()->set_name("kind");
  }
  return message;
}

Field FieldOf(const AttributeSpec& attribute) {
  switch (attribute.type) {
    case AttributeType::kInteger:
      return {{}, attribute.name, "int64"};
    case AttributeType::kNumber:
      return {{}, attribute.name, "double"};
    case AttributeType::kBoolean:
      return {{}, attribute.name, "bool"};
    case AttributeType::kText:
      return {{}, attribute.name, "string"};
    case AttributeType::kIntegers:
      return {{}, attribute.name, "int64", kRepeated};
    case AttributeType::kTexts:
      return {{}, attribute.name, "string", kRepeated};
  }
  throw Error(Status(StatusCode::kInternal, "an attribute without a type"));
}

void AddReader(const ReaderKind& kind, FileDescriptorProto* file) {
  const std::string type = std::string(kReaders) + "." + kind.name;
  AddField({"Creation", kind.name, type}, MessageOf("Creation", file));
  DescriptorProto* message = MessageOf(kReaders, file)->add_nested_type();
  message->set_name(kind.name);
  AddField({type, "name", "string"}, message);
  AddField({type, "input", "string", kRepeated}, message);
  for (const AttributeSpec& attribute : kind.attributes) AddField(FieldOf(attribute), message);
}

/// The first error that Protobuf reports.
class FirstError : public google::protobuf::DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& /*file*/, const std::string& element,
                const google::protobuf::Message* /*descriptor*/, ErrorLocation /*where*/,
                const std::string& message) override {
    if (text_.empty()) text_.append(element).append(": ").append(message);
  }
  void AddWarning(const std::string&, const std::string&, const google::protobuf::Message*,
                  ErrorLocation, const std::string&) override {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

Grammar::Grammar() {
  FileDescriptorProto file;
  file.set_name("program.proto");
  file.set_package(std::string(kPackage));
  for (const Field& field : kLanguage) AddField(field, MessageOf(field.message, &file));
  for (const ReaderKind& kind : RegisteredReaders()) AddReader(kind, &file);
  FirstError error;
  const auto* built = pool_.BuildFileCollectingErrors(file, &error);
  if (built == nullptr) Refuse("the registered readers do not make a language: " + error.text());
  program_ = built->FindMessageTypeByName("Program");
}

}  // namespace ringfeed
