#include "tools/file_records.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "ringfeed/decorators.h"
#include "ringfeed/stats.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

OpenOptions OneFileOptions(OpenOptions options) {
  options.cycle = 1;
  options.threads = 1;
  return options;
}

MetDamage DamageOf(const Reader& reader, const std::string& file) {
  PipelineStats stats = reader.Stats();
  MetDamage damage{std::move(stats.damage), stats.damaged_records, std::move(stats.warnings)};
  // If a range was noted, it is the one that reading failed at.
  if (damage.ranges.empty()) AddFailure(reader.status(), file, &damage);
  return damage;
}

}  // namespace

void AddFailure(const Status& failure, const std::string& file, MetDamage* damage) {
  const bool is_damage =
      failure.code() == StatusCode::kDamaged || failure.code() == StatusCode::kTruncated;
  if (!is_damage || failure.place().offset < 0) return;
  const auto begin = static_cast<std::uint64_t>(failure.place().offset);
  std::error_code ignored;
  const std::uintmax_t size = std::filesystem::file_size(file, ignored);
  const std::uint64_t end = ignored ? begin : std::max<std::uint64_t>(begin, size);
  damage->ranges.push_back({file, begin, end, failure.message()});
}

FileRecords::FileRecords(std::string file, const OpenOptions& options)
    : file_(std::move(file)), reader_(OpenFiles({file_}, OneFileOptions(options))) {}

FileRecords::FileRecords(std::unique_ptr<StreamSource> stream, const OpenOptions& options)
    : file_(stream->name()),
      reader_(OpenStreamSource(std::move(stream), OneFileOptions(options))) {}

ReadResult FileRecords::Next(std::span<const RecordSpan>* records) {
  return Next(records, kNoDeadline);
}

ReadResult FileRecords::Next(std::span<const RecordSpan>* records, Deadline deadline) {
  const ReadResult result = deadline == kNoDeadline
                                ? reader_.TryReadBlock(&block_)
                                : reader_.TryReadBlock(&block_, {.deadline = deadline});
  *records = result == ReadResult::kRecord ? block_.records() : std::span<const RecordSpan>();
  const auto damaged = [](const RecordSpan& record) { return record.damaged(); };
  if (std::none_of(records->begin(), records->end(), damaged)) return result;
  intact_.clear();
  std::remove_copy_if(records->begin(), records->end(), std::back_inserter(intact_), damaged);
  *records = intact_;
  return result;
}

MetDamage FileRecords::Damage() const { return DamageOf(reader_, file_); }

FileRows::FileRows(std::string file, const OpenOptions& options,
                   std::shared_ptr<const Parser> parser)
    : file_(std::move(file)),
      reader_(Parse(OpenFiles({file_}, OneFileOptions(options)), std::move(parser))) {}

FileRows::FileRows(std::string file, const OpenOptions& options, const std::string& table_format,
                   const TableOptions& tables)
    : file_(std::move(file)),
      reader_(OpenTableRows(table_format, {file_}, OneFileOptions(options), tables)) {}

MetDamage FileRows::Damage() const { return DamageOf(reader_, file_); }

}  // namespace ringfeed::tools
