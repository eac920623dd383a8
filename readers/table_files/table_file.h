#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/file_state.h"
#include "ringfeed/open_options.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"
#include "ringfeed/tables/arrow_structures.h"

namespace ringfeed {

/// What a call of Arrow failed of.
struct ArrowFailure {
  arrow::Status status;
};
inline void NeedArrow(const arrow::Status& status) {
  if (!status.ok()) throw ArrowFailure{status};
}
template <typename T>
T TakeArrow(arrow::Result<T> result) {
  NeedArrow(result.status());
  return std::move(result).ValueUnsafe();
}

/// A file of a table: `source` is null if it is a local one, which must stay as it was found.
struct TableFile {
  std::string name;
  std::shared_ptr<Source> source;
  std::optional<FileState> state{};  ///< of a local one, if there was one
  /// What was read of all files of the table.
  std::shared_ptr<std::atomic<std::uint64_t>> read_bytes{};
};

/// Names several files in reports and errors.
std::string NameOf(const std::vector<TableFile>& files);

/// What the names stand for, in their order. Refuses a folder that holds more than a table's rows:
/// columns in the names of its folders, files of other kinds.
std::vector<TableFile> TableFilesOf(const std::vector<std::string>& names,
                                    const OpenOptions& options);

/// A Source as a file of Arrow's. Its reads are thread safe.
class SourceFile final : public arrow::io::RandomAccessFile {
 public:
  /// Opens it. `maps`: a local one is mapped if it can be, so that what is not compressed stays
  /// where it lies. Throws Error, also if the file was replaced since it was found.
  explicit SourceFile(const TableFile& file, bool maps = false);

  /// The first failure of a read: then what Arrow says about the bytes means nothing.
  Status failure() const;
  /// The first and the last eight bytes, or as many as there are. Throws Error.
  std::string Head() { return Bytes(0); }
  std::string Tail() { return Bytes(size_ < 8 ? 0 : size_ - 8); }
  /// Tells its contents from others (TableSource::identity): by its size, its first 4 KiB and its
  /// last 64, where footers are. Throws Error.
  std::string Identity();

  arrow::Status Close() override { return {}; }
  bool closed() const override { return false; }
  bool supports_zero_copy() const override { return mapped_ != nullptr; }
  arrow::Result<std::int64_t> Tell() const override { return at_; }
  arrow::Status Seek(std::int64_t position) override {
    at_ = position;
    return {};
  }
  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override;
  arrow::Result<std::int64_t> GetSize() override { return size_; }
  using RandomAccessFile::ReadAt;
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position,
                                                       std::int64_t bytes) override;

 private:
  /// Up to so many from there on.
  std::string Bytes(std::int64_t position, std::int64_t most = 8);

  void NoteRead(std::size_t bytes) { read_bytes_->fetch_add(bytes, std::memory_order_relaxed); }

  const std::shared_ptr<Source> source_;
  const std::shared_ptr<std::atomic<std::uint64_t>> read_bytes_;
  std::shared_ptr<arrow::io::RandomAccessFile> mapped_;  ///< null: it is read
  std::int64_t size_ = 0;
  std::int64_t at_ = 0;  ///< of Read, which one thread calls
  mutable std::mutex mutex_;
  Status failure_;  ///< guarded by mutex_
};

/// Calls `decode`, which calls Arrow for `what` of the file. Throws Error for what it refuses:
/// kDamaged, or what a read failed of.
void Decode(const TableFile& file, const SourceFile& opened, const std::string& what,
            const std::function<void()>& decode);

/// Throws Error if the wanted columns of a file are of other types than those of the first one.
void CheckAlike(const arrow::Schema& first, const std::string& first_name,
                const arrow::Schema& other, const std::string& name,
                const std::vector<std::string>& wanted);

/// Exports the batches, with the columns in the schema's order.
void ExportBatches(std::vector<std::shared_ptr<arrow::RecordBatch>> batches,
                   const std::shared_ptr<arrow::Schema>& schema, ArrowArrayStream* stream);

}  // namespace ringfeed
