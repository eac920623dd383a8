// Row groups of Parquet files as groups of a table. A group has a reader of its own: Arrow's keeps
// what it read ahead, and its batches run over the ends of groups.

#include <arrow/c/bridge.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "base/refuse.h"
#include "readers/table_files/table_file.h"
#include "ringfeed/tables/table_files.h"

namespace ringfeed {
namespace {

constexpr std::size_t kFooterThreads = 16;
// What Arrow makes at a time of a group, by its size in memory: a nested column of 2 GiB fails.
constexpr std::int64_t kBatchRows = 1 << 16;
constexpr std::int64_t kBatchBytes = 1 << 29;

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

/// What is known of a file: only `damage` if its footer cannot be read.
struct Footer {
  TableFile file;
  std::string identity{};
  std::shared_ptr<parquet::FileMetaData> metadata{};
  std::shared_ptr<arrow::Schema> schema{};
  Status damage{};
};

std::unique_ptr<parquet::arrow::FileReader> ReaderOf(
    const std::shared_ptr<SourceFile>& file, const std::shared_ptr<parquet::FileMetaData>& metadata,
    std::int64_t batch_rows) {
  parquet::ReaderProperties properties = parquet::default_reader_properties();
  properties.set_page_checksum_verification(true);
  parquet::arrow::FileReaderBuilder builder;
  NeedArrow(builder.Open(file, properties, metadata));
  parquet::ArrowReaderProperties arrow_properties;
  arrow_properties.set_use_threads(false);
  arrow_properties.set_batch_size(batch_rows);
  builder.properties(arrow_properties);
  return TakeArrow(builder.Build());
}

// The leaves of the wanted columns; all if none are wanted.
std::vector<int> LeavesOf(const parquet::FileMetaData& metadata,
                          const std::vector<std::string>& wanted) {
  std::vector<int> leaves;
  for (int leaf = 0; leaf < metadata.num_columns(); ++leaf) {
    const std::string path = metadata.schema()->Column(leaf)->path()->ToDotString();
    const auto has_leaf = [&](const std::string& name) {
      return path == name || path.starts_with(name + ".");
    };
    if (wanted.empty() || std::any_of(wanted.begin(), wanted.end(), has_leaf)) {
      leaves.push_back(leaf);
    }
  }
  return leaves;
}

void RefuseOtherKinds(const std::string& name, SourceFile* file) {
  const std::string head = file->Head();
  if (head.starts_with("ARROW1")) {
    throw Error(
        {StatusCode::kUnsupported, "an Arrow file, no Parquet: OpenArrowIpc reads it", {name}});
  }
  if (head.starts_with("PARE") || file->Tail().ends_with("PARE")) {
    throw Error({StatusCode::kUnsupported, "encrypted Parquet, which is not read", {name}});
  }
}

void CheckRows(const parquet::FileMetaData& metadata) {
  std::int64_t all = 0;
  for (int group = 0; group < metadata.num_row_groups(); ++group) {
    const std::int64_t rows = metadata.RowGroup(group)->num_rows();
    if (rows < 0 || rows > metadata.num_rows() - all) {
      throw ArrowFailure{arrow::Status::Invalid("its row groups have more rows than the file")};
    }
    all += rows;
  }
  if (all != metadata.num_rows()) {
    throw ArrowFailure{arrow::Status::Invalid("its row groups have ", all, " rows, the file ",
                                              metadata.num_rows())};
  }
}

Footer FooterOf(const TableFile& file, bool skips) {
  const auto opened = std::make_shared<SourceFile>(file);
  RefuseOtherKinds(file.name, opened.get());
  Footer footer{file, opened->Identity()};
  try {
    Decode(file, *opened, "no footer of Parquet", [&] {
      const auto reader = ReaderOf(opened, nullptr, kBatchRows);
      footer.metadata = reader->parquet_reader()->metadata();
      NeedArrow(reader->GetSchema(&footer.schema));
      CheckRows(*footer.metadata);
    });
  } catch (const Error& error) {
    if (error.status().code() != StatusCode::kDamaged || !skips) throw;
    return {file, std::move(footer.identity), nullptr, nullptr, error.status()};
  }
  if (footer.metadata->is_encryption_algorithm_set()) {
    throw Error({StatusCode::kUnsupported,
                 "Parquet with encrypted columns, which is not read",
                 {file.name}});
  }
  return footer;
}

// The footers, by several threads. Throws the first file's failure.
std::vector<Footer> FootersOf(const std::vector<TableFile>& files, bool skips) {
  std::vector<Footer> footers(files.size());
  std::vector<std::exception_ptr> failures(files.size());
  std::atomic<std::size_t> next{0};  // relaxed: the threads' end hands over what they wrote
  const auto read = [&] {
    while (true) {
      const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= files.size()) return;
      try {
        footers[i] = FooterOf(files[i], skips);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(kFooterThreads, files.size()); ++i) {
      threads.emplace_back(read);
    }
    read();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure != nullptr) std::rethrow_exception(failure);
  }
  return footers;
}

class ParquetTable final : public TableSource {
 public:
  ParquetTable(const std::vector<TableFile>& files, const TableOptions& options)
      : name_(NameOf(files)),
        footers_(FootersOf(files, options.open.on_damage == OnDamage::kSkip)) {
    const std::vector<std::string>& wanted = options.columns;
    const auto known = std::find_if(footers_.begin(), footers_.end(),
                                    [](const Footer& footer) { return footer.damage.ok(); });
    if (known == footers_.end()) throw Error(footers_.front().damage);
    for (const Footer& footer : footers_) AddGroups(*known, footer, wanted);
    if (places_.empty()) places_.push_back({&*known, -1, 0});
    known_ = &*known;
    const auto opened = std::make_shared<SourceFile>(known_->file);
    Decode(known_->file, *opened, "its columns", [&] {
      const auto reader = ReaderOf(opened, known_->metadata, 1);
      schema_ = TakeArrow(reader->GetRecordBatchReader({}, LeavesOf(*known_->metadata, wanted)))
                    ->schema();
    });
  }

  std::string name() const override { return name_; }
  std::uint64_t groups() const override { return places_.size(); }
  std::uint64_t rows(std::uint64_t group) const override { return places_[group].rows; }
  std::string group_name(std::uint64_t group) const override {
    const Place& place = places_[group];
    return place.footer->file.name + "#" + std::to_string(std::max(0, place.number));
  }
  std::string identity(std::uint64_t group) const override {
    return places_[group].footer->identity;
  }
  std::uint64_t read_bytes() const override { return *known_->file.read_bytes; }
  void Describe(const std::vector<std::string>&, ArrowSchema* schema) override {
    Decode(known_->file, SourceFile(known_->file), "its columns",
           [&] { NeedArrow(arrow::ExportSchema(*schema_, schema)); });
  }
  void Open(std::uint64_t group, const std::vector<std::string>& columns,
            ArrowArrayStream* stream) override;

 private:
  struct Place {
    const Footer* footer;
    int number;  ///< of the row group; -1: none, and no rows
    std::uint64_t rows;
  };

  void AddGroups(const Footer& known, const Footer& footer, const std::vector<std::string>& wanted);

  const std::string name_;
  const std::vector<Footer> footers_;
  std::vector<Place> places_;
  const Footer* known_ = nullptr;
  std::shared_ptr<arrow::Schema> schema_;  ///< of what Open exports
};

void ParquetTable::AddGroups(const Footer& known, const Footer& footer,
                             const std::vector<std::string>& wanted) {
  if (!footer.damage.ok()) {
    places_.push_back({&footer, 0, 1});
    return;
  }
  CheckAlike(*known.schema, known.file.name, *footer.schema, footer.file.name, wanted);
  for (int group = 0; group < footer.metadata->num_row_groups(); ++group) {
    const std::int64_t rows = footer.metadata->RowGroup(group)->num_rows();
    places_.push_back({&footer, group, static_cast<std::uint64_t>(rows)});
  }
}

void ParquetTable::Open(std::uint64_t group, const std::vector<std::string>& columns,
                        ArrowArrayStream* stream) {
  const Place& place = places_[group];
  const Footer& footer = *place.footer;
  if (!footer.damage.ok()) throw Error(footer.damage);
  const auto file = std::make_shared<SourceFile>(footer.file);
  Decode(footer.file, *file, "row group " + std::to_string(place.number), [&] {
    Batches batches;
    if (place.number >= 0) {
      const auto metadata = footer.metadata->RowGroup(place.number);
      const std::int64_t bytes = std::max<std::int64_t>(1, metadata->total_byte_size());
      const auto fitting =
          static_cast<double>(place.rows) * kBatchBytes / static_cast<double>(bytes);
      const auto reader = ReaderOf(
          file, footer.metadata,
          static_cast<std::int64_t>(std::clamp(fitting, 1.0, static_cast<double>(kBatchRows))));
      const auto decoded = TakeArrow(
          reader->GetRecordBatchReader({place.number}, LeavesOf(*footer.metadata, columns)));
      while (auto batch = TakeArrow(decoded->Next())) batches.push_back(std::move(batch));
    }
    ExportBatches(std::move(batches), schema_, stream);
  });
}

}  // namespace

Reader OpenParquet(const std::vector<std::string>& files, const TableOptions& options) {
  return OpenTable(std::make_shared<ParquetTable>(TableFilesOf(files, options.open), options),
                   options);
}

}  // namespace ringfeed
