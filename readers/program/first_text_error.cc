#include "readers/program/first_text_error.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "readers/program/text_node.h"

namespace ringfeed {

namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// What stands in quotes behind `before`; empty where that is not in the message.
std::string_view QuotedBehind(std::string_view before, std::string_view message) {
  const std::size_t found = message.find(before);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = message.substr(found + before.size());
  return rest.substr(0, rest.find('"'));
}

/// The field that Protobuf's message itself names.
std::string_view FieldIn(std::string_view message) {
  for (const std::string_view before : {"Field \"", "field named \"", "field \""}) {
    const std::string_view field = QuotedBehind(before, message);
    if (!field.empty()) return field;
  }
  return {};
}

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Where `word` last starts at `offset` or before it; `offset` where it does not.
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

}  // namespace

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

}  // namespace ringfeed
