#include "readers/compat/program/program_text.h"

#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/text_format.h>

#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "readers/compat/program/first_text_error.h"
#include "readers/compat/program/grammar.h"
#include "readers/compat/program/text_node.h"
#include "ringfeed/status.h"

namespace ringfeed {

namespace {

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
  const std::unique_ptr<google::protobuf::Message> program(
      messages.GetPrototype(grammar.program())->New());
  FirstTextError error(grammar, text, name);
  TextNode::Places places;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&places);
  parser.SetRecursionLimit(kMostNestedMessages);
  if (!parser.ParseFromString(text, program.get())) {
    throw Error(Status(StatusCode::kInvalidArgument, error.text()));
  }
  const TextNode root(*program, places, name);
  ProgramTree tree;
  tree.startup = CreationsOf(root);
  tree.main = StepsOf(root, "main");
  return tree;
}

}  // namespace ringfeed
