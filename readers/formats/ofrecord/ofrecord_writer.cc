#include <array>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/ofrecord/ofrecord.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

class OfRecordWriter final : public FileRecordWriter {
 public:
  using FileRecordWriter::FileRecordWriter;

 private:
  // What no reader takes is not written: OneFlow's own stops the process at an empty record.
  Status Append(std::span<const std::byte> record) override {
    if (record.empty()) {
      return Status(StatusCode::kInvalidArgument,
                    "an OFRecord file cannot hold an empty record: add a feature to it");
    }
    if (!OfRecordEntriesChain(record, record.size())) {
      return Status(StatusCode::kInvalidArgument,
                    "a record of " + std::to_string(record.size()) +
                        " bytes is no serialised OFRecord: write other records as tfrecord");
    }
    std::array<std::byte, OfRecordLayout::kLengthBytes> length;
    StoreLe(length.data(), static_cast<std::uint64_t>(record.size()));
    Status status = file().Append(length);
    return status.ok() ? file().Append(record) : status;
  }
};

}  // namespace

std::unique_ptr<RecordWriter> NewOfRecordWriter(std::unique_ptr<OutputFile> file) {
  return std::make_unique<OfRecordWriter>(std::move(file));
}

}  // namespace ringfeed
