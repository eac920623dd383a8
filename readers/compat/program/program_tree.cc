#include "readers/compat/program/program_tree.h"

#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/reflection.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "readers/compat/program/grammar.h"
#include "ringfeed/compat/registry.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// A message of a parsed text, and its place in it. A view: the message, the tree of places and the
/// file's name must outlive it.
class TextNode {
 public:
  using Places = google::protobuf::TextFormat::ParseInfoTree;

  /// The whole of a text.
  TextNode(const Message& message, const Places& places, const std::string& file)
      : message_(&message), places_(&places), file_(&file) {}

  /// The field that holds it, and its place: "FILE:LINE:COLUMN: NAME".
  const std::string& name() const { return name_; }
  std::string place() const;
  /// Throws Error(kInvalidArgument): "FILE:LINE:COLUMN: NAME" and what is wrong.
  [[noreturn]] void Refuse(const std::string& what) const;

  bool Has(const std::string& field) const;
  /// A text that must be there and not be empty.
  std::string Text(const std::string& field) const;
  std::vector<std::string> Texts(const std::string& field) const;
  std::int64_t Integer(const std::string& field, std::int64_t missing) const;
  /// The messages of a field, one at most if it is not repeated.
  std::vector<TextNode> Children(const std::string& field) const;
  /// The one field that is set in a message that is a choice.
  TextNode Choice() const;
  /// The fields that are set, but for `others`, as attributes.
  Attributes FieldsBut(const std::vector<std::string>& others) const;

 private:
  const FieldDescriptor* Field(const std::string& name) const;
  TextNode Child(const FieldDescriptor* field, int index) const;

  const Message* message_;
  const Places* places_;
  const std::string* file_;
  std::string name_ = "program";
  int line_ = 0;  ///< from 0
  int column_ = 0;
};

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

/// "read, has_next, reset": the fields of a message.
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

void TextNode::Refuse(const std::string& what) const { ringfeed::Refuse(place() + ": " + what); }

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

/// The first error that Protobuf finds in a text, as "FILE:LINE:COLUMN: " and what is wrong.
/// Protobuf gives the place after a name that it refuses, and does not name the field of a value
/// that it refuses: both are found here.
class FirstTextError : public google::protobuf::io::ErrorCollector {
 public:
  /// All must outlive this.
  FirstTextError(const Grammar& grammar, const std::string& text, const std::string& file)
      : grammar_(grammar), text_(text), file_(file) {}

  /// Call for a text that Protobuf refused.
  std::string text() const { return error_.empty() ? file_ + ": this is no program" : error_; }

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override;
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

 private:
  /// The offset of a line and a column, both from 0, in the text.
  std::size_t OffsetOf(int line, int column) const;
  /// "FILE:LINE:COLUMN: ".
  std::string PlaceOf(std::size_t offset) const;
  /// The name of the field whose value, or an item of its list, is at `offset`; empty if there is
  /// none.
  std::string FieldOfValueAt(std::size_t offset) const;
  /// For an unknown field's message: the fields that exist.
  std::string KnownFields(const std::string& message) const;

  const Grammar& grammar_;
  const std::string& text_;
  const std::string& file_;
  std::string error_;
};

constexpr std::string_view kSpace = " \t\r\n";

/// The quoted text after `before`; empty if that is not in the message.
std::string_view QuotedBehind(std::string_view before, std::string_view message) {
  const std::size_t found = message.find(before);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = message.substr(found + before.size());
  return rest.substr(0, rest.find('"'));
}

/// The field that Protobuf's message names itself.
std::string_view FieldIn(std::string_view message) {
  for (const std::string_view before : {"Field \"", "field named \"", "field \""}) {
    const std::string_view field = QuotedBehind(before, message);
    if (!field.empty()) return field;
  }
  return {};
}

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The last place at or before `offset` at which `word` starts; `offset` if there is none.
std::size_t LastWordUpTo(std::size_t offset, std::string_view word, std::string_view text) {
  for (std::size_t at = text.rfind(word, offset); at != std::string_view::npos;
       at = text.rfind(word, at - 1)) {
    const std::size_t end = at + word.size();
    const bool whole =
        (at == 0 || !IsOfWord(text[at - 1])) && (end == text.size() || !IsOfWord(text[end]));
    if (whole) return at;
    if (at == 0) break;
  }
  return offset;
}

void FirstTextError::AddError(int line, google::protobuf::io::ColumnNumber column,
                              const std::string& message) {
  if (!error_.empty()) return;
  const std::size_t offset = OffsetOf(line, column);
  std::string field(FieldIn(message));
  if (!field.empty()) {
    error_ = PlaceOf(LastWordUpTo(offset, field, text_)) + message + KnownFields(message);
    return;
  }
  field = FieldOfValueAt(offset);
  error_ = PlaceOf(offset) + (field.empty() ? "" : field + ": ") + message;
}

std::size_t FirstTextError::OffsetOf(int line, int column) const {
  std::size_t offset = 0;
  for (int i = 0; i < line; ++i) {
    const std::size_t end = text_.find('\n', offset);
    if (end == std::string::npos) break;
    offset = end + 1;
  }
  // Protobuf counts a tab as up to eight columns.
  const std::size_t line_end = std::min(text_.find('\n', offset), text_.size());
  for (int at = 0; at < column && offset < line_end; ++offset) {
    at += text_[offset] == '\t' ? 8 - at % 8 : 1;
  }
  return offset;
}

std::string FirstTextError::PlaceOf(std::size_t offset) const {
  const std::string_view before = std::string_view(text_).substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return file_ + ":" + std::to_string(line) + ":" + std::to_string(offset - line_start + 1) + ": ";
}

std::string FirstTextError::FieldOfValueAt(std::size_t offset) const {
  std::string_view before = std::string_view(text_).substr(0, offset);
  const auto trim = [&] { before = before.substr(0, before.find_last_not_of(kSpace) + 1); };
  trim();
  if (before.ends_with(',')) before = before.substr(0, before.rfind('[') + 1);
  if (before.ends_with('[')) before.remove_suffix(1);
  trim();
  if (!before.ends_with(':')) return "";
  before.remove_suffix(1);
  trim();
  const std::size_t name = before.find_last_of(" \t\r\n{};,>") + 1;  // npos + 1 is 0
  return std::string(before.substr(name));
}

std::string FirstTextError::KnownFields(const std::string& message) const {
  const auto* type = grammar_.Find(std::string(QuotedBehind("Message type \"", message)));
  return type == nullptr ? "" : " It has: " + NamesOfFields(*type);
}

/// Deep enough for any program; a level of nesting is up to three messages.
constexpr int kMostNestedMessages = 300;

std::vector<Step> StepsOf(const TextNode& parent, const std::string& block);

Step::Kind ReadOf(const TextNode& node) {
  return ReadStep{node.Text("reader"), node.Texts("output")};
}
Step::Kind HasNextOf(const TextNode& node) {
  return HasNextStep{node.Text("reader"), node.Text("output")};
}
Step::Kind ResetOf(const TextNode& node) { return ResetStep{node.Text("reader")}; }
Step::Kind ReadRecordIoOf(const TextNode& node) {
  const std::int64_t count = node.Integer("count", 1);
  if (count < 1) node.Refuse("count must be at least 1, not " + std::to_string(count));
  return ReadRecordIoStep{node.Text("reader"), count, node.Text("output")};
}
Step::Kind CloseReaderOf(const TextNode& node) { return CloseReaderStep{node.Text("reader")}; }
Step::Kind WhileOf(const TextNode& node) {
  return WhileStep{node.Text("condition"), StepsOf(node, "body")};
}
Step::Kind IfElseOf(const TextNode& node) {
  return IfElseStep{node.Text("condition"), StepsOf(node, "then"), StepsOf(node, "else")};
}
Step::Kind FillConstantOf(const TextNode& node) {
  return FillConstantStep{node.Text("output"), node.Integer("value", 0)};
}
Step::Kind IncreaseOf(const TextNode& node) {
  return IncreaseStep{node.Text("x"), node.Integer("by", 1)};
}
Step::Kind LessThanOf(const TextNode& node) {
  if (node.Has("y") == node.Has("value")) node.Refuse("expected one of y and value");
  LessThanStep step{node.Text("x"), {}, node.Integer("value", 0), node.Text("output")};
  if (node.Has("y")) step.y = node.Text("y");
  return step;
}
Step::Kind CallOf(const TextNode& node) {
  return CallStep{node.Text("function"), node.Texts("input"), node.Texts("output")};
}

Step StepOf(const TextNode& node) {
  static const std::map<std::string_view, Step::Kind (*)(const TextNode&)> kKinds = {
      {"read", ReadOf},
      {"has_next", HasNextOf},
      {"reset", ResetOf},
      {"while", WhileOf},
      {"if_else", IfElseOf},
      {"fill_constant", FillConstantOf},
      {"increase", IncreaseOf},
      {"less_than", LessThanOf},
      {"call", CallOf},
      {"read_recordio", ReadRecordIoOf},
      {"close_reader", CloseReaderOf},
  };
  return {node.place(), kKinds.at(node.name())(node)};
}

std::vector<Step> StepsOf(const TextNode& parent, const std::string& block) {
  std::vector<Step> steps;
  for (const TextNode& child : parent.Children(block)) {
    for (const TextNode& op : child.Children("op")) steps.push_back(StepOf(op.Choice()));
  }
  return steps;
}

Creation CreationOf(const TextNode& node) {
  return {node.place(), node.name(), node.Text("name"), node.Texts("input"),
          node.FieldsBut({"name", "input"})};
}

std::vector<Creation> CreationsOf(const TextNode& program) {
  std::vector<Creation> creations;
  std::map<std::string, std::string> places;
  for (const TextNode& startup : program.Children("startup")) {
    for (const TextNode& op : startup.Children("op")) {
      const TextNode node = op.Choice();
      creations.push_back(CreationOf(node));
      const std::string& name = creations.back().name;
      const auto [first, is_new] = places.emplace(name, node.place());
      if (!is_new) {
        node.Refuse("the name \"" + name + "\" is taken already, by " + first->second);
      }
    }
  }
  return creations;
}

}  // namespace

ProgramTree ParseProgram(const std::string& text, const std::string& name) {
  const Grammar grammar;
  google::protobuf::DynamicMessageFactory messages;
  const std::unique_ptr<Message> program(messages.GetPrototype(grammar.program())->New());
  FirstTextError error(grammar, text, name);
  TextNode::Places places;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  parser.SetRecursionLimit(kMostNestedMessages);
  if (!parser.ParseFromString(text, program.get())) Refuse(error.text());
  const TextNode root(*program, places, name);
  ProgramTree tree;
  tree.startup = CreationsOf(root);
  tree.main = StepsOf(root, "main");
  return tree;
}

}  // namespace ringfeed
