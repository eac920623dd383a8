#include "readers/compat/program/grammar.h"

#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/refuse.h"
#include "ringfeed/compat/registry.h"

namespace ringfeed {

namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;

struct FieldForm {
  FieldDescriptorProto::Type type;
  FieldDescriptorProto::Label label;
};
/// By AttributeType.
constexpr auto kForms = std::to_array<FieldForm>({
    {FieldDescriptorProto::TYPE_INT64, FieldDescriptorProto::LABEL_OPTIONAL},
    {FieldDescriptorProto::TYPE_DOUBLE, FieldDescriptorProto::LABEL_OPTIONAL},
    {FieldDescriptorProto::TYPE_BOOL, FieldDescriptorProto::LABEL_OPTIONAL},
    {FieldDescriptorProto::TYPE_STRING, FieldDescriptorProto::LABEL_OPTIONAL},
    {FieldDescriptorProto::TYPE_INT64, FieldDescriptorProto::LABEL_REPEATED},
    {FieldDescriptorProto::TYPE_STRING, FieldDescriptorProto::LABEL_REPEATED},
});

FieldDescriptorProto* AddField(const std::string& name, FieldForm form, DescriptorProto* message) {
  FieldDescriptorProto* field = message->add_field();
  field->set_name(name);
  field->set_number(message->field_size());
  field->set_type(form.type);
  field->set_label(form.label);
  return field;
}

void AddReader(const ReaderKind& kind, DescriptorProto* creation, DescriptorProto* readers) {
  FieldDescriptorProto* field = AddField(
      kind.name, {FieldDescriptorProto::TYPE_MESSAGE, FieldDescriptorProto::LABEL_OPTIONAL},
      creation);
  field->set_type_name(".ringfeed.program.Reader." + kind.name);
  field->set_oneof_index(0);
  DescriptorProto* message = readers->add_nested_type();
  message->set_name(kind.name);
  AddField("name", {FieldDescriptorProto::TYPE_STRING, FieldDescriptorProto::LABEL_REQUIRED},
           message);
  AddField("input", {FieldDescriptorProto::TYPE_STRING, FieldDescriptorProto::LABEL_REPEATED},
           message);
  for (const AttributeSpec& attribute : kind.attributes) {
    AddField(attribute.name, kForms.at(static_cast<std::size_t>(attribute.type)), message);
  }
}

/// The first error that Protobuf reports.
class FirstError : public google::protobuf::DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string& /*file*/, const std::string& element,
                const google::protobuf::Message* /*descriptor*/, ErrorLocation /*where*/,
                const std::string& message) override {
    if (text_.empty()) text_.append(element).append(": ").append(message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// protoc notes how each field is called in JSON, which is no part of the language.
void ForgetJsonNames(DescriptorProto* message) {
  for (auto& field : *message->mutable_field()) field.clear_json_name();
  for (auto& nested : *message->mutable_nested_type()) ForgetJsonNames(&nested);
}

}  // namespace

Grammar::Grammar() {
  google::protobuf::FileDescriptorSet files;
  files.ParseFromString(std::string(ProgramDescriptors()));
  FileDescriptorProto& file = *files.mutable_file(0);
  const auto message = [&file](std::string_view name) {
    return &*std::find_if(file.mutable_message_type()->begin(), file.mutable_message_type()->end(),
                          [&](const DescriptorProto& each) { return each.name() == name; });
  };
  for (DescriptorProto& each : *file.mutable_message_type()) ForgetJsonNames(&each);
  DescriptorProto* const creation = message("Creation");
  creation->add_oneof_decl()->set_name("kind");
  for (const ReaderKind& kind : RegisteredReaders()) AddReader(kind, creation, message("Reader"));
  FirstError error;
  const auto* built = pool_.BuildFileCollectingErrors(file, &error);
  if (built == nullptr) Refuse("the registered readers do not make a language: " + error.text());
  program_ = built->FindMessageTypeByName("Program");
}

}  // namespace ringfeed
