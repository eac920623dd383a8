#include "readers/parsers/tensors/samples_parser.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/parsers/field_row.h"
#include "readers/parsers/field_text.h"
#include "readers/parsers/lod_columns.h"

namespace ringfeed {
namespace {

using Kind = SampleEncoding::Kind;

constexpr std::int64_t kMostElements = std::int64_t{1} << 28;
constexpr std::size_t kSizeBytes = sizeof(std::uint32_t);

struct SampleScratch final : LoDScratch {
  using LoDScratch::LoDScratch;

  SampleArray array;
};

Status Damaged(const SampleColumn& column, const std::string& why) {
  return Status(StatusCode::kDamaged, "column \"" + column.name + "\": " + why);
}

// "a:int b:str", for messages.
std::string Shown(std::string columns) {
  std::replace(columns.begin(), columns.end(), '\t', ':');
  std::replace(columns.begin(), columns.end(), '\n', ' ');
  if (columns.ends_with(' ')) columns.pop_back();
  return columns;
}

// A word for each column, only one of which is a field if `only` is not null.
std::string TextOf(SampleFamily family, std::span<const SampleField> columns,
                   const SampleField* only = nullptr) {
  std::string text(FamilyName(family));
  text += ':';
  for (const SampleField& one : columns) {
    const bool field = one.field && (only == nullptr || only == &one);
    text += (field ? " " : " -") + one.column.name + ":" + one.column.encoding;
    if (!field || EncodingOf(family, one.column.encoding).kind != Kind::kArray) continue;
    text += one.encoded ? "=bytes"
                        : FieldText({"", one.field->dtype, one.field->shape, {}}).insert(0, "=");
  }
  return text;
}

class ColumnsParser final : public LoDColumnsParser {
 public:
  ColumnsParser(SampleFamily family, std::vector<SampleField> columns);

  std::string name() const override { return std::string(FamilyName(family_)); }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<SampleScratch>(fields_.size());
  }
  Status CheckElements(const FileElements& elements) const override {
    if (elements.name == names_) return {};
    return Status(StatusCode::kInvalidArgument, "its columns are \"" + Shown(elements.name) +
                                                    "\" where the parser takes \"" + Shown(names_) +
                                                    "\"");
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    auto* own = static_cast<SampleScratch*>(scratch);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status = LocateSample(rows[row], locations + row * fields_.size(), &own->array);
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
  }
  FieldLengths LengthsOf(std::size_t field) const override;
  bool CopiesBytesOf(std::size_t) const override { return true; }
  std::span<const std::byte> BytesOf(std::size_t, const RecordSpan&,
                                     const FieldLocation& at) const override {
    return {at.data, at.bytes};
  }
  SampleFamily family() const { return family_; }
  std::string text() const { return TextOf(family_, columns_); }

 private:
  struct Place {
    SampleEncoding encoding;
    std::size_t bytes = 0;  // of a column of fixed size
    bool sized = true;      // its size stands in each sample
  };

  void AddField(const SampleField& one, const SampleEncoding& encoding);
  Status LocateSample(const RecordSpan& sample, FieldLocation* locations, SampleArray* array) const;
  Status LocateField(std::size_t column, std::span<const std::byte> value, SampleArray* array,
                     FieldLocation* location) const;

  [[noreturn]] void RefuseColumns(StatusCode code, const std::string& why) const {
    Refuse(code, name() + " parser: " + why);
  }

  const SampleFamily family_;
  const std::vector<SampleField> columns_;
  std::vector<Place> places_;  // of each column
  std::string names_;          // as files say them
  std::size_t sizes_bytes_ = 0;
  std::size_t fixed_bytes_ = 0;
};

ColumnsParser::ColumnsParser(SampleFamily family, std::vector<SampleField> columns)
    : family_(family), columns_(std::move(columns)) {
  for (const SampleField& one : columns_) {
    const SampleEncoding encoding = EncodingOf(family_, one.column.encoding);
    if (encoding.kind == Kind::kUnknown) {
      RefuseColumns(StatusCode::kUnsupported, "the encoding \"" + one.column.encoding +
                                                  "\" of column \"" + one.column.name +
                                                  "\" is not known");
    }
    const bool fixed = !encoding.variable();
    Place place{encoding, fixed ? FieldSpec{"", *encoding.dtype, encoding.shape}.unit_bytes() : 0,
                encoding.sized(family_)};
    fixed_bytes_ += place.bytes;
    if (place.sized) sizes_bytes_ += kSizeBytes;
    places_.push_back(std::move(place));
    names_ += ColumnsText({&one.column, 1});
    if (one.field) AddField(one, encoding);
  }
  if (fields_.empty()) {
    RefuseColumns(StatusCode::kInvalidArgument, "none of the columns is a field");
  }
}

void ColumnsParser::AddField(const SampleField& one, const SampleEncoding& encoding) {
  const auto refuse = [&](const std::string& why, StatusCode code = StatusCode::kInvalidArgument) {
    RefuseColumns(code, "column \"" + one.column.name + "\" " + why);
  };
  if (encoding.kind == Kind::kPickle) {
    refuse("holds pickles, which run code when they are read: pass it over (-" + one.column.name +
               ":" + one.column.encoding + "), or write it anew, as json for example",
           StatusCode::kUnsupported);
  }
  const FieldSpec& field = *one.field;
  FieldRow row;
  if (const char* why = SetFieldRow(field, kMostElements, &row)) refuse(why);
  const bool bytes = field.dtype == DType::kUInt8 && field.shape == Shape{-1};
  const bool same = encoding.dtype == field.dtype && encoding.shape == field.shape;
  const bool array = encoding.kind == Kind::kArray && !one.encoded;
  // A scalar of Torch or NumPy has no dimensions.
  const bool scalar = encoding.header == SampleEncoding::Header::kTorch ||
                      encoding.header == SampleEncoding::Header::kNumpy;
  const bool fits = array ? encoding.dtype.value_or(field.dtype) == field.dtype &&
                                (scalar || !field.shape.empty())
                    : encoding.variable() ? bytes
                                          : same;
  if (!fits) refuse("of \"" + one.column.encoding + "\" cannot be such a field");
  if (!AddRows(field, false)) refuse("is named twice");
}

FieldLengths ColumnsParser::LengthsOf(std::size_t field) const {
  std::vector<SampleField> only = columns_;
  const SampleField* named = nullptr;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].field && columns_[i].field->name == fields_[field].name) {
      named = &columns_[i];
    } else {
      only[i].field.reset();
    }
  }
  return {TextOf(family_, columns_, named), SamplesParser(family_, std::move(only))};
}

// What a location points at is checked against the sample. Its sizes are read once.
Status ColumnsParser::LocateSample(const RecordSpan& sample, FieldLocation* locations,
                                   SampleArray* array) const {
  std::span<const std::byte> rest = sample.bytes();
  if (rest.size() < sizes_bytes_ + fixed_bytes_) {
    return Status(StatusCode::kDamaged, "a sample of " + std::to_string(rest.size()) +
                                            " bytes where its columns take " +
                                            std::to_string(sizes_bytes_ + fixed_bytes_));
  }
  const std::byte* size_at = rest.data();
  rest = rest.subspan(sizes_bytes_);
  std::size_t field = 0;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t bytes = places_[column].bytes;
    if (places_[column].sized) {
      const std::size_t told = LoadOnceLe<std::uint32_t>(size_at);
      size_at += kSizeBytes;
      if (!places_[column].encoding.variable() && told != bytes) {
        return Damaged(columns_[column].column,
                       "its size is " + std::to_string(told) + ", not " + std::to_string(bytes));
      }
      bytes = told;
    }
    if (bytes > rest.size()) {
      return Damaged(columns_[column].column, "its size is " + std::to_string(bytes) +
                                                  ", of the sample " + std::to_string(rest.size()) +
                                                  " bytes are left");
    }
    if (columns_[column].field) {
      Status status = LocateField(column, rest.first(bytes), array, locations + field++);
      if (!status.ok()) return status;
    }
    rest = rest.subspan(bytes);
  }
  if (rest.empty()) return {};
  return Status(StatusCode::kDamaged,
                "a sample with " + std::to_string(rest.size()) + " bytes of no column");
}

Status ColumnsParser::LocateField(std::size_t column, std::span<const std::byte> value,
                                  SampleArray* array, FieldLocation* location) const {
  const SampleField& one = columns_[column];
  const FieldSpec& field = *one.field;
  std::size_t units = field.ragged() ? value.size() : 1;
  if (places_[column].encoding.kind == Kind::kArray && !one.encoded) {
    if (!ReadSampleArray(places_[column].encoding, value, array)) {
      return Damaged(one.column, "its value is no array of that encoding");
    }
    bool fits = array->dtype == field.dtype && array->shape.size() == field.shape.size();
    for (std::size_t i = field.ragged() ? 1 : 0; fits && i < field.shape.size(); ++i) {
      fits = array->shape[i] == field.shape[i];
    }
    if (!fits) {
      return Damaged(one.column, "its array is " + std::string(DTypeName(array->dtype)) +
                                     ShapeToString(array->shape) + " where " +
                                     std::string(DTypeName(field.dtype)) +
                                     ShapeToString(field.shape) + " is expected");
    }
    value = value.subspan(array->header_bytes);
    if (field.ragged()) units = static_cast<std::size_t>(array->shape[0]);
  }
  if (LocateAt(value.data(), value.size(), units, location)) return {};
  return Status(StatusCode::kUnsupported, "a field of 4 GiB and more is not supported");
}

// The field of the arrays that samples have in a column; none if they are not alike.
class SeenArrays {
 public:
  void Take(const SampleEncoding& encoding, std::span<const std::byte> value) {
    SampleArray array;
    if (!ReadSampleArray(encoding, value, &array)) return;
    if (!array.shape.empty()) array.shape.front() = -1;
    if (any_ && (array.dtype != seen_.dtype || array.shape != seen_.shape)) alike_ = false;
    seen_ = std::move(array);
    any_ = true;
  }
  std::optional<FieldSpec> Field(const std::string& name) const {
    const bool zero = std::count(seen_.shape.begin(), seen_.shape.end(), 0) != 0;
    if (!any_ || !alike_ || zero) return std::nullopt;
    return FieldSpec{name, seen_.dtype, seen_.shape};
  }

 private:
  SampleArray seen_;
  bool any_ = false;
  bool alike_ = true;
};

// All columns, of which one is a field: its bytes.
std::vector<SampleField> OnlyBytesOf(std::vector<SampleField> columns, std::size_t column) {
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].field.reset();
  columns[column].field = FieldSpec{columns[column].column.name, DType::kUInt8, {-1}};
  columns[column].encoded = true;
  return columns;
}

void InferArray(SampleFamily family, std::span<const RecordSpan> samples, std::size_t column,
                std::vector<SampleField>* columns) {
  const SampleField as_bytes = OnlyBytesOf(*columns, column)[column];
  const auto parser = SamplesParser(family, OnlyBytesOf(*columns, column));
  const auto scratch = parser->NewScratch();
  const SampleEncoding encoding = EncodingOf(family, (*columns)[column].column.encoding);
  SeenArrays seen;
  for (const RecordSpan& sample : samples) {
    FieldLocation value;
    std::vector<RowFailure> failures;
    if (sample.damaged()) continue;
    parser->Locate({&sample, 1}, &value, scratch.get(), &failures);
    if (failures.empty()) seen.Take(encoding, {value.data, value.bytes});
  }
  (*columns)[column].field = seen.Field(as_bytes.column.name);
  if (!(*columns)[column].field) (*columns)[column] = as_bytes;
}

}  // namespace

std::shared_ptr<const Parser> SamplesParser(SampleFamily family, std::vector<SampleField> columns) {
  return std::make_shared<const ColumnsParser>(family, std::move(columns));
}

std::shared_ptr<const Parser> InferSamplesParser(SampleFamily family, std::string_view columns,
                                                 std::span<const RecordSpan> samples,
                                                 std::string* why) {
  std::vector<SampleField> fields;
  for (SampleColumn& column : ColumnsOf(columns)) fields.push_back({std::move(column)});
  try {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const bool array = EncodingOf(family, fields[i].column.encoding).kind == Kind::kArray;
      if (array) InferArray(family, samples, i, &fields);
    }
    for (SampleField& field : fields) {
      if (!field.field) field.field = SampleFieldSpec(family, field.column);
    }
    return SamplesParser(family, std::move(fields));
  } catch (const Error& error) {
    *why = error.status().message();
    return nullptr;
  }
}

// A name may have colons, and so may an encoding: the first one behind which an encoding stands.
SampleField SampleFieldOf(SampleFamily family, std::string_view text) {
  for (std::size_t at = text.find(':'); at != std::string_view::npos; at = text.find(':', at + 1)) {
    const std::string_view encoding = text.substr(at + 1);
    if (EncodingOf(family, encoding).kind == Kind::kUnknown) continue;
    return {{std::string(text.substr(0, at)), std::string(encoding)}};
  }
  Refuse("\"" + std::string(text) + "\" is no NAME:ENCODING of a column of " +
         std::string(FamilyName(family)));
}

std::optional<FieldSpec> SampleFieldSpec(SampleFamily family, const SampleColumn& column) {
  const SampleEncoding encoding = EncodingOf(family, column.encoding);
  if (!encoding.variable()) return FieldSpec{column.name, *encoding.dtype, encoding.shape};
  if (encoding.kind == Kind::kArray && !encoding.dtype) return std::nullopt;
  return FieldSpec{column.name, encoding.dtype.value_or(DType::kUInt8), {-1}};
}

std::string SamplesParserText(const Parser& parser) {
  const auto* const own = dynamic_cast<const ColumnsParser*>(&parser);
  return own != nullptr ? own->text() : "";
}

}  // namespace ringfeed
