#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "base/utf8.h"
#include "readers/formats/text/csv_order.h"
#include "readers/parsers/field_text.h"
#include "readers/parsers/located_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "readers/parsers/text/text_field.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

// Rows that go to their columns together: few enough that their values stay in L1.
constexpr std::size_t kChunkBytes = 8 * 1024;
constexpr std::size_t kMostChunkRows = 128;
constexpr std::size_t kStageBytes = 8 * 1024;  // of a column that is appended to
constexpr std::int64_t kMostColumns = 1 << 20;
constexpr std::size_t kNoField = ~std::size_t{0};
// A longer row of names is a mistake.
constexpr std::size_t kMostNamesBytes = 64 * 1024;

// The use of one column of the file.
struct Column {
  std::size_t field = kNoField;
  std::size_t offset = 0;  // of its element in the row of the field
  ReadElement read = nullptr;
};

// A field of a row as it is in the text, without its quotes.
struct Cell {
  const char* begin = nullptr;
  const char* end = nullptr;
  std::size_t doubled = 0;  // quotes that stand for one
  bool quoted = false;

  std::string_view text() const { return {begin, static_cast<std::size_t>(end - begin)}; }
};

struct CsvScratch final : Parser::Scratch {
  StagedColumns columns;
  LocatedStorage storage;      // if there are two phases
  std::vector<std::byte*> to;  // the places of the row's fields
  std::string wrong;           // why the last row failed
};

class CsvRowsParser final : public Parser {
 public:
  CsvRowsParser(const std::vector<CsvField>& fields, const CsvOptions& options);

  std::string name() const override { return "csv"; }
  std::string HintOfFirst(const RecordSpan& record,
                          std::span<const std::byte> before) const override;
  std::unique_ptr<Scratch> NewScratch() const override;
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    return static_cast<CsvScratch*>(scratch)->storage.Take();
  }
  FieldLengths LengthsOf(std::size_t field) const override;
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;

 private:
  void WriteChunk(std::span<const RecordSpan> rows, std::size_t first_row, CsvScratch* scratch,
                  std::vector<RowFailure>* failures) const;
  void Place(const CsvField& spec, std::int64_t first, std::size_t field);
  bool ParseRow(const RecordSpan& row, FieldLocation* texts, CsvScratch* scratch) const;
  bool ParseNumbers(const RecordSpan& row, CsvScratch* scratch) const;
  const char* Number(std::size_t column, const char* at, const char* end,
                     CsvScratch* scratch) const;
  const char* OtherNumber(std::size_t column, const char* at, const char* end, std::byte* to,
                          CsvScratch* scratch) const;
  const char* Text(std::size_t column, const char* at, const char* end, FieldLocation* texts,
                   CsvScratch* scratch) const;
  const char* ReadCell(std::size_t column, const char* at, const char* end, Cell* cell,
                       CsvScratch* scratch) const;
  bool RightCount(std::size_t seen, CsvScratch* scratch) const {
    return seen == count_ || OtherCount(seen, scratch);
  }
  bool OtherCount(std::size_t seen, CsvScratch* scratch) const;
  std::string Named(std::size_t column) const;

  bool IsDelimiter(char c) const { return c == delimiter_ || (blanks_ && c == '\t'); }

  std::vector<TextField> text_fields_;
  std::vector<Column> columns_;  // up to the last one that is wanted
  std::size_t fixed_bytes_ = 0;  // of a row's fields that are not strings
  std::size_t chunk_rows_ = kMostChunkRows;
  std::size_t count_ = 0;  // columns that a row has, or, with any_count_, has at least
  bool any_count_ = false;
  bool numbers_alone_ = false;  // a row has no column but those of numbers that are wanted
  bool blanks_ = false;
  bool quotes_ = true;
  char delimiter_ = ',';
};

constexpr const char* kOtherHeader =
    "; the header is no UTF-8 (Latin-1?): name the column by its number, or convert the file";

[[noreturn]] void RefuseFields(const std::string& why) { Refuse("CSV parser: " + why); }

void CheckDelimiter(char delimiter) {
  constexpr std::string_view kBad = "\"\n\r+-.0123456789";
  if (kBad.find(delimiter) != std::string_view::npos) {
    RefuseFields("the delimiter may not be a quote, a line end, a digit, a sign or a point");
  }
}

// Names the row by its beginning: its number in the file is not known here.
Status Failure(const RecordSpan& row, const std::string& why) {
  const std::string_view text(reinterpret_cast<const char*>(row.data), row.size);
  const bool returns = text.find('\r') != std::string_view::npos;
  return Status(StatusCode::kDamaged,
                why + ", in the row " + Shown(text) + (returns ? " (a CR alone ends no row)" : ""));
}

// Bytes of a quoted cell with each doubled quote as one, to `to`, which has room for `bytes`. False
// if they are not as many: the quotes were counted before, and the text may have changed.
bool Undouble(std::string_view text, std::byte* to, std::size_t bytes) {
  const std::byte* const end = to + bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = Settled(text[at]);
    if (to == end) return false;
    *to++ = static_cast<std::byte>(c);
    if (c == '"') ++at;
  }
  return to == end;
}

// Whether a cell that should be a number begins as a name does, and is no number.
bool IsName(std::string_view cell, ReadElement read) {
  const std::size_t blanks = std::min(cell.find_first_not_of(" \t"), cell.size());
  cell.remove_prefix(blanks);
  if (cell.empty()) return false;
  const auto first = static_cast<unsigned char>(cell.front());
  const bool letter = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
  if (!letter && first != '_' && first < 0x80) return false;
  std::byte element[sizeof(double)];
  const char* const end = cell.data() + cell.size();
  return read(cell.data(), end, element) != end;  // "inf" is a number
}

CsvRowsParser::CsvRowsParser(const std::vector<CsvField>& fields, const CsvOptions& options)
    : blanks_(options.delimiter == ' '), quotes_(options.quotes), delimiter_(options.delimiter) {
  CheckDelimiter(options.delimiter);
  units_alike_ = true;
  if (fields.empty()) RefuseFields("name at least one field");
  std::vector<std::string> header;
  if (!options.header.empty()) {
    header = CsvTexts(options.header, options.delimiter, options.quotes);
  }
  std::int64_t next = 0;
  for (const CsvField& spec : fields) {
    if (!AddField({spec.name, spec.dtype, spec.shape}))
      RefuseFields("\"" + spec.name + "\" is named twice");
    std::int64_t first = spec.column >= 0 ? spec.column : next;
    if (spec.column < 0 && !header.empty()) {
      const auto found = std::find(header.begin(), header.end(), spec.name);
      if (found == header.end()) {
        RefuseFields(
            MissingName("in the header column \"" + spec.name + "\"", spec.name, header).message +
            (IsUtf8(options.header) ? "" : kOtherHeader));
      }
      const auto again = std::find(found + 1, header.end(), spec.name);
      if (again != header.end()) {
        RefuseFields("two columns of the header are \"" + spec.name + "\", " +
                     std::to_string(found - header.begin()) + " and " +
                     std::to_string(again - header.begin()) +
                     ": name one by its number (CsvField::column, " + spec.name + "@" +
                     std::to_string(found - header.begin()) + ")");
      }
      first = found - header.begin();
    }
    Place(spec, first, text_fields_.size());
    next = first +
           static_cast<std::int64_t>(text_fields_.back().text ? 1 : text_fields_.back().elements);
  }
  any_count_ = options.columns == CsvOptions::kAnyColumns;
  count_ = columns_.size();
  if (options.columns > 0) {
    count_ = static_cast<std::size_t>(options.columns);
  } else if (!header.empty() && !any_count_) {
    count_ = header.size();
  }
  if (count_ < columns_.size()) {
    RefuseFields("a field stands in column " + std::to_string(columns_.size() - 1) +
                 " where rows have " + std::to_string(count_) + " columns");
  }
  numbers_alone_ = count_ == columns_.size() && !any_count_ && !blanks_ &&
                   std::all_of(columns_.begin(), columns_.end(),
                               [](const Column& column) { return column.read != nullptr; });
  chunk_rows_ = std::clamp(kChunkBytes / std::max<std::size_t>(fixed_bytes_, 1), std::size_t{1},
                           kMostChunkRows);
}

// Adds the field, whose elements are from column `first` on.
void CsvRowsParser::Place(const CsvField& spec, std::int64_t first, std::size_t field) {
  TextField made = MakeTextField("CSV", fields_.back(), spec.missing);
  if (made.ragged && (!made.text || made.strings)) {
    RefuseFields("\"" + spec.name + "\" is ragged, but no string");
  }
  if (made.dtype == DType::kBool) made.read = ReadTruth;
  const std::size_t columns = made.text ? 1 : made.elements;
  if (first > kMostColumns || columns > static_cast<std::size_t>(kMostColumns)) {
    RefuseFields("\"" + spec.name + "\" reaches beyond " + std::to_string(kMostColumns) +
                 " columns");
  }
  const auto begin = static_cast<std::size_t>(first);
  columns_.resize(std::max(columns_.size(), begin + columns));
  for (std::size_t i = 0; i < columns; ++i) {
    Column& column = columns_[begin + i];
    if (column.field != kNoField) {
      RefuseFields("column " + std::to_string(begin + i) + " is wanted by two fields");
    }
    column = {field, i * DTypeBytes(made.dtype), made.read};
  }
  if (!made.text) fixed_bytes_ += made.unit_bytes;
  text_fields_.push_back(made);
}

// Of a text, the only ragged field. Its column's number stands for the header.
FieldLengths CsvRowsParser::LengthsOf(std::size_t field) const {
  const TextField& text = text_fields_[field];
  const auto column = std::find_if(columns_.begin(), columns_.end(),
                                   [field](const Column& each) { return each.field == field; });
  CsvOptions options{delimiter_, quotes_, {}, static_cast<std::int64_t>(count_)};
  if (any_count_) options.columns = CsvOptions::kAnyColumns;
  CsvField own{text.name, text.dtype, text.shape, {}, column - columns_.begin()};
  if (text.has_default) {
    own.missing =
        std::string(reinterpret_cast<const char*>(text.missing.data()), text.missing.size());
  }
  std::string key = "csv:";
  if (delimiter_ != ',') {
    key += " -delimiter=";
    key += delimiter_ == '\t' ? "tab" : blanks_ ? "space" : std::string(1, delimiter_);
  }
  if (!quotes_) key += " -noquotes";
  key += " -columns=" + (any_count_ ? "any" : std::to_string(count_)) + " ";
  key +=
      FieldText({own.name + "@" + std::to_string(own.column), own.dtype, own.shape, own.missing});
  return {key, CsvParser({own}, options)};
}

std::string CsvRowsParser::HintOfFirst(const RecordSpan& record,
                                       std::span<const std::byte> before) const {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  std::string_view front(reinterpret_cast<const char*>(before.data()), before.size());
  if (front.starts_with(kMark)) front.remove_prefix(kMark.size());
  // If a header was passed over before it, it is no header.
  if (front.find_first_not_of("\r\n") != front.npos || record.size > kMostNamesBytes) return {};
  const std::string_view row(reinterpret_cast<const char*>(record.data), record.size);
  const std::vector<std::string> cells = CsvTexts(row, delimiter_, quotes_);
  std::size_t names = 0;
  for (std::size_t i = 0; i < std::min(cells.size(), columns_.size()); ++i) {
    if (columns_[i].read == nullptr) continue;
    if (!IsName(cells[i], columns_[i].read)) return {};
    ++names;
  }
  if (names == 0) return {};
  return "; line 1 looks like a header: if it names the columns, take header and format of "
         "ReadCsvColumns (for the command --parse 'csv: -header …')";
}

std::unique_ptr<Parser::Scratch> CsvRowsParser::NewScratch() const {
  auto scratch = std::make_unique<CsvScratch>();
  scratch->to.resize(text_fields_.size());
  for (const TextField& field : text_fields_) {
    scratch->columns.Add(two_phase_ ? kStageBytes
                                    : chunk_rows_ * field.unit_bytes + 2 * ColumnStager::kLine);
  }
  return scratch;
}

std::string CsvRowsParser::Named(std::size_t column) const {
  std::string named = "column " + std::to_string(column);
  if (column < columns_.size() && columns_[column].field != kNoField) {
    named += " (" + text_fields_[columns_[column].field].name + ")";
  }
  return named + ": ";
}

// The end of the cell that starts at `at`; null, and why in scratch->wrong, if it is malformed.
const char* CsvRowsParser::ReadCell(std::size_t column, const char* at, const char* end, Cell* cell,
                                    CsvScratch* scratch) const {
  *cell = {at, end, 0, quotes_ && at != end && *at == '"'};
  if (!cell->quoted) {
    if (blanks_) {
      cell->end = std::find_if(at, end, [](char c) { return c == ' ' || c == '\t'; });
    } else if (at != end) {
      const void* found = std::memchr(at, delimiter_, static_cast<std::size_t>(end - at));
      if (found != nullptr) cell->end = static_cast<const char*>(found);
    }
    return cell->end;
  }
  cell->begin = ++at;
  while (true) {
    const void* found =
        at == end ? nullptr : std::memchr(at, '"', static_cast<std::size_t>(end - at));
    if (found == nullptr) {
      scratch->wrong = Named(column) + "a quote is not closed (rows with line ends in them need " +
                       "format csv, not lines)";
      return nullptr;
    }
    at = static_cast<const char*>(found) + 1;
    if (at == end || *at != '"') break;
    ++cell->doubled;
    ++at;
  }
  cell->end = at - 1;
  if (at == end || IsDelimiter(*at)) return at;
  scratch->wrong = Named(column) + "text follows a closing quote";
  return nullptr;
}

// A number that does not start or end with its cell: between quotes or blanks, signed with a plus,
// missing, or malformed.
const char* CsvRowsParser::OtherNumber(std::size_t column, const char* at, const char* end,
                                       std::byte* to, CsvScratch* scratch) const {
  const TextField& field = text_fields_[columns_[column].field];
  Cell cell;
  const char* after = ReadCell(column, at, end, &cell, scratch);
  if (after == nullptr) return nullptr;
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  std::string_view text = cell.text();
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-';
  const char* first = text.data() + (plus ? 1 : 0);
  const char* last = text.data() + text.size();
  if (!text.empty() && field.read(first, last, to) == last) return after;
  const bool is_byte = field.dtype == DType::kUInt8;
  if (!text.empty() && is_byte && ReadTruth(first, last, to) == last) return after;
  const bool missing = text.empty() || IsMissing(text);
  if (missing && field.has_default) {
    std::memcpy(to, field.missing.data(), DTypeBytes(field.dtype));
    return after;
  }
  if (text.empty()) {
    scratch->wrong = Named(column) + "it is empty, and the field has no default";
    return nullptr;
  }
  const bool real = field.dtype == DType::kFloat32 || field.dtype == DType::kFloat64;
  constexpr std::string_view kNaN = "nan";
  if (missing && real && field.read(kNaN.data(), kNaN.data() + kNaN.size(), to) != nullptr) {
    return after;
  }
  scratch->wrong =
      Named(column) + Shown(cell.text()) + " is no " + std::string(DTypeName(field.dtype));
  return nullptr;
}

inline const char* CsvRowsParser::Number(std::size_t column, const char* at, const char* end,
                                         CsvScratch* scratch) const {
  const Column& own = columns_[column];
  std::byte* to = scratch->to[own.field] + own.offset;
  const char* after = own.read(at, end, to);
  if (after != nullptr && (after == end || IsDelimiter(*after))) [[likely]]
    return after;
  return OtherNumber(column, at, end, to, scratch);
}

// A string, or a cell that is not wanted.
const char* CsvRowsParser::Text(std::size_t column, const char* at, const char* end,
                                FieldLocation* texts, CsvScratch* scratch) const {
  Cell cell;
  const char* after = ReadCell(column, at, end, &cell, scratch);
  if (after == nullptr) return nullptr;
  if (column >= columns_.size() || columns_[column].field == kNoField) return after;
  const TextField& field = text_fields_[columns_[column].field];
  std::size_t bytes = cell.text().size() - cell.doubled;
  const auto* data = reinterpret_cast<const std::byte*>(cell.begin);
  if (bytes == 0 && !cell.quoted && field.has_default) {
    data = field.missing.data();
    bytes = field.missing.size();
  } else if (cell.doubled != 0) {
    std::byte* to = scratch->storage.Allocate(bytes);
    if (!Undouble(cell.text(), to, bytes)) {
      scratch->wrong = Named(column) + ChangedSinceLocated().message();
      return nullptr;
    }
    data = to;
  }
  if (LocateAt(data, bytes, bytes, &texts[columns_[column].field])) return after;
  scratch->wrong = Named(column) + "a string of 4 GiB and more is not supported";
  return nullptr;
}

bool CsvRowsParser::OtherCount(std::size_t seen, CsvScratch* scratch) const {
  if (any_count_ && seen >= count_) return true;
  scratch->wrong = "the row has " + std::to_string(seen) + " columns where " +
                   (any_count_ ? "at least " : "") + std::to_string(count_) + " are expected";
  return false;
}

// The row as most rows of numbers alone are: each number begins and ends with its cell. False if it
// is any other.
bool CsvRowsParser::ParseNumbers(const RecordSpan& row, CsvScratch* scratch) const {
  const char* at = reinterpret_cast<const char*>(row.data);
  const char* const end = at + row.size;
  for (const Column& column : columns_) {
    at = column.read(at, end, scratch->to[column.field] + column.offset);
    if (at == nullptr) return false;
    if (at == end) return &column == &columns_.back();
    if (*at++ != delimiter_) return false;
  }
  return false;
}

// Numbers go to scratch->to[field], strings to texts[field]. False, and why in scratch->wrong.
bool CsvRowsParser::ParseRow(const RecordSpan& row, FieldLocation* texts,
                             CsvScratch* scratch) const {
  if (numbers_alone_ && ParseNumbers(row, scratch)) return true;
  const char* at = reinterpret_cast<const char*>(row.data);
  const char* const end = at + row.size;
  const auto pass_blanks = [&] {
    while (blanks_ && at != end && IsDelimiter(*at)) ++at;
  };
  pass_blanks();
  for (std::size_t column = 0;; ++column) {
    const bool number = column < columns_.size() && columns_[column].read != nullptr;
    at = number ? Number(column, at, end, scratch) : Text(column, at, end, texts, scratch);
    if (at == nullptr) return false;
    if (at == end) return RightCount(column + 1, scratch);
    if (any_count_ && column + 1 == count_) return true;
    ++at;
    pass_blanks();
    if (blanks_ && at == end) return RightCount(column + 1, scratch);
  }
}

void CsvRowsParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                           Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* own = static_cast<CsvScratch*>(scratch);
  for (std::size_t row = 0; row < rows.size(); ++row, locations += fields_.size()) {
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const TextField& field = text_fields_[f];
      if (field.text) continue;
      own->to[f] = own->storage.Allocate(field.unit_bytes);
      LocateAt(own->to[f], field.unit_bytes, 1, &locations[f]);
    }
    if (ParseRow(rows[row], locations, own)) continue;
    failures->push_back({row, Failure(rows[row], own->wrong)});
  }
}

void CsvRowsParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                          std::span<const ColumnTarget> targets, Scratch* scratch,
                          std::vector<RowFailure>* failures) const {
  auto* own = static_cast<CsvScratch*>(scratch);
  own->columns.Start(text_fields_, targets);
  if (two_phase_) {
    for (std::size_t first = 0; first < rows.size(); first += chunk_rows_) {
      own->columns.AppendLocated(targets, locations + first * fields_.size(), first,
                                 std::min(chunk_rows_, rows.size() - first));
    }
    return own->columns.Finish();
  }
  for (std::size_t first = 0; first < rows.size(); first += chunk_rows_) {
    const auto chunk = rows.subspan(first, std::min(chunk_rows_, rows.size() - first));
    const auto after = rows.subspan(first + chunk.size());
    for (const RecordSpan& row : after.first(std::min(chunk_rows_, after.size()))) FetchRow(row);
    WriteChunk(chunk, first, own, failures);
  }
  own->columns.Finish();
}

void CsvRowsParser::WriteChunk(std::span<const RecordSpan> rows, std::size_t first_row,
                               CsvScratch* scratch, std::vector<RowFailure>* failures) const {
  StagedColumns& columns = scratch->columns;
  const std::size_t fields = text_fields_.size();
  for (std::size_t f = 0; f < fields; ++f) scratch->to[f] = columns[f].next();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!ParseRow(rows[row], nullptr, scratch)) [[unlikely]] {
      failures->push_back({first_row + row, Failure(rows[row], scratch->wrong)});
      for (std::size_t f = 0; f < fields; ++f) {
        std::memset(scratch->to[f], 0, text_fields_[f].unit_bytes);
      }
    }
    for (std::size_t f = 0; f < fields; ++f) scratch->to[f] += text_fields_[f].unit_bytes;
  }
  for (std::size_t f = 0; f < fields; ++f) {
    columns[f].Advance(rows.size() * text_fields_[f].unit_bytes);
    columns[f].Flush();
  }
}

}  // namespace

std::shared_ptr<const Parser> CsvParser(std::vector<CsvField> fields, CsvOptions options) {
  return std::make_shared<const CsvRowsParser>(fields, options);
}

}  // namespace ringfeed
