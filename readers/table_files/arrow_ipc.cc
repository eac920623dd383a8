// Record batches of Arrow's IPC files as groups of a table, and streams as tables in memory.

#include <arrow/c/bridge.h>
#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>
#include <arrow/type.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "base/refuse.h"
#include "readers/table_files/table_file.h"
#include "ringfeed/tables/table_files.h"

namespace ringfeed {
namespace {

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;
using FileReader = arrow::ipc::RecordBatchFileReader;

// Reads the wanted columns alone, whole structs.
arrow::ipc::IpcReadOptions OptionsOf(const arrow::Schema& schema,
                                     const std::vector<std::string>& wanted) {
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  std::set<int> fields;
  for (const std::string& path : wanted) {
    int field = schema.GetFieldIndex(path);
    if (field < 0) field = schema.GetFieldIndex(path.substr(0, path.find('.')));
    if (field >= 0) fields.insert(field);
  }
  options.included_fields.assign(fields.begin(), fields.end());
  return options;
}

// Of the column that costs least to read.
int NarrowField(const arrow::Schema& schema) {
  const auto bits = [&](int field) {
    const int width = schema.field(field)->type()->bit_width();
    return width < 0 ? std::numeric_limits<int>::max() : width;
  };
  int narrow = 0;
  for (int field = 1; field < schema.num_fields(); ++field) {
    if (bits(field) < bits(narrow)) narrow = field;
  }
  return narrow;
}

bool IsStream(const TableFile& file) {
  const std::string head = SourceFile(file).Head();
  const auto refuse = [&](StatusCode code, const char* text) {
    throw Error({code, text, {file.name}});
  };
  if (head.starts_with("PAR1") || head.starts_with("PARE")) {
    refuse(StatusCode::kUnsupported, "a Parquet file: OpenParquet reads it");
  }
  if (head.starts_with("FEA1")) {
    refuse(StatusCode::kUnsupported, "Feather 1, which is not read: write it again as Feather 2");
  }
  if (head.size() < 8) refuse(StatusCode::kDamaged, "too short for a file or a stream of Arrow's");
  return head != std::string("ARROW1\0\0", 8);
}

/// What is known of a file; without a schema its footer is damaged.
struct IpcFile {
  TableFile file;
  std::string identity;
  std::shared_ptr<arrow::Schema> schema{};
  std::vector<std::uint64_t> rows{};  ///< of each batch
};

// Calls `read`; passes over damage if `skips`.
template <typename Read>
void Passing(bool skips, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.status().code() != StatusCode::kDamaged || !skips) throw;
  }
}

// A batch whose rows nothing tells is one row.
IpcFile BatchesOf(const TableFile& file, bool skips) {
  const auto opened = std::make_shared<SourceFile>(file, true);
  IpcFile known{file, opened->Identity(), nullptr, {1}};
  std::shared_ptr<FileReader> reader;
  Passing(skips, [&] {
    Decode(file, *opened, "no footer of Arrow's", [&] {
      known.schema = TakeArrow(FileReader::Open(opened))->schema();
      auto options = arrow::ipc::IpcReadOptions::Defaults();
      if (known.schema->num_fields() > 0) options.included_fields = {NarrowField(*known.schema)};
      reader = TakeArrow(FileReader::Open(opened, options));
      known.rows.assign(static_cast<std::size_t>(reader->num_record_batches()), 1);
    });
  });
  for (std::size_t batch = 0; reader != nullptr && batch < known.rows.size(); ++batch) {
    Passing(skips, [&] {
      Decode(file, *opened, "batch " + std::to_string(batch), [&] {
        const auto rows = TakeArrow(reader->ReadRecordBatch(static_cast<int>(batch)))->num_rows();
        known.rows[batch] = static_cast<std::uint64_t>(rows);
      });
    });
  }
  return known;
}

class IpcTable final : public TableSource {
 public:
  IpcTable(const std::vector<TableFile>& files, const TableOptions& options)
      : name_(NameOf(files)) {
    const bool skips = options.open.on_damage == OnDamage::kSkip;
    for (const TableFile& file : files) files_.push_back(BatchesOf(file, skips));
    const auto known = std::find_if(files_.begin(), files_.end(),
                                    [](const IpcFile& file) { return file.schema != nullptr; });
    if (known == files_.end()) (void)BatchesOf(files.front(), false);  // throws
    known_ = &*known;
    for (const IpcFile& file : files_) {
      if (file.schema != nullptr) {
        CheckAlike(*known_->schema, known_->file.name, *file.schema, file.file.name,
                   options.columns);
      }
      for (std::size_t batch = 0; batch < file.rows.size(); ++batch) {
        places_.push_back({&file, static_cast<int>(batch), file.rows[batch]});
      }
    }
    if (places_.empty()) places_.push_back({known_, -1, 0});
    schema_ = known_->schema;
    const std::vector<int> wanted = OptionsOf(*schema_, options.columns).included_fields;
    if (wanted.empty()) return;
    std::vector<std::shared_ptr<arrow::Field>> fields;
    for (const int field : wanted) fields.push_back(schema_->field(field));
    schema_ = arrow::schema(std::move(fields));
  }

  std::string name() const override { return name_; }
  std::uint64_t groups() const override { return places_.size(); }
  std::uint64_t rows(std::uint64_t group) const override { return places_[group].rows; }
  std::string group_name(std::uint64_t group) const override {
    const Place& place = places_[group];
    return place.file->file.name + "#" + std::to_string(std::max(0, place.number));
  }
  std::string identity(std::uint64_t group) const override { return places_[group].file->identity; }
  std::uint64_t read_bytes() const override { return *known_->file.read_bytes; }
  void Describe(const std::vector<std::string>&, ArrowSchema* schema) override {
    Decode(known_->file, SourceFile(known_->file), "its columns",
           [&] { NeedArrow(arrow::ExportSchema(*schema_, schema)); });
  }
  void Open(std::uint64_t group, const std::vector<std::string>& columns,
            ArrowArrayStream* stream) override {
    const Place& place = places_[group];
    const auto opened = std::make_shared<SourceFile>(place.file->file, true);
    Decode(place.file->file, *opened, "batch " + std::to_string(place.number), [&] {
      const auto schema = place.file->schema == nullptr ? known_->schema : place.file->schema;
      const auto reader = TakeArrow(FileReader::Open(opened, OptionsOf(*schema, columns)));
      Batches batches;
      if (place.number >= 0) batches.push_back(TakeArrow(reader->ReadRecordBatch(place.number)));
      ExportBatches(std::move(batches), schema_, stream);
    });
  }

 private:
  struct Place {
    const IpcFile* file;
    int number;  ///< of the batch; -1: none, and no rows
    std::uint64_t rows;
  };

  const std::string name_;
  std::vector<IpcFile> files_;
  std::vector<Place> places_;
  const IpcFile* known_ = nullptr;
  std::shared_ptr<arrow::Schema> schema_;  ///< of what Open exports
};

// The batches of a stream, which must be all of the file.
void AppendStream(const TableFile& file, const std::vector<std::string>& columns,
                  std::shared_ptr<arrow::Schema>* schema, Batches* batches) {
  const auto opened = std::make_shared<SourceFile>(file, true);
  Decode(file, *opened, "no stream of Arrow's", [&] {
    const auto all = TakeArrow(arrow::ipc::RecordBatchStreamReader::Open(opened))->schema();
    NeedArrow(opened->Seek(0));
    const auto reader =
        TakeArrow(arrow::ipc::RecordBatchStreamReader::Open(opened, OptionsOf(*all, columns)));
    if (*schema == nullptr) *schema = reader->schema();
    while (auto batch = TakeArrow(reader->Next())) batches->push_back(std::move(batch));
    const std::int64_t end = TakeArrow(opened->Tell());
    const std::int64_t size = TakeArrow(opened->GetSize());
    if (end != size) {
      throw ArrowFailure{arrow::Status::Invalid("it ends at byte ", end, " of ", size)};
    }
  });
}

std::shared_ptr<TableSource> StreamTable(const std::vector<TableFile>& files,
                                         const TableOptions& options) {
  Batches batches;
  std::shared_ptr<arrow::Schema> first;
  std::string identity;
  ArrowArrayStream stream{};
  for (const TableFile& file : files) {
    std::shared_ptr<arrow::Schema> schema;
    identity += SourceFile(file).Identity() + ", ";
    AppendStream(file, options.columns, &schema, &batches);
    if (first == nullptr) first = schema;
    CheckAlike(*first, files.front().name, *schema, file.name, options.columns);
  }
  Decode(files.front(), SourceFile(files.front()), "its columns", [&] {
    if (batches.empty()) batches.push_back(TakeArrow(arrow::RecordBatch::MakeEmpty(first)));
    ExportBatches(std::move(batches), first, &stream);
  });
  return TableOfStream(&stream, NameOf(files), std::move(identity));
}

std::shared_ptr<TableSource> TableOf(const std::vector<TableFile>& files,
                                     const TableOptions& options) {
  const auto streams = std::count_if(files.begin(), files.end(), IsStream);
  if (streams == 0) return std::make_shared<IpcTable>(files, options);
  if (streams == static_cast<std::ptrdiff_t>(files.size())) return StreamTable(files, options);
  Refuse("streams of Arrow's beside files with footers: open them by one call each");
}

}  // namespace

Reader OpenArrowIpc(const std::vector<std::string>& files, const TableOptions& options) {
  return OpenTable(TableOf(TableFilesOf(files, options.open), options), options);
}

}  // namespace ringfeed
