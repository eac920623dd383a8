#include "tools/convert/conversion.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "io/data_file.h"
#include "io/remote/address.h"
#include "io/remote/object_writer.h"
#include "readers/formats/data_set.h"
#include "readers/formats/examined_file.h"
#include "readers/formats/format.h"
#include "readers/formats/writing/row_encoder.h"
#include "readers/parsers/parser.h"
#include "ringfeed/formats.h"
#include "ringfeed/parsers.h"
#include "ringfeed/reader.h"
#include "ringfeed/source.h"
#include "tools/command.h"
#include "tools/convert/output_names.h"
#include "tools/file_records.h"
#include "tools/inspect/file_check.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

// The origin of a record.
struct Origin {
  const std::string& file;
  std::int64_t number = 0;  // among the records of the file that are intact
};
using RecordSink = std::function<Status(std::span<const std::byte>, const Origin&)>;

// A record that the format refuses is named by its place in the input.
Status WriteRecord(RecordWriter* writer, std::span<const std::byte> record, const Origin& origin) {
  Status status = writer->Write(record);
  // A failure with a place is the output's own.
  const bool refused = status.code() == StatusCode::kInvalidArgument && status.place().file.empty();
  if (!refused) return status;
  return status.WithPlace({origin.file, -1, origin.number});
}

// How a file's copy ended. Its damage is reported whatever ended it.
template <typename Input>
Status EndOfCopy(const Input& input, ReadResult read, const Status& written,
                 std::vector<DamagedRange>* damage) {
  const std::vector<DamagedRange> met = input.Damage().ranges;
  damage->insert(damage->end(), met.begin(), met.end());
  return read == ReadResult::kFailed ? input.status() : written;
}

// How inputs are read and what is written of them: records as they are, or rows that are made
// records. Throws Error if they cannot be written so.
class Road {
 public:
  Road(const std::vector<std::string>& inputs, const ConversionOptions& options)
      : options_(options.open),
        tables_(options.tables),
        to_(options.to),
        table_(TableFormat(inputs, options_, tables_)) {
    if (!table_.empty() && !options.parse.empty()) {
      throw Refuse("rows of tables have fields: leave out --parse");
    }
    if (!table_.empty()) {
      SetFields(FileRows(inputs.front(), options_, table_, tables_).fields());
    } else if (!options.parse.empty()) {
      ParserResult found = ParserFromText(options.parse);
      if (!found.status.ok()) throw Error(found.status);
      UseParser(std::move(found.parser));
    } else {
      LookAt(inputs);
    }
  }

  /// What OpenRecordWriter takes for the outputs.
  const std::string& to() const { return to_; }
  /// Null: records are written as they are.
  RowEncoder* encoder() const { return encoder_.get(); }
  FileRows OpenRows(const std::string& input) const {
    if (table_.empty()) return {input, options_, parser_};
    FileRows rows(input, options_, table_, tables_);
    if (rows.fields() != fields_)
      throw Refuse(input + " has other columns than the file before it");
    return rows;
  }

 private:
  // Samples of columns become rows, if they do not go into files of the same format.
  void LookAt(const std::vector<std::string>& inputs) {
    if (std::ranges::any_of(inputs, IsStreamName)) return;
    const std::string family = to_.substr(0, to_.find_first_of(":+"));
    std::string copies;
    for (const std::string& input : inputs) {
      const ExaminedFile file = ExamineFile(input, nullptr, options_.format, 1);
      if (!file.status.ok()) return;  // reading it says why
      const bool same = file.format->name() == family;
      if (!same && copies.empty()) {
        if (file.format->has_columns()) UseParser(InferredOf(inputs));
        return;
      }
      const std::string one = same ? file.format->CopyFormat() : "";
      if (one.empty() && copies.empty()) return;  // its records are copied into any format
      if (!copies.empty() && copies != one) {
        throw Refuse(inputs.front() + " and " + input + " have different columns");
      }
      copies = one;
    }
    if (!copies.empty() && !to_.substr(family.size()).starts_with(':')) {
      to_.replace(0, family.size(), copies);
    }
  }

  std::shared_ptr<const Parser> InferredOf(const std::vector<std::string>& inputs) const {
    InferredParser inferred = InferParser(inputs, options_);
    if (inferred.why.empty()) return std::move(inferred.parser);
    throw Refuse("the columns of " + inputs.front() + " are no fields: " + inferred.why +
                 "; name them by --parse");
  }

  void UseParser(std::shared_ptr<const Parser> parser) {
    parser_ = std::move(parser);
    SetFields(parser_->fields());
  }

  void SetFields(std::vector<FieldSpec> fields) {
    fields_ = std::move(fields);
    FormatResult found = FindFormat(to_);
    if (!found.status.ok()) throw Error(found.status);
    RowEncoderResult made = found.format->NewRowEncoder(fields_);
    if (!made.status.ok()) throw Error(made.status);
    encoder_ = std::move(made.encoder);
    const std::string format = encoder_->format();
    if (format.empty()) return;
    const std::string family = to_.substr(0, to_.find_first_of(":+"));
    if (to_.substr(family.size()).starts_with(':')) {
      throw Refuse("\"" + to_ + "\" says how a record is written, and rows are: say " + family);
    }
    to_.replace(0, family.size(), format);
  }

  const OpenOptions options_;
  const TableOptions tables_;
  std::string to_;
  const std::string table_;
  std::shared_ptr<const Parser> parser_;
  std::vector<FieldSpec> fields_;  // of rows
  std::unique_ptr<RowEncoder> encoder_;
};

// Sets *road to that of some inputs.
Status FindRoad(const std::vector<std::string>& inputs, const ConversionOptions& options,
                std::optional<Road>* road) {
  try {
    road->emplace(inputs, options);
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

// Gives every intact row of a file to `sink`, as a record.
Status CopyRows(const Road& road, const std::string& input, const ConversionWatch& watch,
                const RecordSink& sink, std::vector<DamagedRange>* damage) {
  FileRows rows = road.OpenRows(input);
  const std::stop_callback close_at_stop(watch.stop, [&rows] { rows.Close(); });
  Origin origin{input, 0};
  Instance row;
  ReadResult read = ReadResult::kEnd;
  Status status;
  while (status.ok() && (read = rows.Next(&row)) == ReadResult::kRecord) {
    std::span<const std::byte> record;
    status = road.encoder()->Encode(row, &record);
    if (status.ok()) status = sink(record, origin);
    ++origin.number;
  }
  return EndOfCopy(rows, read, status, damage);
}

// Gives every intact record of a file to `sink`.
Status CopyFile(const std::string& input, const Road& road, const ConversionOptions& options,
                const ConversionWatch& watch, const RecordSink& sink,
                std::vector<DamagedRange>* damage) {
  if (road.encoder() != nullptr) return CopyRows(road, input, watch, sink, damage);
  FileRecords records(input, options.open);
  const std::stop_callback close_at_stop(watch.stop, [&records] { records.Close(); });
  Origin origin{input, 0};
  ReadResult read = ReadResult::kEnd;
  std::span<const RecordSpan> some;
  Status status;
  while (status.ok() && (read = records.Next(&some)) == ReadResult::kRecord) {
    std::uint64_t bytes = 0;
    for (const RecordSpan& record : some) {
      status = sink(record.bytes(), origin);
      if (!status.ok()) break;
      bytes += record.size;
      ++origin.number;
    }
    watch.progress(bytes);
  }
  return EndOfCopy(records, read, status, damage);
}

Status CopyFiles(const std::vector<std::string>& inputs, const Road& road,
                 const ConversionOptions& options, const ConversionWatch& watch,
                 const RecordSink& sink, std::vector<DamagedRange>* damage) {
  try {
    for (const std::string& input : inputs) {
      Status status = CopyFile(input, road, options, watch, sink, damage);
      if (!status.ok()) return status;
    }
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

// What outputs are made of, and how.
std::string RecipeOf(const std::vector<std::string>& files_read, const ConversionOptions& options,
                     std::uint64_t records_per_file) {
  std::string rows = options.parse.empty() ? "" : '\n' + options.parse;
  for (const std::string& column : options.tables.columns) rows += '\n' + column;
  const auto nulls = static_cast<int>(options.tables.nulls.on_null);
  if (nulls != 0) rows += "\nnulls " + std::to_string(nulls);
  return tools::RecipeOf(files_read, options.open.format + rows, options.to, records_per_file);
}

// Cuts a sequence of records into parts.
class PartWriter {
 public:
  PartWriter(const std::vector<std::string>& inputs, std::string output,
             std::uint64_t records_per_file, std::string to, const ConversionOptions& options,
             const ConversionWatch& watch, std::function<void(const Conversion&)> done)
      : files_read_(FilesRead(inputs, options.open.format)),
        output_(std::move(output)),
        records_per_file_(records_per_file),
        to_(std::move(to)),
        recipe_(RecipeOf(files_read_, options, records_per_file)),
        options_(options),
        watch_(watch),
        done_(std::move(done)) {}

  Status Write(std::span<const std::byte> record, const Origin& origin) {
    if (!open_) {
      Status status = Open();
      if (!status.ok()) return status;
    }
    if (writer_ != nullptr) {
      Status status = WriteRecord(writer_.get(), record, origin);
      if (!status.ok()) return status;
    } else if (part_.records == records_there_) {
      return Foreign("holds fewer records than belong there");
    }
    part_.records += 1;
    part_.payload_bytes += record.size();
    return part_.records == records_per_file_ ? Finish() : Status();
  }

  // Call it after all records were written.
  Status Close() {
    Status status = open_ ? Finish() : Status();
    if (!status.ok()) return status;
    part_.output = PartName(output_, number_);
    // This may run on a thread, and an exception would end the process.
    std::error_code failure;
    bool there = false;
    if (IsRemote(part_.output)) {
      status = LookForObject(part_.output, options_.open.io.remote_patience_ms, &there);
      return status.ok() && there ? Foreign("lies after the last part") : status;
    }
    there = std::filesystem::exists(part_.output, failure);
    if (failure) return StatusFromErrno(failure.value(), "look for " + part_.output);
    return there ? Foreign("lies after the last part") : Status();
  }

 private:
  Status Open() {
    part_ = {};
    part_.output = PartName(output_, number_);
    open_ = true;
    const std::vector<std::string> written = FilesWritten(part_.output, options_.to);
    if (!options_.force && IsUpToDate(written, files_read_)) {
      if (HasOtherRecipe(written, recipe_)) return Foreign("was made of other inputs");
      OpenOptions options;
      options.format = options_.to;
      const FileCheck there = CheckFile(
          part_.output, options, [](std::uint64_t) {}, watch_.stop);
      if (there.status.code() == StatusCode::kCancelled) return there.status;
      records_there_ = there.records;
      if (there.intact()) return {};
    }
    RecordWriterResult opened = OpenRecordWriter(part_.output, to_, {true, !options_.force});
    writer_ = std::move(opened.writer);
    return opened.status;
  }

  Status Finish() {
    if (writer_ != nullptr) {
      Status status = writer_->Close();
      if (!status.ok()) return status;
      NoteRecipe(FilesWritten(part_.output, options_.to), recipe_);
      part_.outcome = Conversion::Outcome::kWritten;
    } else {
      if (part_.records != records_there_) return Foreign("holds more records than belong there");
      part_.outcome = Conversion::Outcome::kUpToDate;
    }
    writer_.reset();
    open_ = false;
    ++number_;
    done_(part_);
    return {};
  }

  // Left by a conversion with other options: its parts must not be mixed with these.
  Status Foreign(const std::string& how) const {
    return Status(StatusCode::kInvalidArgument,
                  part_.output + " is there already and " + how +
                      ": it is of another conversion; remove it, or write to another name");
  }

  const std::vector<std::string> files_read_;
  const std::string output_;
  const std::uint64_t records_per_file_;
  const std::string to_;  // as OpenRecordWriter takes it
  const std::string recipe_;
  const ConversionOptions& options_;
  const ConversionWatch& watch_;
  const std::function<void(const Conversion&)> done_;
  std::size_t number_ = 0;
  bool open_ = false;
  Conversion part_;
  std::unique_ptr<RecordWriter> writer_;  // null: the part is there already
  std::uint64_t records_there_ = 0;
};

namespace fs = std::filesystem;

std::vector<std::string> OutputsInFolder(const ConversionPlan& plan) {
  std::vector<std::string> outputs;
  std::map<std::string, std::string> input_of;
  for (const std::string& input : plan.inputs) {
    if (IsStreamName(input)) throw Refuse(input + " has no name for a file in a folder");
    outputs.push_back(NameInFolder(input, plan.output, plan.options.to));
    const auto [place, is_new] = input_of.emplace(outputs.back(), input);
    if (!is_new)
      throw Refuse(place->second + " and " + input + " would both become " + place->first);
  }
  return outputs;
}

// Before anything is written: no output may be an input, under whatever name.
void RefuseInputAsOneOf(const ConversionPlan& plan, const std::vector<std::string>& outputs) {
  const std::vector<std::string> read = FilesRead(plan.inputs, plan.options.open.format);
  for (const std::string& output : outputs) {
    for (const std::string& file : FilesWritten(output, plan.options.to)) {
      RefuseInputAsOutput(read, file);
    }
  }
}

void RefuseInputAsPart(const std::vector<std::string>& inputs, const std::string& output) {
  const fs::path path(output);
  for (const std::string& input : inputs) {
    std::error_code missing;
    const fs::path sibling = path.parent_path() / fs::path(input).filename();
    if (IsPartName(path.filename().string(), fs::path(input).filename().string()) &&
        (input == sibling || fs::equivalent(input, sibling, missing))) {
      throw Refuse(input + " is an input and has the name of a part");
    }
  }
}

}  // namespace

Conversion Convert(const std::vector<std::string>& inputs, const std::string& output,
                   const ConversionOptions& options, const ConversionWatch& watch) {
  Conversion result;
  result.output = output;
  const std::vector<std::string> read = FilesRead(inputs, options.open.format);
  const std::vector<std::string> written = FilesWritten(output, options.to);
  const std::string recipe = RecipeOf(read, options, 0);
  if (!options.force && IsUpToDate(written, read) && !HasOtherRecipe(written, recipe) &&
      MayBeOfFormat(output, options.to)) {
    result.outcome = Conversion::Outcome::kUpToDate;
    return result;
  }
  if (watch.stop.stop_requested()) {
    result.status = Status(StatusCode::kCancelled, "interrupted");
    return result;
  }
  std::optional<Road> road;
  result.status = FindRoad(inputs, options, &road);
  if (!result.status.ok()) return result;
  RecordWriterResult opened =
      OpenRecordWriter(output, road->to(), {options.derived_name, !options.force});
  result.status = opened.status;
  if (!result.status.ok()) return result;
  const auto write = [&](std::span<const std::byte> record, const Origin& origin) {
    Status status = WriteRecord(opened.writer.get(), record, origin);
    result.records += status.ok() ? 1 : 0;
    result.payload_bytes += status.ok() ? record.size() : 0;
    return status;
  };
  result.status = CopyFiles(inputs, *road, options, watch, write, &result.damage);
  if (result.status.ok()) result.status = opened.writer->Close();
  if (!result.status.ok()) return result;
  result.outcome = Conversion::Outcome::kWritten;
  NoteRecipe(written, recipe);
  if (!result.damage.empty()) MakeOutOfDate(output, inputs);
  return result;
}

PartsResult ConvertToParts(const std::vector<std::string>& inputs, const std::string& output,
                           std::uint64_t records_per_file, const ConversionOptions& options,
                           const ConversionWatch& watch,
                           const std::function<void(const Conversion&)>& done) {
  PartsResult result;
  std::optional<Road> road;
  result.status = FindRoad(inputs, options, &road);
  if (!result.status.ok()) return result;
  PartWriter parts(inputs, output, records_per_file, road->to(), options, watch, done);
  const auto write = [&](std::span<const std::byte> record, const Origin& origin) {
    return parts.Write(record, origin);
  };
  result.status = CopyFiles(inputs, *road, options, watch, write, &result.damage);
  if (result.status.ok()) result.status = parts.Close();
  return result;
}

ConversionPlan PlanConversion(std::vector<std::string> paths, std::uint64_t records_per_file,
                              ConversionOptions options) {
  ConversionPlan plan;
  plan.output = paths.back();
  paths.pop_back();
  if (plan.output == "-") {
    throw Refuse(
        "convert writes files, - is none: `ringfeed encode` and `ringfeed cat` write to "
        "stdout; ./- is a file of that name");
  }
  if (!IsRemote(plan.output)) {
    if (Status status = RefuseAddress(plan.output); !status.ok()) throw Error(status);
  }
  plan.inputs = NamedFiles(paths, options.open.format);
  plan.records_per_file = records_per_file;
  plan.options = std::move(options);
  const bool into_folder = fs::is_directory(plan.output) || plan.output.ends_with('/');
  if (!into_folder) {
    plan.options.to = OutputFormat(plan.output, plan.options.to);
    RefuseInputAsOneOf(plan, {plan.output});
    if (records_per_file == 0) return plan;
    for (const std::string& file : FilesWritten(plan.output, plan.options.to)) {
      RefuseInputAsPart(FilesRead(plan.inputs, plan.options.open.format), file);
    }
    return plan;
  }
  if (plan.options.to.empty())
    throw Refuse("the name of a folder does not tell the format: add --to");
  if (records_per_file > 0) {
    throw Refuse("--records-per-file needs the name of a file, which its parts are named after");
  }
  CheckFormat(plan.options.to);
  plan.outputs = OutputsInFolder(plan);
  RefuseInputAsOneOf(plan, plan.outputs);
  return plan;
}

void PrepareFolder(const ConversionPlan& plan) {
  if (IsRemote(plan.output)) return;  // a store has no folders
  const std::string folder =
      plan.into_folder() ? plan.output : fs::path(plan.output).parent_path().string();
  std::vector<std::string> outputs = plan.outputs;
  if (!plan.into_folder()) outputs.push_back(plan.output);
  std::set<std::string> names;
  for (const std::string& output : outputs) {
    for (const std::string& file : FilesWritten(output, plan.options.to)) {
      names.insert(fs::path(file).filename().string());
    }
  }
  const auto is_ours = [&](const std::string& ours) {
    if (plan.records_per_file == 0) return names.contains(ours);
    return std::ranges::any_of(names,
                               [&](const std::string& name) { return IsPartName(name, ours); });
  };
  const std::string_view format = plan.options.to;
  Status status = CheckNewDataSet(format.substr(0, format.find(':')), folder,
                                  std::vector(names.begin(), names.end()), is_ours);
  if (!status.ok()) throw Error(std::move(status));
  std::error_code failure;
  if (!folder.empty()) fs::create_directories(folder, failure);
  if (failure) throw Error(StatusFromErrno(failure.value(), "make the folder " + folder));
  RemoveStalePartials(folder, is_ours);
}

}  // namespace ringfeed::tools
