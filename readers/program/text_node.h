#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ringfeed/compat/registry.h"

namespace ringfeed {

/// A message of a parsed text, and where it stands there. A view: the message, the tree of places
/// and the file's name must outlive it.
class TextNode {
 public:
  using Places = google::protobuf::TextFormat::ParseInfoTree;

  /// The whole of a text.
  TextNode(const google::protobuf::Message& message, const Places& places, const std::string& file)
      : message_(&message), places_(&places), file_(&file) {}

  /// The field that it stands in, and where: "FILE:LINE:COLUMN: NAME".
  const std::string& name() const { return name_; }
  std::string place() const;
  /// Throws Error(kInvalidArgument): "FILE:LINE:COLUMN: NAME" and what is wrong.
  [[noreturn]] void Refuse(const std::string& what) const;

  bool Has(const std::string& field) const;
  /// A text that must be there and not be empty.
  std::string Text(const std::string& field) const;
  std::vector<std::string> Texts(const std::string& field) const;
  std::int64_t Integer(const std::string& field, std::int64_t missing) const;
  /// The messages of a field, one at most where it is not repeated.
  std::vector<TextNode> Children(const std::string& field) const;
  /// The one field that is set of a message that is a choice.
  TextNode Choice() const;
  /// The fields that are set, but for `others`, as attributes.
  Attributes FieldsBut(const std::vector<std::string>& others) const;

 private:
  const google::protobuf::FieldDescriptor* Field(const std::string& name) const;
  TextNode Child(const google::protobuf::FieldDescriptor* field, int index) const;

  const google::protobuf::Message* message_;
  const Places* places_;
  const std::string* file_;
  std::string name_ = "program";
  int line_ = 0;  ///< from 0
  int column_ = 0;
};

/// "read, has_next, reset": the fields of a message.
std::string NamesOfFields(const google::protobuf::Descriptor& message);

}  // namespace ringfeed
