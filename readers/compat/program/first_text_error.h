#pragma once

#include <google/protobuf/io/tokenizer.h>

#include <cstddef>
#include <string>

#include "readers/compat/program/grammar.h"

namespace ringfeed {

/// The first error that Protobuf finds in a text, as "FILE:LINE:COLUMN: " and what is wrong.
/// Protobuf stands behind a name when it refuses it, and does not name the field of a value that it
/// refuses: both are found here.
class FirstTextError : public google::protobuf::io::ErrorCollector {
 public:
  /// All must outlive this.
  FirstTextError(const Grammar& grammar, const std::string& text, const std::string& file)
      : grammar_(grammar), text_(text), file_(file) {}

  /// Of a text that Protobuf refused.
  std::string text() const { return error_.empty() ? file_ + ": this is no program" : error_; }

  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override;
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

 private:
  /// Where a line and a column, both from 0, are in the text.
  std::size_t OffsetOf(int line, int column) const;
  /// "FILE:LINE:COLUMN: ".
  std::string PlaceOf(std::size_t offset) const;
  /// The name of the field whose value, or an item of its list, is at `offset`; empty where none
  /// is.
  std::string FieldOfValueAt(std::size_t offset) const;
  /// Of an unknown field's message: the fields that there are.
  std::string KnownFields(const std::string& message) const;

  const Grammar& grammar_;
  const std::string& text_;
  const std::string& file_;
  std::string error_;
};

}  // namespace ringfeed
