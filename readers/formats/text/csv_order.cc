#include "readers/formats/text/csv_order.h"

#include <algorithm>
#include <span>

#include "base/memory/arena_advice.h"

namespace ringfeed {
namespace {

// The end of the quoted part that begins at `at`.
std::size_t EndOfQuotes(std::string_view row, std::size_t at) {
  while (true) {
    at = row.find('"', at + 1);
    if (at == std::string_view::npos) return row.size();
    if (++at == row.size() || row[at] != '"') return at;
  }
}

// The cells as they stand, with their quotes.
std::vector<std::string_view> SplitRow(std::string_view row, char delimiter, bool quotes) {
  const bool blanks = delimiter == ' ';
  std::vector<std::string_view> cells;
  for (std::size_t begin = 0; begin <= row.size();) {
    std::size_t end = begin;
    if (quotes && end < row.size() && row[end] == '"') end = EndOfQuotes(row, end);
    while (end < row.size() && row[end] != delimiter && !(blanks && row[end] == '\t')) ++end;
    if (!blanks || end > begin) cells.push_back(row.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

std::string TextOf(std::string_view cell) {
  const std::size_t end = EndOfQuotes(cell, 0);
  std::string text;
  for (std::size_t at = 1; at < end; ++at) {
    if (cell[at] == '"' && ++at == end) break;
    text += cell[at];
  }
  return text + std::string(cell.substr(end));
}

}  // namespace

std::vector<std::string> CsvTexts(std::string_view row, char delimiter, bool quotes) {
  std::vector<std::string> texts;
  for (const std::string_view cell : SplitRow(row, delimiter, quotes)) {
    texts.push_back(quotes && cell.starts_with('"') ? TextOf(cell) : std::string(cell));
  }
  return texts;
}

CsvOrder::CsvOrder(std::string_view expected, std::string_view own, char delimiter,
                   std::string* lacking)
    : delimiter_(delimiter) {
  const std::vector<std::string> names = CsvTexts(own, delimiter, true);
  columns_ = names.size();
  const std::vector<std::string> wanted = CsvTexts(expected, delimiter, true);
  for (const std::string& name : wanted) {
    const auto found = std::find(names.begin(), names.end(), name);
    const bool once = std::count(names.begin(), names.end(), name) == 1 &&
                      std::count(wanted.begin(), wanted.end(), name) == 1;
    if (!once && lacking->empty()) *lacking = name;
    from_.push_back(static_cast<std::size_t>(found - names.begin()));
  }
}

Status CsvOrder::Apply(FrameMemory* memory, RecordSpan* row) const {
  const std::vector<std::string_view> cells =
      SplitRow({reinterpret_cast<const char*>(row->data), row->size}, delimiter_, true);
  if (cells.size() != columns_) {
    return Status(StatusCode::kDamaged, "the row has " + std::to_string(cells.size()) +
                                            " columns where its file names " +
                                            std::to_string(columns_));
  }
  std::byte* const begin = memory->Allocate(std::max<std::size_t>(row->size, 1));
  if (begin == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  NoMemoryFor("a row of " + std::to_string(row->size) + " bytes"));
  }
  std::byte* to = begin;
  for (std::size_t i = 0; i < from_.size(); ++i) {
    if (i > 0) *to++ = static_cast<std::byte>(delimiter_);
    const auto cell = std::as_bytes(std::span(cells[from_[i]]));
    to = std::copy(cell.begin(), cell.end(), to);
  }
  *row = {begin, static_cast<std::size_t>(to - begin)};
  return {};
}

}  // namespace ringfeed
