#include "tools/convert/conversion.h"

#include <filesystem>
#include <memory>
#include <span>
#include <utility>

#include "ringfeed/formats.h"
#include "ringfeed/reader.h"
#include "tools/convert/output_names.h"
#include "tools/file_records.h"
#include "tools/inspect/file_check.h"

namespace ringfeed::tools {
namespace {

// Where a record comes from.
struct Origin {
  const std::string& file;
  std::int64_t number = 0;  // among the records of the file that are intact
};
using RecordSink = std::function<Status(std::span<const std::byte>, const Origin&)>;

// What a format refuses is named by its place in the input.
Status WriteRecord(RecordWriter* writer, std::span<const std::byte> record, const Origin& origin) {
  Status status = writer->Write(record);
  if (status.code() != StatusCode::kInvalidArgument) return status;
  return status.WithPlace({origin.file, -1, origin.number});
}

// Gives every intact record of a file to `sink`.
Status CopyFile(const std::string& input, const ConversionOptions& options,
                const ConversionWatch& watch, const RecordSink& sink,
                std::vector<DamagedRange>* damage) {
  FileRecords records(input, options.from, options.on_damage, {options.arena_bytes});
  const std::stop_callback close_at_stop(watch.stop, [&records] { records.Close(); });
  Origin origin{input, 0};
  ReadResult read;
  std::span<const RecordSpan> some;
  while ((read = records.Next(&some)) == ReadResult::kRecord) {
    std::uint64_t bytes = 0;
    for (const RecordSpan& record : some) {
      Status status = sink(record.bytes(), origin);
      if (!status.ok()) return status;
      bytes += record.size;
      ++origin.number;
    }
    watch.progress(bytes);
  }
  const std::vector<DamagedRange> met = records.Damage().ranges;
  damage->insert(damage->end(), met.begin(), met.end());
  return read == ReadResult::kFailed ? records.status() : Status();
}

Status CopyFiles(const std::vector<std::string>& inputs, const ConversionOptions& options,
                 const ConversionWatch& watch, const RecordSink& sink,
                 std::vector<DamagedRange>* damage) {
  try {
    for (const std::string& input : inputs) {
      Status status = CopyFile(input, options, watch, sink, damage);
      if (!status.ok()) return status;
    }
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

// Cuts a sequence of records into parts.
class PartWriter {
 public:
  PartWriter(const std::vector<std::string>& inputs, std::string output,
             std::uint64_t records_per_file, const ConversionOptions& options,
             const ConversionWatch& watch, std::function<void(const Conversion&)> done)
      : inputs_(inputs),
        output_(std::move(output)),
        records_per_file_(records_per_file),
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

  // Once all records were written.
  Status Close() {
    Status status = open_ ? Finish() : Status();
    if (!status.ok()) return status;
    part_.output = PartName(output_, number_);
    return std::filesystem::exists(part_.output) ? Foreign("lies behind the last part") : Status();
  }

 private:
  Status Open() {
    part_ = {};
    part_.output = PartName(output_, number_);
    open_ = true;
    if (!options_.force && IsUpToDate(part_.output, inputs_)) {
      FileCheckOptions options;
      options.format = options_.to;
      options.on_damage = OnDamage::kFail;
      const FileCheck there = CheckFile(
          part_.output, options, [](std::uint64_t) {}, watch_.stop);
      if (there.status.code() == StatusCode::kCancelled) return there.status;
      records_there_ = there.records;
      if (there.intact()) return {};
    }
    RecordWriterResult opened = OpenRecordWriter(part_.output, options_.to);
    writer_ = std::move(opened.writer);
    return opened.status;
  }

  Status Finish() {
    if (writer_ != nullptr) {
      Status status = writer_->Close();
      if (!status.ok()) return status;
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

  // Left by a conversion with other options, whose parts must not be mixed with these.
  Status Foreign(const std::string& how) const {
    return Status(StatusCode::kInvalidArgument,
                  part_.output + " is there already and " + how +
                      ": it is of another conversion; remove it, or write to another name");
  }

  const std::vector<std::string>& inputs_;
  const std::string output_;
  const std::uint64_t records_per_file_;
  const ConversionOptions& options_;
  const ConversionWatch& watch_;
  const std::function<void(const Conversion&)> done_;
  std::size_t number_ = 0;
  bool open_ = false;
  Conversion part_;
  std::unique_ptr<RecordWriter> writer_;  // null: the part is there already
  std::uint64_t records_there_ = 0;
};

}  // namespace

Conversion Convert(const std::vector<std::string>& inputs, const std::string& output,
                   const ConversionOptions& options, const ConversionWatch& watch) {
  Conversion result;
  result.output = output;
  if (!options.force && IsUpToDate(output, inputs)) {
    result.outcome = Conversion::Outcome::kUpToDate;
    return result;
  }
  if (watch.stop.stop_requested()) {
    result.status = Status(StatusCode::kCancelled, "interrupted");
    return result;
  }
  RecordWriterResult opened = OpenRecordWriter(output, options.to);
  result.status = opened.status;
  if (!result.status.ok()) return result;
  const auto write = [&](std::span<const std::byte> record, const Origin& origin) {
    Status status = WriteRecord(opened.writer.get(), record, origin);
    result.records += status.ok() ? 1 : 0;
    result.payload_bytes += status.ok() ? record.size() : 0;
    return status;
  };
  result.status = CopyFiles(inputs, options, watch, write, &result.damage);
  if (result.status.ok()) result.status = opened.writer->Close();
  if (result.status.ok()) result.outcome = Conversion::Outcome::kWritten;
  return result;
}

PartsResult ConvertToParts(const std::vector<std::string>& inputs, const std::string& output,
                           std::uint64_t records_per_file, const ConversionOptions& options,
                           const ConversionWatch& watch,
                           const std::function<void(const Conversion&)>& done) {
  PartsResult result;
  PartWriter parts(inputs, output, records_per_file, options, watch, done);
  const auto write = [&](std::span<const std::byte> record, const Origin& origin) {
    return parts.Write(record, origin);
  };
  result.status = CopyFiles(inputs, options, watch, write, &result.damage);
  if (result.status.ok()) result.status = parts.Close();
  return result;
}

}  // namespace ringfeed::tools
