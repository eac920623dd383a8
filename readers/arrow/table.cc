// Tables as data sets. Each group is a file of 16 bytes a row, which nobody stores: the number of
// the group, 32 bits of its identity, and the number of the row. So all orders, positions and ranks
// are those of files, and data sets differ if their groups do. The parser takes the rows that such
// records name out of the groups.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/little_endian.h"
#include "base/mixed_hash.h"
#include "base/refuse.h"
#include "base/stream_copy.h"
#include "readers/arrow/table_columns.h"
#include "readers/arrow/table_group.h"
#include "readers/parsers/grouped_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "ringfeed/decorators.h"
#include "ringfeed/parsers.h"
#include "ringfeed/source.h"
#include "ringfeed/tables/table_source.h"

namespace ringfeed {
namespace {

constexpr std::size_t kRowBytes = 16;
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 56;
constexpr std::uint64_t kMostGroups = 1'000'000;
// Stripes take pinned memory: 16 MiB for so many.
constexpr std::uint64_t kMostStripeRows = std::uint64_t{1} << 20;

/// The rows of a group as a file.
class GroupRows final : public Source {
 public:
  GroupRows(const TableSource& table, std::uint64_t group, std::shared_ptr<OpenGroups> groups)
      : groups_(std::move(groups)),
        name_(table.group_name(group)),
        group_(group | MixedHash().Add(table.identity(group)).value() << 32),
        rows_(table.rows(group)) {}

  std::string name() const override { return name_; }
  std::uint64_t Size() const override { return rows_ * kRowBytes; }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    const std::uint64_t end = std::min(Size(), offset + buffer.size());
    *bytes_read = 0;
    for (std::uint64_t at = offset; at < end;) {
      std::byte row[kRowBytes];
      StoreLe(row, group_);
      StoreLe(row + sizeof(group_), at / kRowBytes);
      const auto from = static_cast<std::size_t>(at % kRowBytes);
      const auto some = static_cast<std::size_t>(std::min(kRowBytes - from, end - at));
      std::memcpy(buffer.data() + *bytes_read, row + from, some);
      *bytes_read += some;
      at += some;
    }
    groups_->NoteMade(*bytes_read);
    return {};
  }

 private:
  const std::shared_ptr<OpenGroups> groups_;
  const std::string name_;
  const std::uint64_t group_;  ///< its number, and above it the hash
  const std::uint64_t rows_;
};

/// What a thread needs to take rows.
struct TableScratch final : Parser::Scratch {
  struct Group {
    std::uint64_t number = 0;
    std::shared_ptr<const TableGroup> rows;
  };
  std::vector<Group> groups;  ///< that rows are taken of, the last one that was asked for last
  /// Rows that are located together, by their numbers in a part of the last group.
  std::vector<std::int64_t> run;
  const TableGroup::Part* part = nullptr;
  LocatedStorage storage;
  std::vector<std::byte> stage;  ///< packed rows of a run, which stay in the cache meanwhile
  LocatedStorage converted;      ///< values on their way into packed rows
  // For Write: either of them is used.
  StagedColumns columns;
  std::unique_ptr<Parser::Scratch> packed;
  std::vector<RecordSpan> packed_rows;
};

/// Takes rows out of groups. Narrow columns are packed: Locate copies the values of some rows,
/// column by column, into records of one size, which RowsParser writes. Else a row's values are
/// located one by one, and Write copies them from Arrow's memory.
class TableParser final : public Parser, public GroupedRows {
 public:
  TableParser(std::shared_ptr<OpenGroups> groups, const std::vector<FieldSpec>& fields,
              const TableOptions& options)
      : groups_(std::move(groups)), columns_(fields, options) {
    for (const FieldSpec& field : columns_.fields()) {
      if (AddField(field)) continue;
      Refuse("the table has two columns \"" + field.name + "\", or one of its mask's name");
    }
    two_phase_ = units_alike_ = true;
    locates_rows_ = columns_.are_narrow();
    if (locates_rows_) packed_ = RowsParser(fields_);
    for (const FieldSpec& field : fields_) units_.push_back({field.unit_bytes()});
  }

  std::string name() const override { return "table"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    auto scratch = std::make_unique<TableScratch>();
    if (packed_ != nullptr) {
      scratch->packed = packed_->NewScratch();
    } else {
      scratch->columns = StagedColumns(fields_.size(), 8 * 1024);
    }
    return scratch;
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override;
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    struct Held {
      std::vector<TableScratch::Group> groups;
      std::shared_ptr<const void> storage;
    };
    auto* const own = static_cast<TableScratch*>(scratch);
    Held held{std::exchange(own->groups, {}), own->storage.Take()};
    if (packed_ != nullptr) return held.storage;  // nothing points into groups
    return std::make_shared<Held>(std::move(held));
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>* failures) const override;
  void CheckSingleRows() const override { groups_->CheckSingleRows(); }
  void AddTo(PipelineStats* stats) const override { groups_->AddTo(stats); }

 private:
  struct Unit {
    std::size_t unit_bytes = 0;
  };

  Status TakeRun(std::span<const RecordSpan> rows, TableScratch* own) const;
  Status GroupOf(std::uint64_t number, TableScratch* own) const;
  void LocateRun(std::size_t first_row, FieldLocation* locations, TableScratch* own,
                 std::vector<RowFailure>* failures) const;
  void PackRun(std::size_t first_row, FieldLocation* locations, TableScratch* own,
               std::vector<RowFailure>* failures) const;

  const std::shared_ptr<OpenGroups> groups_;
  const TableColumns columns_;
  std::vector<Unit> units_;
  std::shared_ptr<const Parser> packed_;  ///< writes packed rows; null if rows are not packed
};

void TableParser::Locate(std::span<const RecordSpan> rows, FieldLocation* locations,
                         Scratch* scratch, std::vector<RowFailure>* failures) const {
  auto* const own = static_cast<TableScratch*>(scratch);
  for (std::size_t first = 0; first < rows.size(); first += own->run.size()) {
    const Status status = TakeRun(rows.subspan(first), own);
    FieldLocation* const to = locations + first * row_locations();
    if (!status.ok()) {
      for (std::size_t i = 0; i < own->run.size(); ++i) failures->push_back({first + i, status});
    } else if (packed_ != nullptr) {
      PackRun(first, to, own, failures);
    } else {
      LocateRun(first, to, own, failures);
    }
  }
  StreamFence();
  groups_->NoteTaken(rows.size());
}

// The first rows that are of one part. If it cannot be had, those of its group.
Status TableParser::TakeRun(std::span<const RecordSpan> rows, TableScratch* own) const {
  own->run.assign(1, 0);
  if (rows.front().size != kRowBytes) return Status(StatusCode::kInternal, "a row of no table");
  const auto group = LoadLe<std::uint64_t>(rows.front().data);
  const auto first = LoadLe<std::uint64_t>(rows.front().data + 8);
  const Status status = GroupOf(static_cast<std::uint32_t>(group), own);
  own->part = status.ok() ? &own->groups.back().rows->PartOf(first) : nullptr;
  const std::uint64_t before = status.ok() ? own->part->first_row : 0;
  own->run.clear();
  for (const RecordSpan& record : rows.first(std::min(rows.size(), columns_.run_rows()))) {
    if (record.size != kRowBytes || LoadLe<std::uint64_t>(record.data) != group) break;
    const auto row = LoadLe<std::uint64_t>(record.data + 8);
    if (status.ok() && !own->part->Has(row)) break;
    own->run.push_back(static_cast<std::int64_t>(row - before));
  }
  return status;
}

Status TableParser::GroupOf(std::uint64_t number, TableScratch* own) const {
  std::vector<TableScratch::Group>& groups = own->groups;
  for (std::size_t i = groups.size(); i-- > 0;) {
    if (groups[i].number != number) continue;
    std::swap(groups[i], groups.back());
    return {};
  }
  std::shared_ptr<const TableGroup> rows;
  if (Status status = groups_->Get(number, &rows); !status.ok()) return status;
  groups.push_back({number, std::move(rows)});
  return {};
}

void TableParser::LocateRun(std::size_t first_row, FieldLocation* locations, TableScratch* own,
                            std::vector<RowFailure>* failures) const {
  for (std::size_t i = 0; i < own->run.size(); ++i) {
    Status status = columns_.Locate(own->part->columns, own->run[i], &own->storage,
                                    locations + i * fields_.size());
    if (!status.ok()) failures->push_back({first_row + i, std::move(status)});
  }
}

void TableParser::PackRun(std::size_t first_row, FieldLocation* locations, TableScratch* own,
                          std::vector<RowFailure>* failures) const {
  const std::span<const std::int64_t> rows = own->run;
  const std::size_t row_bytes = columns_.packed_bytes();
  std::byte* const packed = own->storage.Allocate(rows.size() * row_bytes);
  own->stage.resize(rows.size() * row_bytes);
  const auto pack = [&](std::span<const std::int64_t> some, std::byte* to) {
    Status status = columns_.Pack(own->part->columns, some, &own->converted, to);
    own->converted.Clear();
    return status;
  };
  const bool all = pack(rows, own->stage.data()).ok();
  if (all) StreamCopy(packed, own->stage.data(), own->stage.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::byte* const row = packed + i * row_bytes;
    locations[i] = {row, static_cast<std::uint32_t>(row_bytes)};
    if (all) continue;
    if (Status status = pack(rows.subspan(i, 1), row); !status.ok()) {
      failures->push_back({first_row + i, std::move(status)});
    }
  }
}

void TableParser::Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
                        std::span<const ColumnTarget> targets, Scratch* scratch,
                        std::vector<RowFailure>* failures) const {
  auto* const own = static_cast<TableScratch*>(scratch);
  if (packed_ != nullptr) {
    own->packed_rows.clear();
    for (const FieldLocation& at : std::span(locations, rows.size())) {
      own->packed_rows.push_back({at.data, at.bytes});
    }
    return packed_->Write(own->packed_rows, nullptr, targets, own->packed.get(), failures);
  }
  own->columns.Start(units_, targets);
  // So many rows at a time, for each column in turn: their locations, and the values of the next
  // rows, stay in the cache.
  constexpr std::size_t kTogether = 64;
  for (std::size_t begin = 0; begin < rows.size(); begin += kTogether) {
    const std::size_t end = std::min(rows.size(), begin + kTogether);
    const std::size_t ahead = std::min(rows.size(), end + kTogether);
    for (std::size_t at = end * fields_.size(); at < ahead * fields_.size(); ++at) {
      __builtin_prefetch(locations[at].data, 0, 2);
    }
    own->columns.AppendLocated(targets, locations + begin * fields_.size(), begin, end - begin);
  }
  own->columns.Finish();
}

/// A stream's arrays and their type.
struct KeptTable {
  std::string name;
  std::string identity;
  Owned<ArrowSchema> schema;
  std::vector<Owned<ArrowArray>> arrays;
};
using SharedTable = std::shared_ptr<const KeptTable>;

// The same structure once more, as long as the table lives.
template <typename Structure>
Structure ShareOf(const Structure& structure, const SharedTable& table) {
  Structure shared = structure;
  shared.private_data = new SharedTable(table);
  shared.release = [](Structure* self) {
    delete static_cast<SharedTable*>(self->private_data);
    self->release = nullptr;
  };
  return shared;
}

/// The target of private_data of a stream of one kept array.
struct KeptArrayStream {
  SharedTable table;
  std::size_t number = 0;
  bool was_given = false;

  static KeptArrayStream* Of(ArrowArrayStream* stream) {
    return static_cast<KeptArrayStream*>(stream->private_data);
  }
};

class MemoryTable final : public TableSource {
 public:
  explicit MemoryTable(SharedTable table) : table_(std::move(table)) {}

  std::string name() const override { return table_->name; }
  std::uint64_t groups() const override {
    return std::max<std::uint64_t>(1, table_->arrays.size());
  }
  std::uint64_t rows(std::uint64_t group) const override {
    if (table_->arrays.empty()) return 0;
    return static_cast<std::uint64_t>(table_->arrays[group]->length);
  }
  std::string identity(std::uint64_t) const override { return table_->identity; }
  bool in_memory() const override { return true; }
  void Open(std::uint64_t group, const std::vector<std::string>&,
            ArrowArrayStream* stream) override {
    *stream = {};
    stream->get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
      const SharedTable& table = KeptArrayStream::Of(self)->table;
      *out = ShareOf(*table->schema, table);
      return 0;
    };
    stream->get_next = [](ArrowArrayStream* self, ArrowArray* out) {
      KeptArrayStream* const kept = KeptArrayStream::Of(self);
      *out = {};
      if (!kept->was_given) *out = ShareOf(*kept->table->arrays[kept->number], kept->table);
      kept->was_given = true;
      return 0;
    };
    stream->get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; };
    stream->release = [](ArrowArrayStream* self) {
      delete KeptArrayStream::Of(self);
      self->release = nullptr;
    };
    stream->private_data = new KeptArrayStream{table_, group, table_->arrays.empty()};
  }

 private:
  const SharedTable table_;
};

void NeedOk(const Status& status) {
  if (!status.ok()) throw Error(status);
}

// The wanted columns' fields.
std::vector<FieldSpec> FieldsOf(TableSource* table, const std::vector<std::string>& columns) {
  Owned<ArrowSchema> schema;
  table->Describe(columns, &*schema);
  ColumnType type;
  NeedOk(ReadColumnType(*schema, &type));
  std::vector<ColumnPath> paths;
  NeedOk(FindColumns(type, columns, &paths));
  std::vector<FieldSpec> fields;
  for (ColumnPath& path : paths) fields.push_back(std::move(path.field));
  return fields;
}

std::string TooManyGroups(const std::string& table) {
  return "the table " + table + " has more than " + std::to_string(kMostGroups) +
         " groups: make larger ones";
}

void CheckTable(const TableSource* table) {
  if (table == nullptr) Refuse("OpenTable: the table is null");
  if (table->groups() == 0) Refuse("the table " + table->name() + " has no groups");
  if (table->groups() > kMostGroups) Refuse(TooManyGroups(table->name()));
}

}  // namespace

void TableSource::Describe(const std::vector<std::string>& columns, ArrowSchema* schema) {
  Owned<ArrowArrayStream> stream;
  Open(0, columns, &*stream);
  Owned<ArrowSchema> given;
  NeedOk(ReadStreamSchema(&*stream, &given));
  *schema = given.Take();
}

std::shared_ptr<TableSource> TableOfStream(ArrowArrayStream* stream, std::string name,
                                           std::string identity) {
  Owned<ArrowArrayStream> own(std::exchange(*stream, {}));
  auto table = std::make_shared<KeptTable>();
  table->name = std::move(name);
  table->identity = std::move(identity);
  NeedOk(ReadStreamSchema(&*own, &table->schema));
  while (true) {
    Owned<ArrowArray> array;
    NeedOk(ReadStreamArray(&*own, &array));
    if (array.is_released()) return std::make_shared<MemoryTable>(std::move(table));
    if (array->length < 0) NeedOk({StatusCode::kDamaged, "an array of negative length"});
    table->arrays.push_back(std::move(array));
    if (table->arrays.size() > kMostGroups) Refuse(TooManyGroups(table->name));
  }
}

Reader OpenTable(std::shared_ptr<TableSource> table, const TableOptions& options) {
  CheckTable(table.get());
  const std::vector<FieldSpec> fields = FieldsOf(table.get(), options.columns);
  for (const auto& [name, nulls] : options.nulls_of) {
    const auto has_name = [&, &of = name](const FieldSpec& field) { return field.name == of; };
    if (std::none_of(fields.begin(), fields.end(), has_name)) {
      Refuse("nulls are said of \"" + name + "\", which is none of the fields");
    }
  }
  const auto opened = std::make_shared<OpenGroups>(table, options, fields);
  std::vector<std::shared_ptr<Source>> groups;
  std::uint64_t most_rows = 1;
  for (std::uint64_t group = 0; group < table->groups(); ++group) {
    const std::uint64_t rows = table->rows(group);
    if (rows > kMostRows) Refuse("the table " + table->name() + " has too many rows");
    most_rows = std::max(most_rows, rows);
    groups.push_back(std::make_shared<GroupRows>(*table, group, opened));
  }
  OpenOptions open = options.open;
  if (open.tuned_format == "table") open.tuned_format.clear();
  open.format = "rows:" + std::to_string(kRowBytes);
  if (table->in_memory()) {
    open.cycle = 1;
  } else {
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t bytes = std::min(most_rows, kMostStripeRows) * kRowBytes;
    open.stripe_bytes = static_cast<std::size_t>((bytes + kPage - 1) / kPage * kPage);
  }
  auto parser = std::make_shared<const TableParser>(opened, fields, options);
  return Parse(OpenSources(std::move(groups), open), std::move(parser));
}

}  // namespace ringfeed
