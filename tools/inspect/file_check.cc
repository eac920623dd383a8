#include "tools/inspect/file_check.h"

#include <algorithm>
#include <span>
#include <utility>

#include "io/remote/address.h"
#include "readers/chain/record_walk.h"
#include "readers/formats/data_set.h"
#include "readers/formats/examined_file.h"
#include "ringfeed/io_options.h"
#include "ringfeed/reader.h"
#include "tools/file_records.h"
#include "tools/one_pass.h"
#include "tools/table_rows.h"

namespace ringfeed::tools {
namespace {

// The threads and rings of a pipeline cost more than reading so much.
constexpr std::uint64_t kSmallFile = std::uint64_t{4} << 20;

// The common part for FileRecords and RecordWalk.
template <typename Records>
void CountRecords(Records* records, const ByteProgress& progress, const std::stop_token& stop,
                  FileCheck* check) {
  ReadResult read;
  std::span<const RecordSpan> some;
  while ((read = records->Next(&some)) == ReadResult::kRecord) {
    std::uint64_t bytes = 0;
    for (const RecordSpan& record : some) {
      bytes += record.size;
      check->records += record.damaged() ? 0 : 1;
    }
    check->payload_bytes += bytes;
    progress(bytes);
    // A small compressed file may hold hours of content, and a walk cannot be closed from outside.
    if (stop.stop_requested()) {
      check->status = Status(StatusCode::kCancelled, "interrupted");
      return;
    }
  }
  if (read == ReadResult::kFailed) check->status = records->status();
}

void CheckByWalk(RecordWalk* walk, const ByteProgress& progress, const std::stop_token& stop,
                 FileCheck* check) {
  CountRecords(walk, progress, stop, check);
  MetDamage damage{walk->damage(), walk->damage().size()};
  AddFailure(check->status, check->file, &damage);
  check->damaged_records = damage.records;
  check->damage = std::move(damage.ranges);
  check->damage.resize(std::min(check->damage.size(), kMostRanges));
  check->warnings = walk->warnings();
}

void CheckByPipeline(const OpenOptions& options, IoPath path, const ByteProgress& progress,
                     const std::stop_token& stop, FileCheck* check) {
  OpenOptions by_path = options;
  by_path.io.path = path;
  by_path.strict = false;  // a warning is in the result
  FileRecords records(check->file, by_path);
  const std::stop_callback close_at_stop(stop, [&records] { records.Close(); });
  CountRecords(&records, progress, stop, check);
  MetDamage damage = records.Damage();
  check->warnings = std::move(damage.warnings);
  check->damaged_records = damage.records;
  check->damage = std::move(damage.ranges);
}

// Reads up to the first damage. A file that is in memory and is best copied from there needs no
// thread that reads ahead.
void CheckToDamage(const OpenOptions& options, IoPath path, bool compressed,
                   const ByteProgress& progress, const std::stop_token& stop, FileCheck* check) {
  OpenOptions intact = options;
  intact.on_damage = OnDamage::kFail;
  if (path != IoPath::kPread || compressed) {
    return CheckByPipeline(intact, path, progress, stop, check);
  }
  RecordWalk walk(check->file, intact);
  CheckByWalk(&walk, progress, stop, check);
}

// Most files are intact and need no report of skipped ranges, which costs as much as reading many
// megabytes. The others are read once more.
void CheckLargeFile(const OpenOptions& options, bool compressed, const ByteProgress& progress,
                    const std::stop_token& stop, FileCheck* check) {
  const IoPath path = PathOfOnePass(check->file);
  FileCheck first = *check;
  CheckToDamage(options, path, compressed, progress, stop, &first);
  const bool final = first.status.ok() || first.status.code() == StatusCode::kCancelled ||
                     options.on_damage == OnDamage::kFail;
  if (final) {
    *check = std::move(first);
  } else {
    CheckByPipeline(options, path, progress, stop, check);
  }
}

// A null is no damage.
void CheckTable(const OpenOptions& options, TableOptions tables, const ByteProgress& progress,
                const std::stop_token& stop, FileCheck* check) {
  tables.nulls.on_null = OnNull::kDefault;
  FileRows rows(check->file, options, check->format, tables);
  const std::stop_callback close_at_stop(stop, [&rows] { rows.Close(); });
  Instance row;
  ReadResult read;
  while ((read = rows.Next(&row)) == ReadResult::kRecord) {
    std::uint64_t bytes = 0;
    for (const Tensor& value : row) bytes += value.bytes;
    ++check->records;
    check->payload_bytes += bytes;
    progress(bytes);
  }
  if (read == ReadResult::kFailed) check->status = rows.status();
  const MetDamage damage = rows.Damage();
  check->damaged_records = damage.records;
  check->damage = damage.ranges;
}

}  // namespace

FileCheck CheckFile(const std::string& file, const OpenOptions& options,
                    const ByteProgress& progress, const std::stop_token& stop,
                    const TableOptions& tables) {
  FileCheck check;
  check.file = ShownAddress(file);
  check.strict = options.strict;
  if (stop.stop_requested()) {
    check.status = Status(StatusCode::kCancelled, "interrupted");
    return check;
  }
  try {
    check.format = TableFormat({file}, options, tables);
    if (!check.format.empty()) {
      CheckTable(options, tables, progress, stop, &check);
      return check;
    }
    check.format = options.format;
    if (!IsRegularFile(file)) {
      CheckByPipeline(options, IoPath::kAuto, progress, stop, &check);
      return check;
    }
    RecordWalk walk(file, options);
    check.format = walk.format().name();
    if (walk.file_bytes() == 0) {
      check.warnings.push_back({file, std::string(kEmptyFile)});
      return check;
    }
    if (walk.file_bytes() <= kSmallFile) {
      CheckByWalk(&walk, progress, stop, &check);
    } else {
      CheckLargeFile(options, walk.compressed(), progress, stop, &check);
    }
    if (check.intact()) check.status = CheckListed(file, check.records);
  } catch (const Error& error) {
    check.status = error.status();
  }
  return check;
}

}  // namespace ringfeed::tools
