#include "readers/compat/program/program_tree.h"

#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <variant>

#include "base/refuse.h"
#include "readers/compat/program/grammar.h"

namespace ringfeed {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::TextFormat;
using google::protobuf::io::Tokenizer;
using Places = TextFormat::ParseInfoTree;

/// A text and its name, for places in it.
class NamedText {
 public:
  NamedText(const std::string& text, const std::string& name) : text_(text), name_(name) {
    for (std::size_t at = 0, end = 0; end != std::string::npos; at = end + 1) {
      end = text.find('\n', at);
      const std::string_view line = std::string_view(text).substr(at, end - at);
      up_to_tab_.push_back(line.substr(0, line.rfind('\t') + 1));  // npos + 1 is 0
    }
  }

  const std::string& text() const { return text_; }
  const std::string& name() const { return name_; }
  /// "NAME:LINE:COLUMN: " of what Protobuf counts from 0, a tab as up to eight columns.
  std::string PlaceOf(int line, int column) const {
    const std::string_view tabs = up_to_tab_.at(static_cast<std::size_t>(line));
    int at = 0;
    std::size_t bytes = 0;
    for (; at < column && bytes < tabs.size(); ++bytes) at += tabs[bytes] == '\t' ? 8 - at % 8 : 1;
    return name_ + ":" + std::to_string(line + 1) + ":" +
           std::to_string(static_cast<int>(bytes) + column - at + 1) + ": ";
  }
  std::string PlaceOf(TextFormat::ParseLocation location) const {
    return PlaceOf(location.line, location.column);
  }

 private:
  const std::string& text_;
  const std::string& name_;
  std::vector<std::string_view> up_to_tab_;  ///< each line's start, up to its last tab
};

/// "read, has_next, reset": the fields of a message.
std::string NamesOfFields(const google::protobuf::Descriptor& message) {
  std::string names;
  for (int i = 0; i < message.field_count(); ++i) {
    names += (i == 0 ? "" : ", ") + message.field(i)->name();
  }
  return names;
}

/// The first error that Protobuf finds in a text, as "FILE:LINE:COLUMN: " and what is wrong.
/// Protobuf gives the place after a name that it refuses, and does not name the field of a value
/// that it refuses: both are found here, in its tokens.
class FirstTextError : public google::protobuf::io::ErrorCollector {
 public:
  /// Both must outlive this.
  FirstTextError(const Grammar& grammar, const NamedText& text) : grammar_(grammar), text_(text) {}

  /// Call for a text that Protobuf refused.
  std::string text() const {
    return error_.empty() ? text_.name() + ": this is no program" : error_;
  }

  void AddError(int line, int column, const std::string& message) override;

 private:
  /// Finds nothing wrong.
  class NoErrors : public google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  };
  struct Names {
    Tokenizer::Token last;  ///< what was looked for, as it stands last before the place
    std::string field;      ///< whose value, or an item of its list, is at the place
  };

  Names NamesBefore(int line, int column, std::string_view looked_for) const;

  const Grammar& grammar_;
  const NamedText& text_;
  std::string error_;
};

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

void FirstTextError::AddError(int line, int column, const std::string& message) {
  if (!error_.empty()) return;
  const std::string_view named = FieldIn(message);
  const Names names = NamesBefore(line, column, named);
  if (named.empty()) {
    error_ = text_.PlaceOf(line, column) + (names.field.empty() ? "" : names.field + ": ");
  } else {
    error_ = text_.PlaceOf(names.last.line, names.last.column);
  }
  error_ += message;
  const auto* type = grammar_.Find(std::string(QuotedBehind("Message type \"", message)));
  if (type != nullptr) error_ += " It has: " + NamesOfFields(*type);
}

FirstTextError::Names FirstTextError::NamesBefore(int line, int column,
                                                  std::string_view looked_for) const {
  google::protobuf::io::ArrayInputStream input(text_.text().data(),
                                               static_cast<int>(text_.text().size()));
  NoErrors none;
  Tokenizer tokens(&input, &none);
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokens.set_allow_multiline_strings(true);
  Names names;
  names.last.line = line;
  names.last.column = column;
  std::string list;  // the field whose list is not at its end
  while (tokens.Next()) {
    const Tokenizer::Token& token = tokens.current();
    if (std::pair(token.line, token.column) >= std::pair(line, column)) break;
    if (token.text == looked_for) names.last = token;
    if (token.text == ":") {
      names.field = tokens.previous().text;
    } else if (token.text == "[") {
      list = names.field;
    } else if (token.text == ",") {
      names.field = list;
    } else {
      names.field.clear();
      if (token.text == "]") list.clear();
    }
  }
  return names;
}

/// What is set in an `op` of a text. A view, as all that is in it.
struct Node {
  const Message* kind;
  const Places* places;  ///< of the kind's fields
  std::string name;      ///< of the field that holds it
  std::string place;     ///< "FILE:LINE:COLUMN: NAME"
};

/// Every name that an operation must have is there, and none that is set is empty.
void CheckNames(const Node& node) {
  const auto* type = node.kind->GetDescriptor();
  const Reflection& reflection = *node.kind->GetReflection();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool is_chosen = field->containing_oneof() != nullptr &&
                           field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
                           reflection.HasField(*node.kind, field);
    if ((field->is_required() || is_chosen) && reflection.GetString(*node.kind, field).empty()) {
      Refuse(node.place + ": " + field->name() + " is missing or empty, expected a name");
    }
  }
}

/// The operations of a message that has an `op` field.
std::vector<Node> OpsOf(const Message& block, const Places& places, const NamedText& text) {
  const FieldDescriptor* ops = block.GetDescriptor()->FindFieldByName("op");
  const int count = block.GetReflection()->FieldSize(block, ops);
  std::vector<Node> nodes;
  for (int i = 0; i < count; ++i) {
    const Message& op = block.GetReflection()->GetRepeatedMessage(block, ops, i);
    const Reflection& reflection = *op.GetReflection();
    const auto* type = op.GetDescriptor();
    const auto* set = reflection.GetOneofFieldDescriptor(op, type->oneof_decl(0));
    if (set == nullptr) {
      Refuse(text.PlaceOf(places.GetLocation(ops, i)) +
             "op: is empty, expected one of: " + NamesOfFields(*type));
    }
    const Places& inner = *places.GetTreeForNested(ops, i);
    nodes.push_back({&reflection.GetMessage(op, set), inner.GetTreeForNested(set, -1), set->name(),
                     text.PlaceOf(inner.GetLocation(set, -1)) + set->name()});
  }
  return nodes;
}

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

template <typename T>
std::vector<T> ListOf(const Message& message, const FieldDescriptor& field) {
  const auto values = message.GetReflection()->GetRepeatedFieldRef<T>(message, &field);
  return {values.begin(), values.end()};
}

Creation CreationOf(const Node& node) {
  Creation creation{node.place, node.name, {}, {}, {}};
  const FieldDescriptor* const name = node.kind->GetDescriptor()->FindFieldByName("name");
  const FieldDescriptor* const input = node.kind->GetDescriptor()->FindFieldByName("input");
  std::vector<const FieldDescriptor*> fields;
  node.kind->GetReflection()->ListFields(*node.kind, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field == name) {
      creation.name = std::get<std::string>(ValueOf(*node.kind, *field));
    } else if (field == input) {
      creation.inputs = ListOf<std::string>(*node.kind, *field);
    } else if (!field->is_repeated()) {
      creation.attributes.Set(field->name(), ValueOf(*node.kind, *field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      creation.attributes.Set(field->name(), ListOf<std::int64_t>(*node.kind, *field));
    } else {
      creation.attributes.Set(field->name(), ListOf<std::string>(*node.kind, *field));
    }
  }
  return creation;
}

std::vector<Creation> CreationsOf(const Message& startup, const Places& places,
                                  const NamedText& text) {
  std::vector<Creation> creations;
  std::map<std::string, std::string> names;  // and their places
  for (const Node& node : OpsOf(startup, places, text)) {
    CheckNames(node);
    creations.push_back(CreationOf(node));
    const auto [first, is_new] = names.emplace(creations.back().name, node.place);
    if (is_new) continue;
    Refuse(node.place + ": the name \"" + first->first + "\" is taken already, by " +
           first->second);
  }
  return creations;
}

/// Puts a field's names, or its number, into the step.
void Take(const Message& kind, const FieldDescriptor& field, Step* step) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    step->number = std::get<std::int64_t>(ValueOf(kind, field));
  } else if (field.is_repeated()) {
    for (std::string& name : ListOf<std::string>(kind, field)) {
      step->names.emplace_back(field.name(), std::move(name));
    }
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
             kind.GetReflection()->HasField(kind, &field)) {
    step->names.emplace_back(field.name(), std::get<std::string>(ValueOf(kind, field)));
  }
}

std::vector<Step> StepsOf(const Message& block, const Places& places, const NamedText& text) {
  std::vector<Step> steps;
  for (const Node& node : OpsOf(block, places, text)) {
    const Message& kind = *node.kind;
    const auto* type = kind.GetDescriptor();
    const auto inner = [&](const char* name) -> std::vector<Step> {
      const FieldDescriptor* field = type->FindFieldByName(name);
      if (field == nullptr || !kind.GetReflection()->HasField(kind, field)) return {};
      return StepsOf(kind.GetReflection()->GetMessage(kind, field),
                     *node.places->GetTreeForNested(field, -1), text);
    };
    Step& step = steps.emplace_back();
    step.place = node.place;
    step.operation = node.name;
    for (int i = 0; i < type->field_count(); ++i) Take(kind, *type->field(i), &step);
    if (step.operation == "read_recordio" && step.number < 1) {
      Refuse(step.place + ": count must be at least 1, not " + std::to_string(step.number));
    }
    if (step.operation == "less_than" &&
        kind.GetReflection()->GetOneofFieldDescriptor(kind, type->oneof_decl(0)) == nullptr) {
      Refuse(step.place + ": expected one of y and value");
    }
    CheckNames(node);
    step.body = inner(step.operation == "while" ? "body" : "then");
    step.other = inner("else");
  }
  return steps;
}

/// Deep enough for any program; a level of nesting is up to three messages.
constexpr int kMostNestedMessages = 300;

}  // namespace

std::vector<std::string> Step::NamesOf(std::string_view field) const {
  std::vector<std::string> found;
  for (const auto& [each, name] : names) {
    if (each == field) found.push_back(name);
  }
  return found;
}

const std::string* Step::FindName(std::string_view field) const {
  const auto found = std::find_if(names.begin(), names.end(),
                                  [&](const auto& each) { return each.first == field; });
  return found == names.end() ? nullptr : &found->second;
}

ProgramTree ParseProgram(const std::string& text, const std::string& name) {
  const Grammar grammar;
  google::protobuf::DynamicMessageFactory messages;
  const std::unique_ptr<Message> parsed(messages.GetPrototype(grammar.program())->New());
  const NamedText named(text, name);
  FirstTextError error(grammar, named);
  Places places;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  parser.SetRecursionLimit(kMostNestedMessages);
  parser.AllowPartialMessage(true);  // CheckNames says what is missing, and its place
  if (!parser.ParseFromString(text, parsed.get())) Refuse(error.text());
  const auto whole = [&](const char* part, auto take) -> decltype(take(*parsed, places, named)) {
    const FieldDescriptor* field = grammar.program()->FindFieldByName(part);
    const Reflection& reflection = *parsed->GetReflection();
    if (!reflection.HasField(*parsed, field)) return {};
    return take(reflection.GetMessage(*parsed, field), *places.GetTreeForNested(field, -1), named);
  };
  return {whole("startup", CreationsOf), whole("main", StepsOf)};
}

}  // namespace ringfeed
