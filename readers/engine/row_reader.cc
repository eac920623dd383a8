#include "readers/engine/row_reader.h"

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/refuse.h"
#include "readers/engine/batches/batch_buffer.h"
#include "readers/parsers/current_rows.h"

namespace ringfeed {

namespace {

// Columns lie on such boundaries (BatchBuffer::Layout).
constexpr std::align_val_t kBatchAlignment{256};

std::shared_ptr<std::byte> NewMemory(std::size_t bytes) {
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, kBatchAlignment));
  return {memory, [](std::byte* p) { ::operator delete(p, kBatchAlignment); }};
}

IoOptions InlineReads(IoOptions options) {
  options.path = IoPath::kPread;
  options.direct = false;
  return options;
}

std::shared_ptr<const FieldNames> NamesOf(const Parser* parser) {
  if (parser == nullptr) return nullptr;
  std::vector<std::string> names;
  for (const FieldSpec& field : TensorFields(*parser)) names.push_back(field.name);
  return std::make_shared<const FieldNames>(std::move(names));
}

/// Which records rows are, for the user's functions: each is of the first pass.
class RowsByNumber final : public CurrentRows {
 public:
  RowsByNumber(std::span<const RecordSpan> records, std::vector<FileRecord> places,
               const RowReader* reader)
      : CurrentRows(records), places_(std::move(places)), reader_(*reader) {}
  DataPlace PlaceOf(std::size_t row) const override { return reader_.DataPlaceOf(places_[row]); }
  FileRecord RecordOf(std::size_t row) const override { return places_[row]; }
  std::uint64_t PassOf(std::size_t /*row*/) const override { return 0; }

 private:
  const std::vector<FileRecord> places_;
  const RowReader& reader_;
};

}  // namespace

/// The records of some rows in memory: a unit that holds several of them is read once.
class RowReader::Fetched {
 public:
  explicit Fetched(const RowReader* reader) : reader_(*reader) {}

  /// Valid as long as this object. Throws Error if the record cannot be had.
  RecordSpan Get(RowNumber row) {
    const FileRecord place = reader_.PlaceOf(row);
    const DataFile& file = reader_.table().file(place.file);
    const RecordUnit unit = reader_.UnitOf(place);
    const std::optional<FixedUnits> fixed = file.index->fixed();
    if (const Status status = CheckUnit(file, fixed, place.record, unit); !status.ok()) {
      throw Error(status);
    }
    Unit& held = units_[{place.file, unit.first_record}];
    if (held.bytes == nullptr) Read(place.file, unit, row, &held);
    if (fixed) return {held.bytes.get(), static_cast<std::size_t>(fixed->record_bytes)};
    if (!held.is_framed) Frame(file, unit, &held);
    const auto number = static_cast<std::size_t>(place.record - unit.first_record);
    if (number < held.frame.records.size() && !held.frame.records[number].damaged()) {
      return held.frame.records[number];
    }
    reader_.RefuseRow(
        held.status.ok() ? Status(StatusCode::kDamaged, std::string(kLostBefore)) : held.status,
        row);
  }

 private:
  struct Unit {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
    bool is_framed = false;
    FrameOutput frame;
    HeapFrameMemory memory;
    Status status;  ///< after the records
  };

  void Read(std::size_t file, const RecordUnit& unit, RowNumber row, Unit* held) {
    Status status;
    const std::shared_ptr<InputFile> input = reader_.opened_.Get(file, &status);
    if (input == nullptr) throw Error(status);
    const std::size_t bytes =
        unit.lost ? 0 : UsedBytes(unit, RecordLimit(reader_.max_record_bytes_));
    held->bytes.reset(new std::byte[std::max<std::size_t>(1, bytes)]);
    if (bytes > 0) status = input->ReadAt(unit.offset, {held->bytes.get(), bytes}, &held->size);
    if (status.ok() && held->size < bytes) {
      status = Status(StatusCode::kTruncated, "the file ends within the record");
    }
    if (!status.ok()) reader_.RefuseRow(status, row);
  }

  void Frame(const DataFile& file, const RecordUnit& unit, Unit* held) {
    held->is_framed = true;
    if (unit.lost) {
      held->status = WhyLost(file, unit);
      return;
    }
    FramerOptions options;
    options.file = file.name;
    options.file_bytes = file.bytes;
    options.max_record_bytes = reader_.max_record_bytes_;
    const std::unique_ptr<UnitFramer> framer = file.format->NewUnitFramer(options);
    if (framer == nullptr) {
      held->status = WhyNoUnits(file);
      return;
    }
    FrameInput input;
    input.bytes = {held->bytes.get(), held->size};
    input.offset = unit.offset;
    input.limit = unit.offset + held->size;
    input.at_end = true;
    input.memory = &held->memory;
    held->status = framer->Frame(input, unit.records, &held->frame);
    const std::size_t framed = held->frame.records.size();
    if (held->status.ok() && framed != unit.records) held->status = OtherRecords(framed, unit);
  }

  const RowReader& reader_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Unit> units_;  ///< by file and first record
};

RowReader::RowReader(std::shared_ptr<const FileTable> table, std::shared_ptr<const Parser> parser,
                     const OpenOptions& options)
    : opened_(std::move(table), InlineReads(options.io), {}, {}),
      parser_(std::move(parser)),
      max_record_bytes_(options.max_record_bytes),
      names_(NamesOf(parser_.get())) {}

FileRecord RowReader::PlaceOf(RowNumber row) const {
  if (row >= rows()) {
    Refuse("there is no record number " + std::to_string(row) + ": there are " +
           std::to_string(rows()) + ", which count from 0");
  }
  const std::size_t file = opened_.FileOf(row);
  return {static_cast<std::uint32_t>(file), row - opened_.FirstRow(file)};
}

RecordUnit RowReader::UnitOf(FileRecord place) const {
  const DataFile& file = table().file(place.file);
  RecordUnit unit;
  const Status status = file.index->Find({&place.record, 1}, {&unit, 1});
  if (!status.ok()) throw Error(status.WithPlace({file.name, -1, -1}));
  return unit;
}

DataPlace RowReader::DataPlaceOf(FileRecord place) const {
  return {table().file(place.file).name, static_cast<std::int64_t>(UnitOf(place).offset),
          static_cast<std::int64_t>(place.record)};
}

void RowReader::RefuseRow(const Status& why, RowNumber row) const {
  throw Error(why.WithPlace(DataPlaceOf(PlaceOf(row))));
}

Instance RowReader::Row(RowNumber row) const {
  Instance instance;
  if (parser_ == nullptr) {
    Fetched fetched(this);
    const std::span<const std::byte> bytes = fetched.Get(row).bytes();
    instance.push_back(MakeTensor(std::vector<std::byte>(bytes.begin(), bytes.end())));
    instance.set_is_record(true);
    return instance;
  }
  Instance columns = ParsedRows({&row, 1});
  for (std::size_t f = 0; f < columns.size(); ++f) {
    Tensor& column = columns[f];
    column.lod.clear();
    if (!parser_->fields()[f].ragged()) column.shape.erase(column.shape.begin());
  }
  instance = JoinLevels(*parser_, std::move(columns));
  instance.set_is_record(parser_->gives_records());
  instance.set_names(names_);
  return instance;
}

Instance RowReader::Rows(std::span<const RowNumber> rows) const {
  if (parser_ == nullptr) Refuse("records that are not parsed make no batch: Parse them");
  if (rows.empty()) Refuse("no records are asked for");
  Instance batch = JoinLevels(*parser_, ParsedRows(rows));
  batch.set_names(names_);
  return batch;
}

Instance RowReader::ParsedRows(std::span<const RowNumber> rows) const {
  Fetched fetched(this);
  std::vector<RecordSpan> records;
  std::vector<FileRecord> places;
  for (const RowNumber row : rows) {
    records.push_back(fetched.Get(row));
    places.push_back(PlaceOf(row));
  }
  const RowsByNumber current(records, std::move(places), this);
  const Parser& parser = *parser_;
  const std::size_t fields = parser.fields().size();
  const std::unique_ptr<Parser::Scratch> scratch = parser.NewScratch();
  std::vector<RowFailure> failures;
  const auto refuse_failed = [&] {
    if (failures.empty()) return;
    const auto first = std::ranges::min_element(failures, {}, &RowFailure::row);
    RefuseRow(first->status, rows[first->row]);
  };
  std::vector<FieldLocation> locations;
  std::vector<std::uint64_t> units(fields);
  if (parser.two_phase()) {
    const std::size_t of_row = parser.row_locations();
    locations.resize(rows.size() * of_row);
    parser.Locate(records, locations.data(), scratch.get(), &failures);
    refuse_failed();
    for (std::size_t i = 0; i < locations.size(); ++i) units[i % of_row] += locations[i].units;
  }
  const std::shared_ptr<const void> storage = parser.TakeStorage(scratch.get());
  const BatchBuffer::Layout layout(parser, rows.size(), units);
  if (!layout.is_possible()) {
    Refuse(StatusCode::kResourceExhausted, "a batch of these records is too large");
  }
  const std::shared_ptr<std::byte> memory = NewMemory(layout.bytes());
  layout.SetStarts(memory.get());
  std::vector<ColumnTarget> targets;
  for (const BatchBuffer::Layout::Column& column : layout.columns()) {
    auto* const offsets = reinterpret_cast<std::int64_t*>(memory.get() + column.offsets);
    targets.push_back({memory.get() + column.data, column.ragged ? offsets : nullptr});
  }
  parser.Write(records, locations.empty() ? nullptr : locations.data(), targets, scratch.get(),
               &failures);
  refuse_failed();
  return layout.Columns(parser, memory.get(), rows.size(), memory);
}

}  // namespace ringfeed
