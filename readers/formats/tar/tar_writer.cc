#include <array>
#include <string>
#include <utility>

#include "readers/formats/tar/tar.h"
#include "readers/formats/tar/tar_unit.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

constexpr std::size_t kKeyDigits = 9;

// A record becomes a sample of one member, named by its number.
class TarWriter final : public FileRecordWriter {
 public:
  TarWriter(std::unique_ptr<OutputFile> file, const TarOptions& options)
      : FileRecordWriter(std::move(file)), options_(options) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    std::string key = std::to_string(next_++);
    if (key.size() < kKeyDigits) key.insert(0, kKeyDigits - key.size(), '0');
    std::array<std::byte, TarLayout::kBlockBytes> header;
    WriteTarHeader(key + "." + options_.extension, '0', record.size(), header.data());
    Status status = file().Append(header);
    if (status.ok()) status = file().Append(record);
    if (!status.ok()) return status;
    return file().AppendZeros(static_cast<std::size_t>(TarPadded(record.size()) - record.size()));
  }
  Status Finish() override { return file().AppendZeros(2 * TarLayout::kBlockBytes); }

  const TarOptions options_;
  std::uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<RecordWriter> NewTarWriter(std::unique_ptr<OutputFile> file,
                                           const TarOptions& options) {
  return std::make_unique<TarWriter>(std::move(file), options);
}

}  // namespace ringfeed
