#pragma once

#include <memory>
#include <utility>

#include "readers/formats/writing/output_file.h"
#include "ringfeed/formats.h"

namespace ringfeed {

/// The common part of the writers of all formats: one file, and nothing after a failure or Close.
class FileRecordWriter : public RecordWriter {
 public:
  explicit FileRecordWriter(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  Status Write(std::span<const std::byte> record) final {
    if (status_.ok()) status_ = Append(record);
    return status_;
  }
  Status Flush() final {
    if (status_.ok()) status_ = EndChunk();
    if (status_.ok()) status_ = file_->Flush();
    return status_;
  }
  Status Close() final {
    if (status_.ok()) status_ = Finish();
    if (status_.ok()) status_ = file_->Commit();
    if (!status_.ok()) return status_;
    status_ = Status(StatusCode::kInvalidArgument, "the writer was closed; open another one");
    return {};
  }

 protected:
  virtual Status Append(std::span<const std::byte> record) = 0;
  /// Writes out what Append kept back to write it together.
  virtual Status EndChunk() { return {}; }
  /// Writes out what Append kept back, and the end of the file.
  virtual Status Finish() { return {}; }
  OutputFile& file() { return *file_; }

 private:
  const std::unique_ptr<OutputFile> file_;
  Status status_;  // unless OK, what every call from now on returns
};

}  // namespace ringfeed
