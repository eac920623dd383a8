#include "readers/arrow/table_group.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/refuse.h"
#include "base/user_call.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kMostEmptyArrays = 4096;

// What the producer says of its failure, as much as fits into a message.
Status StreamFailure(ArrowArrayStream* stream, int code) {
  constexpr std::size_t kMostText = 1000;
  const char* const told =
      stream->get_last_error == nullptr ? nullptr : stream->get_last_error(stream);
  const std::string text =
      told == nullptr ? std::strerror(code) : std::string(told, strnlen(told, kMostText));
  return Status(code == ENOMEM ? StatusCode::kResourceExhausted : StatusCode::kDamaged,
                "Arrow's stream failed: " + text);
}

Status CheckStream(const ArrowArrayStream& stream) {
  if (stream.release != nullptr && stream.get_schema != nullptr && stream.get_next != nullptr) {
    return {};
  }
  return Status(StatusCode::kDamaged, "Arrow's stream was released, or lacks its functions");
}

// What one of the stream's functions gives.
template <typename Structure>
Status Take(ArrowArrayStream* stream, int (*give)(ArrowArrayStream*, Structure*),
            Owned<Structure>* taken) {
  if (Status status = CheckStream(*stream); !status.ok()) return status;
  Structure given{};
  if (const int code = give(stream, &given); code != 0) return StreamFailure(stream, code);
  *taken = Owned(given);
  return {};
}

}  // namespace

Status ReadStreamSchema(ArrowArrayStream* stream, Owned<ArrowSchema>* schema) {
  return Take(stream, stream->get_schema, schema);
}

Status ReadStreamArray(ArrowArrayStream* stream, Owned<ArrowArray>* array) {
  return Take(stream, stream->get_next, array);
}

Status TableGroup::Read(ArrowArrayStream* stream, const std::vector<std::string>& columns,
                        const std::vector<FieldSpec>& fields, std::uint64_t rows,
                        TableGroup* group) {
  Owned<ArrowSchema> schema;
  ColumnType type;
  if (Status status = ReadStreamSchema(stream, &schema); !status.ok()) return status;
  if (Status status = ReadColumnType(*schema, &type); !status.ok()) return status;
  std::vector<ColumnPath> paths;
  if (Status status = FindColumns(type, columns, &paths); !status.ok()) {
    return Status(StatusCode::kDamaged, status.message());
  }
  const auto is_alike = [](const ColumnPath& path, const FieldSpec& field) {
    return path.field == field;
  };
  if (!std::equal(paths.begin(), paths.end(), fields.begin(), fields.end(), is_alike)) {
    return Status(StatusCode::kDamaged, "its columns are of other types than the first group's");
  }
  std::uint64_t read = 0;
  std::uint64_t empty = 0;
  while (true) {
    Part part;
    part.first_row = read;
    if (Status status = ReadStreamArray(stream, &part.array); !status.ok()) return status;
    if (part.array.is_released()) break;
    const std::int64_t length = part.array->length;
    if (length < 0 || static_cast<std::uint64_t>(length) > rows - read) {
      return Status(StatusCode::kDamaged, "it has more rows than " + std::to_string(rows));
    }
    for (const ColumnPath& path : paths) {
      Status status = PathColumn::Open(type, *part.array, path, &part.columns.emplace_back());
      if (!status.ok()) return status;
    }
    read += static_cast<std::uint64_t>(length);
    if (length > 0) group->parts_.push_back(std::move(part));
    if (length == 0 && ++empty > kMostEmptyArrays) {
      return Status(StatusCode::kDamaged, "it has thousands of arrays without rows");
    }
  }
  if (read == rows) return {};
  return Status(StatusCode::kDamaged, "it has " + std::to_string(read) + " rows, and should have " +
                                          std::to_string(rows));
}

const TableGroup::Part& TableGroup::PartOf(std::uint64_t row) const {
  const auto after = std::upper_bound(
      parts_.begin(), parts_.end(), row,
      [](std::uint64_t sought, const Part& part) { return sought < part.first_row; });
  return *(after - 1);
}

Status OpenGroups::Get(std::uint64_t number, std::shared_ptr<const TableGroup>* group) {
  std::shared_ptr<Entry> entry;
  {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<Entry>& found = entries_[number];
    if (found == nullptr) found = std::make_shared<Entry>();
    entry = found;
  }
  const std::scoped_lock lock(entry->mutex);
  *group = entry->group.lock();
  if (*group == nullptr) {
    if (Status status = Open(number, group); !status.ok()) return status;
    entry->group = *group;
  }
  Keep(*group);
  return {};
}

Status OpenGroups::Open(std::uint64_t number, std::shared_ptr<const TableGroup>* group) {
  Owned<ArrowArrayStream> stream;
  Status status = CallUser(
      "the table " + table_->name(), [&] { table_->Open(number, columns_, &*stream); },
      ThrownError::kKeepsStatus);
  auto made = std::make_shared<TableGroup>();
  if (status.ok()) {
    status = TableGroup::Read(&*stream, columns_, fields_, table_->rows(number), made.get());
  }
  opened_groups_.fetch_add(1, std::memory_order_relaxed);
  if (!status.ok()) {
    return Status(status.code(), "group " + std::to_string(number) + ": " + status.message());
  }
  decoded_rows_.fetch_add(table_->rows(number), std::memory_order_relaxed);
  *group = std::move(made);
  return {};
}

void OpenGroups::AddTo(PipelineStats* stats) const {
  stats->tables.opened_groups += opened_groups_.load(std::memory_order_relaxed);
  stats->tables.decoded_rows += decoded_rows_.load(std::memory_order_relaxed);
  stats->tables.taken_rows += taken_rows_.load(std::memory_order_relaxed);
  // The numbers of rows were counted as read, and no file has them.
  stats->read_bytes -= std::min(stats->read_bytes, made_bytes_.load(std::memory_order_relaxed));
  stats->read_bytes += table_->read_bytes();
}

void OpenGroups::CheckSingleRows() const {
  if (table_->in_memory() || table_->groups() <= kept_groups_) return;
  Refuse("a global shuffle of the table " + table_->name() +
         " would decode a group for nearly every row: shuffle its stripes with a window "
         "(ShuffleMode::kStripes), or keep all " +
         std::to_string(table_->groups()) + " groups decoded (TableOptions::kept_groups)");
}

void OpenGroups::Keep(const std::shared_ptr<const TableGroup>& group) {
  std::shared_ptr<const TableGroup> dropped;  // outside of the mutex: it may call the producer
  const std::scoped_lock lock(mutex_);
  const auto found = std::find(kept_.begin(), kept_.end(), group);
  if (found != kept_.end()) kept_.erase(found);
  kept_.push_front(group);
  if (kept_.size() <= kept_groups_) return;
  dropped = std::move(kept_.back());
  kept_.pop_back();
}

}  // namespace ringfeed
