#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/remote/address.h"
#include "readers/chain/file_pattern.h"
#include "readers/chain/graph.h"
#include "readers/chain/record_walk.h"
#include "readers/formats/format.h"
#include "readers/formats/text/csv_order.h"
#include "readers/formats/text/text_formats.h"
#include "readers/index/manifest.h"
#include "readers/parsers/inferred_fields.h"
#include "readers/parsers/tensors/samples_parser.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/source.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostRecords = 100;
// A longer one is not looked at: it would be read as a whole.
constexpr std::size_t kMostRecordBytes = std::size_t{64} << 20;

std::string_view FamilyOf(std::string_view format) { return format.substr(0, format.find(':')); }

// Formats whose records are bytes to their users, too.
bool IsOfBytes(std::string_view format) { return format == "raw" || format == "lines"; }

// Formats whose files, or an index beside them, name all columns.
bool IsOfSamples(std::string_view name) { return name == "mds" || name == "litdata"; }

/// The beginning of the first file that begins with an intact record, or says what its elements
/// are. What follows damage is not searched for: that may be far away.
class FirstRecords {
 public:
  FirstRecords(const std::vector<std::string>& files, OpenOptions options) {
    options.on_damage = OnDamage::kFail;
    options.max_record_bytes = std::min(options.max_record_bytes, kMostRecordBytes);
    for (const std::string& file : files) {
      file_ = ShownAddress(file);
      walk_.emplace(file, options, [this](const FileElements& elements) {
        elements_ = elements;
        return Status();
      });
      if (IsOfBytes(format())) return;
      (void)walk_->Next(&records_);
      records_ = records_.first(std::min(records_.size(), kMostRecords));
      if (!records_.empty() || elements_) return;
    }
  }

  std::string_view format() const { return walk_->format().name(); }
  std::span<const RecordSpan> records() const { return records_; }
  const std::optional<FileElements>& elements() const { return elements_; }
  /// What was looked at.
  std::string Named() const { return "\"" + file_ + "\" (" + std::string(format()) + "): "; }

 private:
  std::string file_;
  std::optional<FileElements> elements_;
  std::optional<RecordWalk> walk_;
  std::span<const RecordSpan> records_;
};

// Takes the names of the columns from the files' first row, if it is a header.
void InferCsv(const FirstRecords& first, const std::vector<std::string>& files,
              const OpenOptions& options, InferredParser* inferred) {
  CsvLayout layout;
  if (FamilyOf(first.format()) == "tsv") layout.delimiter = '\t';
  const std::size_t parameters = FamilyOf(first.format()).size();
  const std::string_view text = first.format().substr(parameters);
  if (!text.empty()) (void)ParseCsvLayout(text.substr(1), &layout);
  CsvOptions csv;
  csv.delimiter = layout.delimiter;
  std::span<const RecordSpan> rows = first.records();
  if (!layout.header && !IsCsvHeader(rows, csv)) return;
  if (!layout.header) rows = rows.subspan(1);
  CsvColumns columns = ReadCsvColumns(files, options);
  const std::vector<std::string> names = CsvTexts(columns.header, csv.delimiter, csv.quotes);
  inferred->fields = InferCsvFields(names, rows, csv);
  csv.header = std::move(columns.header);
  inferred->csv = std::move(csv);
  inferred->format = std::move(columns.format);
}

void TakeFields(std::span<const FieldSpec> fields, InferredParser* inferred) {
  for (const FieldSpec& field : fields) {
    inferred->fields.push_back({field.name, field.dtype, field.shape, {}});
  }
}

// Makes the fields, and says what shows none.
std::string InferFields(const FirstRecords& first, const std::vector<std::string>& files,
                        const OpenOptions& options, InferredParser* inferred) {
  const std::string_view family = FamilyOf(first.format());
  const auto records = first.records();
  if (IsOfBytes(family)) return {};
  if (first.elements() && !first.elements()->fields.empty()) {
    inferred->name = "rows";
    TakeFields(first.elements()->fields, inferred);
    return {};
  }
  if (IsOfSamples(family) && (!first.elements() || first.elements()->types.empty())) {
    std::string why = "no file begins with an intact head, or has its index beside it";
    inferred->name = family;
    const SampleFamily of = family == "mds" ? SampleFamily::kMds : SampleFamily::kLitData;
    if (first.elements()) {
      inferred->parser = InferSamplesParser(of, first.elements()->name, records, &why);
    }
    if (!first.elements() || inferred->parser == nullptr) return why;
    TakeFields(inferred->parser->fields(), inferred);
    return {};
  }
  if (first.elements()) {
    inferred->name = family == "npy" ? "rows" : "tokens";
    inferred->fields = InferArrayField(*first.elements(), family == "npy" ? "c0" : "tokens");
    return "no parser has a type for its elements, \"" + first.elements()->name + "\"";
  }
  if (records.empty()) return "no file begins with an intact record";
  if (family == "csv" || family == "tsv") {
    inferred->name = "csv";
    InferCsv(first, files, options, inferred);
    return "its first row is no header: names above a column of numbers, none of them twice";
  }
  if (family == "jsonl") {
    inferred->name = "jsonl";
    inferred->fields = InferJsonFields(records);
    return "its first lines are not all objects, or have no key whose values are numbers, "
           "strings or lists of either";
  }
  if (family == "tar") {
    inferred->name = "tar";
    inferred->fields = InferTarFields(records);
    return "its first samples have no members";
  }
  if (family == "tfrecord" || family == "recordio" || family == "arrayrecord") {
    inferred->name = "example";
    inferred->fields = InferExampleFields(records);
    return "its first records are no tf.Examples";
  }
  return "such files do not say which fields their records have";
}

std::shared_ptr<const Parser> MakeParser(const InferredParser& made) {
  if (IsOfSamples(made.name)) return made.parser;
  if (made.name == "example") return ExampleParser(made.fields);
  if (made.name == "jsonl") return JsonLinesParser(made.fields);
  if (made.name == "tar") return TarParser(made.fields);
  const FeatureSpec& first = made.fields.front();
  if (made.name == "rows") {
    std::vector<FieldSpec> fields;
    for (const FeatureSpec& field : made.fields) {
      fields.push_back({field.name, field.dtype, field.shape});
    }
    return RowsParser(std::move(fields));
  }
  if (made.name == "tokens") return TokensParser({.dtype = first.dtype, .shape = first.shape});
  std::vector<CsvField> columns;
  for (const FeatureSpec& field : made.fields) {
    columns.push_back({field.name, field.dtype, field.shape, field.missing});
  }
  return CsvParser(std::move(columns), made.csv);
}

}  // namespace

InferredParser InferParser(const std::vector<std::string>& names, const OpenOptions& options) {
  InferredParser inferred;
  inferred.parser = RawParser();
  inferred.format = options.format;
  const FormatResult asked = FindFormat(options.format);
  if (asked.format != nullptr && IsOfBytes(asked.format->name())) return inferred;
  std::vector<std::string> files;
  for (const std::string& name : ListedNames(names)) {
    if (FindFileReader(options.format, name) != nullptr) return inferred;
    if (IsStreamName(name)) {
      inferred.why = "\"" + name + "\" is a stream, the records of which come once";
      return inferred;
    }
    if (const Status status = ExpandPattern(name, &files); !status.ok()) throw Error(status);
  }
  if (files.empty()) return inferred;  // OpenFiles refuses that
  const FirstRecords first(files, options);
  const std::string why = InferFields(first, files, options, &inferred);
  if (!inferred.fields.empty()) {
    inferred.parser = MakeParser(inferred);
    return inferred;
  }
  inferred.name = "raw";
  inferred.parser = RawParser();
  if (!why.empty()) inferred.why = first.Named() + why;
  return inferred;
}

}  // namespace ringfeed
