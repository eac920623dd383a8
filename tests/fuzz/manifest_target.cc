#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "readers/index/manifest.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

class InputSource final : public Source {
 public:
  explicit InputSource(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  std::string name() const override { return "x.manifest"; }
  std::uint64_t Size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    std::memcpy(buffer.data(), bytes_.data() + offset, buffer.size());
    *bytes_read = buffer.size();
    return {};
  }

 private:
  const std::vector<std::byte> bytes_;
};

std::uint32_t ChecksumOf(IndexHeader header) {
  header.checksum = 0;
  return Crc32c(std::as_bytes(std::span(&header, 1)));
}

void RepairEntries(std::span<std::byte> directory) {
  ManifestEntryHead head;
  while (directory.size() >= sizeof(head)) {
    std::memcpy(&head, directory.data(), sizeof(head));
    head.index.checksum = ChecksumOf(head.index);
    std::memcpy(directory.data(), &head, sizeof(head));
    const std::uint64_t bytes =
        sizeof(head) + std::uint64_t{head.name_bytes} + head.version_bytes + head.format_bytes;
    directory = directory.subspan(
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes, directory.size())));
  }
}

/// Sets the checksums of headers and directory right: behind them is what a fuzzer would not reach.
void Repair(std::vector<std::byte>* file) {
  ManifestHeader header;
  if (file->size() < sizeof(header)) return;
  std::memcpy(&header, file->data(), sizeof(header));
  header.bytes = file->size();
  const auto behind = std::span(*file).subspan(sizeof(header));
  if (header.directory_bytes <= behind.size()) {
    const auto directory = behind.first(static_cast<std::size_t>(header.directory_bytes));
    RepairEntries(directory);
    header.directory_checksum = Crc32c(directory);
  }
  header.checksum = 0;
  header.checksum = Crc32c(std::as_bytes(std::span(&header, 1)));
  std::memcpy(file->data(), &header, sizeof(header));
}

void LookUp(const PagedIndex& index) {
  const std::uint64_t records = index.records();
  for (const std::uint64_t record : {std::uint64_t{0}, records / 2, records - 1}) {
    if (record >= records) continue;
    RecordUnit unit;
    if (!index.Find({&record, 1}, {&unit, 1}).ok()) continue;
    const std::uint64_t bytes = index.header().file.bytes;
    FuzzExpect(unit.offset <= bytes && unit.bytes <= bytes - unit.offset &&
                   record >= unit.first_record && record - unit.first_record < unit.records,
               "a unit is inside of the file, and has its record");
  }
  std::uint64_t record = 0;
  if (index.FirstFrom(index.header().file.bytes / 2, &record).ok()) {
    FuzzExpect(record <= records, "a record from a place on is one of the file's");
  }
}

void LookUp(const LengthColumn& column) {
  for (const std::uint64_t record : {std::uint64_t{0}, column.records() - 1}) {
    std::uint32_t units = 0;
    if (record < column.records()) (void)column.UnitsOf({&record, 1}, {&units, 1});
  }
}

}  // namespace

FuzzTarget ManifestTarget(const char* /*unused*/) {
  return [](std::span<const std::byte> input) {
    const bool repairs = TakeByte(&input) % 2 != 0;
    std::vector<std::byte> file(input.begin(), input.end());
    if (repairs) Repair(&file);
    std::shared_ptr<const Manifest> manifest;
    if (!Manifest::Open(std::make_shared<InputSource>(file), &manifest).ok()) return;
    FuzzExpect(manifest->files() <= manifest->listed(), "it has no more files than its list");
    for (const std::string& name : manifest->names()) FuzzExpect(!name.empty(), "files have names");
    for (std::size_t i = 0; i < manifest->files(); ++i) {
      ManifestEntry entry;
      if (!manifest->Take(i, &entry).ok()) continue;
      if (entry.index != nullptr) LookUp(*entry.index);
      if (entry.lengths != nullptr) LookUp(*entry.lengths);
    }
  };
}

}  // namespace ringfeed
