// Tables as data sets. Each group is a file of 16 bytes a row, the numbers of the group and of the
// row, which nobody stores; so all orders, positions and ranks are those of files. The parser takes
// the rows that such records name out of the groups.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/little_endian.h"
#include "base/refuse.h"
#include "readers/arrow/table_group.h"
#include "readers/parsers/element_value.h"
#include "readers/parsers/grouped_rows.h"
#include "readers/parsers/parser.h"
#include "readers/parsers/staged_columns.h"
#include "ringfeed/decorators.h"
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
  GroupRows(std::string name, std::uint64_t group, std::uint64_t rows)
      : name_(std::move(name)), group_(group), rows_(rows) {}

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
    return {};
  }

 private:
  const std::string name_;
  const std::uint64_t group_;
  const std::uint64_t rows_;
};

/// What a thread needs to take rows.
struct TableScratch final : Parser::Scratch {
  explicit TableScratch(std::size_t fields) : columns(fields, 8 * 1024) {}

  struct Group {
    std::uint64_t number = 0;
    std::shared_ptr<const TableGroup> rows;
  };
  std::vector<Group> groups;  ///< that locations point into, the last one that was asked for last
  LocatedStorage storage;
  StagedColumns columns;
};

/// The field of a wanted column, and of its mask.
struct TableField {
  std::size_t unit_bytes = 0;
  OnNull on_null = OnNull::kFail;
  std::vector<std::byte> value{};  ///< of a fixed row in place of a null; empty: an empty row
};

class TableParser final : public Parser, public GroupedRows {
 public:
  TableParser(std::shared_ptr<OpenGroups> groups, const std::vector<FieldSpec>& fields,
              const TableOptions& options)
      : groups_(std::move(groups)) {
    for (const FieldSpec& field : fields) AddColumn(field, options);
    two_phase_ = units_alike_ = true;
    for (const FieldSpec& field : fields_) units_.push_back({field.unit_bytes()});
  }

  std::string name() const override { return "table"; }
  std::unique_ptr<Scratch> NewScratch() const override {
    return std::make_unique<TableScratch>(fields_.size());
  }
  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch* scratch,
              std::vector<RowFailure>* failures) const override {
    auto* const own = static_cast<TableScratch*>(scratch);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      Status status = LocateRow(rows[row], locations + row * fields_.size(), own);
      if (!status.ok()) failures->push_back({row, std::move(status)});
    }
    groups_->NoteTaken(rows.size());
  }
  std::shared_ptr<const void> TakeStorage(Scratch* scratch) const override {
    struct Held {
      std::vector<TableScratch::Group> groups;
      std::shared_ptr<const void> storage;
    };
    auto* const own = static_cast<TableScratch*>(scratch);
    return std::make_shared<Held>(Held{std::exchange(own->groups, {}), own->storage.Take()});
  }
  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>*) const override {
    auto* const own = static_cast<TableScratch*>(scratch);
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
  void CheckSingleRows() const override { groups_->CheckSingleRows(); }
  void AddTo(PipelineStats* stats) const override { groups_->AddTo(&stats->tables); }

 private:
  struct Unit {
    std::size_t unit_bytes = 0;
  };

  void AddColumn(const FieldSpec& field, const TableOptions& options);
  Status LocateRow(const RecordSpan& record, FieldLocation* locations, TableScratch* own) const;
  Status LocateColumn(const TableGroup::Part& part, std::uint64_t row, std::size_t number,
                      TableScratch* own, FieldLocation* at) const;
  Status GroupOf(std::uint64_t number, TableScratch* own) const;

  const std::shared_ptr<OpenGroups> groups_;
  std::vector<TableField> columns_;
  std::vector<Unit> units_;
};

void TableParser::AddColumn(const FieldSpec& field, const TableOptions& options) {
  const auto own = options.nulls_of.find(field.name);
  const NullOptions& nulls = own == options.nulls_of.end() ? options.nulls : own->second;
  TableField column{field.unit_bytes(), nulls.on_null};
  if (!field.ragged() && nulls.on_null != OnNull::kFail) {
    column.value.resize(column.unit_bytes);
    ElementValue::Of(nulls.value, field.dtype, "column \"" + field.name + "\"")
        .Fill(column.value.data(), column.value.size());
  }
  bool is_new = AddField(field);
  columns_.push_back(std::move(column));
  if (nulls.on_null == OnNull::kMask) {
    is_new = AddField({field.name + "_valid", DType::kUInt8, {}}) && is_new;
  }
  if (!is_new)
    Refuse("the table has two columns \"" + field.name + "\", or one of its mask's name");
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

Status TableParser::LocateRow(const RecordSpan& record, FieldLocation* locations,
                              TableScratch* own) const {
  if (record.size != kRowBytes) return Status(StatusCode::kInternal, "a row of no table");
  if (Status status = GroupOf(LoadLe<std::uint64_t>(record.data), own); !status.ok()) return status;
  const auto row = LoadLe<std::uint64_t>(record.data + 8);
  const TableGroup::Part& part = own->groups.back().rows->PartOf(row);
  FieldLocation* at = locations;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::string& name = fields_[static_cast<std::size_t>(at - locations)].name;
    Status status = LocateColumn(part, row, c, own, at);
    if (!status.ok()) return Status(status.code(), "column \"" + name + "\": " + status.message());
    at += columns_[c].on_null == OnNull::kMask ? 2 : 1;
  }
  return {};
}

Status TableParser::LocateColumn(const TableGroup::Part& part, std::uint64_t row,
                                 std::size_t number, TableScratch* own, FieldLocation* at) const {
  static constexpr std::byte kMask[2] = {std::byte{0}, std::byte{1}};
  const TableField& column = columns_[number];
  ColumnValue value;
  Status status = part.At(row, number, &own->storage, &value);
  if (!status.ok()) return status;
  if (value.is_null && column.on_null == OnNull::kFail) {
    return Status(StatusCode::kDamaged, "it is null: TableOptions::nulls says what stands for it");
  }
  if (column.on_null == OnNull::kMask) {
    LocateAt(&kMask[value.is_null ? 0 : 1], 1, 0, at + 1);
  }
  if (value.is_null) value = {column.value.data(), column.value.size()};
  if (LocateAt(value.data, value.bytes, value.units, at)) return status;
  return Status(StatusCode::kUnsupported, "4 GiB and more in a row");
}

/// A stream's arrays and their type.
struct KeptTable {
  std::string name;
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
  std::uint64_t groups() const override { return table_->arrays.size(); }
  std::uint64_t rows(std::uint64_t group) const override {
    return static_cast<std::uint64_t>(table_->arrays[group]->length);
  }
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
    stream->private_data = new KeptArrayStream{table_, group};
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

std::shared_ptr<TableSource> TableOfStream(ArrowArrayStream* stream, std::string name) {
  Owned<ArrowArrayStream> own(std::exchange(*stream, {}));
  auto table = std::make_shared<KeptTable>();
  table->name = std::move(name);
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
  std::vector<std::shared_ptr<Source>> groups;
  std::uint64_t most_rows = 1;
  for (std::uint64_t group = 0; group < table->groups(); ++group) {
    const std::uint64_t rows = table->rows(group);
    if (rows > kMostRows) Refuse("the table " + table->name() + " has too many rows");
    most_rows = std::max(most_rows, rows);
    groups.push_back(std::make_shared<GroupRows>(table->group_name(group), group, rows));
  }
  OpenOptions open = options.open;
  open.format = "rows:" + std::to_string(kRowBytes);
  if (table->in_memory()) {
    open.cycle = 1;
  } else {
    constexpr std::uint64_t kPage = 4096;
    const std::uint64_t bytes = std::min(most_rows, kMostStripeRows) * kRowBytes;
    open.stripe_bytes = static_cast<std::size_t>((bytes + kPage - 1) / kPage * kPage);
  }
  auto parser = std::make_shared<const TableParser>(
      std::make_shared<OpenGroups>(std::move(table), options, fields), fields, options);
  return Parse(OpenSources(std::move(groups), open), std::move(parser));
}

}  // namespace ringfeed
