#pragma once

#include <memory>
#include <utility>

#include "readers/formats/writing/output_file.h"
#include "ringfeed/formats.h"

namespace ringfeed {

/// What the writers of all formats have in common: one file, and nothing after Close.
class FileRecordWriter : public RecordWriter {
 public:
  explicit FileRecordWriter(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  Status Write(std::span<const std::byte> record) final {
    return closed_ ? Closed() : Append(record);
  }
  Status Flush() final {
    if (closed_) return Closed();
    Status status = EndChunk();
    return status.ok() ? file_->Flush() : status;
  }
  Status Close() final {
    if (std::exchange(closed_, true)) return Closed();
    Status status = Finish();
    return status.ok() ? file_->Commit() : status;
  }

 protected:
  virtual Status Append(std::span<const std::byte> record) = 0;
  /// Writes out what Append kept back to write it together.
  virtual Status EndChunk() { return {}; }
  /// Writes out what Append kept back, and what stands at the end of a file.
  virtual Status Finish() { return {}; }
  OutputFile& file() { return *file_; }

 private:
  static Status Closed() {
    return Status(StatusCode::kInvalidArgument, "the writer was closed; open another one");
  }

  const std::unique_ptr<OutputFile> file_;
  bool closed_ = false;
};

}  // namespace ringfeed
