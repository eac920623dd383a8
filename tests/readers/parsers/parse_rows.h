#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "readers/parsers/parser.h"

namespace ringfeed {

/// What a parser made of some records.
struct ParsedRows {
  /// values[field][row]: the row's bytes in its column. Of a failed row: zeros, or nothing.
  std::vector<std::vector<std::string>> values;
  std::map<std::size_t, Status> failures;  ///< by row
};

/// Runs both phases as an executor would: rows that fail in the first are left out of the second.
/// Every record, and every column, stands in memory of exactly its size.
class RowsRunner {
 public:
  explicit RowsRunner(std::shared_ptr<const Parser> parser)
      : parser_(std::move(parser)), scratch_(parser_->NewScratch()) {}
  ParsedRows Run(const std::vector<std::string>& records);

 private:
  void WriteAll(const std::vector<RecordSpan>& rows, const std::vector<std::size_t>& numbers,
                const std::vector<FieldLocation>& locations, ParsedRows* parsed);

  std::shared_ptr<const Parser> parser_;
  std::unique_ptr<Parser::Scratch> scratch_;
};

/// Element `index` of a row.
template <typename T>
T ValueOf(const std::string& row, std::size_t index = 0) {
  T value;
  std::memcpy(&value, row.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// The row that has these elements.
template <typename T>
std::string Packed(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// A record cut behind every byte but the last, and with every bit of it flipped.
std::vector<std::string> CutAndFlipped(const std::string& record);

}  // namespace ringfeed
