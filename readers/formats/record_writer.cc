#include <array>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/formats/fixed_rows.h"
#include "readers/formats/format.h"
#include "readers/formats/output_file.h"
#include "readers/formats/tfrecord.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

Status ClosedFailure() {
  return Status(StatusCode::kInvalidArgument, "the writer was closed; open another one");
}

class TfRecordWriter final : public RecordWriter {
 public:
  explicit TfRecordWriter(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  Status Write(std::span<const std::byte> record) override {
    if (closed_) return ClosedFailure();
    std::array<std::byte, TfRecordLayout::kHeaderBytes> header;
    StoreLe(header.data(), static_cast<std::uint64_t>(record.size()));
    StoreLe(header.data() + 8, MaskCrc32c(Crc32c({header.data(), 8})));
    std::array<std::byte, TfRecordLayout::kFooterBytes> footer;
    StoreLe(footer.data(), MaskCrc32c(Crc32c(record)));
    for (const std::span<const std::byte> piece :
         {std::span<const std::byte>(header), record, std::span<const std::byte>(footer)}) {
      Status status = file_->Append(piece);
      if (!status.ok()) return status;
    }
    return {};
  }

  Status Close() override {
    if (std::exchange(closed_, true)) return ClosedFailure();
    return file_->Commit();
  }

 private:
  std::unique_ptr<OutputFile> file_;
  bool closed_ = false;
};

class FixedRowsWriter final : public RecordWriter {
 public:
  FixedRowsWriter(std::unique_ptr<OutputFile> file, const FixedRowsLayout& layout)
      : file_(std::move(file)), layout_(layout), zeros_due_(layout.header_bytes) {}

  Status Write(std::span<const std::byte> record) override {
    if (closed_) return ClosedFailure();
    if (record.size() != layout_.row_bytes) {
      return Status(StatusCode::kInvalidArgument, "a row of " + std::to_string(record.size()) +
                                                      " bytes was written where each has " +
                                                      std::to_string(layout_.row_bytes));
    }
    Status status = file_->AppendZeros(static_cast<std::size_t>(zeros_due_));
    zeros_due_ = layout_.stride_bytes - layout_.row_bytes;
    return status.ok() ? file_->Append(record) : status;
  }

  Status Close() override {
    if (std::exchange(closed_, true)) return ClosedFailure();
    Status status = file_->AppendZeros(static_cast<std::size_t>(zeros_due_));
    return status.ok() ? file_->Commit() : status;
  }

 private:
  std::unique_ptr<OutputFile> file_;
  const FixedRowsLayout layout_;
  std::uint64_t zeros_due_;  // the header before the first row, padding after each
  bool closed_ = false;
};

class RawFileWriter final : public RecordWriter {
 public:
  explicit RawFileWriter(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}

  Status Write(std::span<const std::byte> record) override {
    if (closed_) return ClosedFailure();
    if (std::exchange(written_, true)) {
      return Status(StatusCode::kInvalidArgument, "a raw file is one record; open another file");
    }
    return file_->Append(record);
  }

  Status Close() override {
    if (std::exchange(closed_, true)) return ClosedFailure();
    if (!written_) {
      return Status(StatusCode::kInvalidArgument, "a raw file is one record; none was written");
    }
    return file_->Commit();
  }

 private:
  std::unique_ptr<OutputFile> file_;
  bool written_ = false;
  bool closed_ = false;
};

}  // namespace

RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format) {
  FormatResult found = FindFormat(format);
  if (!found.status.ok()) return {std::move(found.status), nullptr};
  auto file = std::make_unique<OutputFile>(path);
  Status status = file->Open();
  if (!status.ok()) return {std::move(status), nullptr};
  if (format == "tfrecord") return {Status(), std::make_unique<TfRecordWriter>(std::move(file))};
  if (format == "raw") return {Status(), std::make_unique<RawFileWriter>(std::move(file))};
  FixedRowsLayout layout;
  status = ParseFixedRowsLayout(std::string_view(format).substr(5), &layout);
  return {status, std::make_unique<FixedRowsWriter>(std::move(file), layout)};
}

}  // namespace ringfeed
