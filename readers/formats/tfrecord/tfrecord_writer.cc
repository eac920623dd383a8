#include <array>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "readers/formats/tfrecord/tfrecord.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

class TfRecordWriter final : public FileRecordWriter {
 public:
  using FileRecordWriter::FileRecordWriter;

 private:
  Status Append(std::span<const std::byte> record) override {
    std::array<std::byte, TfRecordLayout::kHeaderBytes> header;
    StoreLe(header.data(), static_cast<std::uint64_t>(record.size()));
    StoreLe(header.data() + 8, MaskCrc32c(Crc32c({header.data(), 8})));
    std::array<std::byte, TfRecordLayout::kFooterBytes> footer;
    StoreLe(footer.data(), MaskCrc32c(Crc32c(record)));
    for (const std::span<const std::byte> piece :
         {std::span<const std::byte>(header), record, std::span<const std::byte>(footer)}) {
      Status status = file().Append(piece);
      if (!status.ok()) return status;
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<RecordWriter> NewTfRecordWriter(std::unique_ptr<OutputFile> file) {
  return std::make_unique<TfRecordWriter>(std::move(file));
}

}  // namespace ringfeed
