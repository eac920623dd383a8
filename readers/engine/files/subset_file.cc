#include "readers/engine/files/subset_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/mixed_hash.h"

namespace ringfeed {

namespace {

constexpr std::uint64_t kMostOfFourBytes = std::uint64_t{1} << 32;

Status DamagedSubset(const std::string& what) { return Status(StatusCode::kDamaged, what); }

}  // namespace

std::vector<std::byte> EncodeSubset(std::span<const std::uint64_t> numbers,
                                    const DataFingerprint& data) {
  SubsetHeader header;
  std::copy(SubsetHeader::kMagic.begin(), SubsetHeader::kMagic.end(), header.magic.begin());
  header.version = SubsetHeader::kVersion;
  header.files = data.files;
  header.bytes = data.bytes;
  header.records = data.records;
  header.sizes = data.sizes;
  header.samples = data.samples;
  header.count = numbers.size();
  header.width = data.records <= kMostOfFourBytes ? 4 : 8;
  header.parts = static_cast<std::uint32_t>(data.parts.size());
  std::copy(data.parts.begin(), data.parts.end(), header.part.begin());
  std::vector<std::byte> bytes(sizeof(header) + numbers.size() * header.width);
  std::byte* at = bytes.data() + sizeof(header);
  MixedHash digest;
  for (const std::uint64_t number : numbers) {
    digest.Add(number);
    std::memcpy(at, &number, header.width);  // little-endian, as all of it
    at += header.width;
  }
  header.digest = digest.value();
  header.numbers_checksum = Crc32c(std::span(bytes).subspan(sizeof(header)));
  header.checksum = HeaderChecksum(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Status SubsetFile::Open(StoredIndex stored, std::shared_ptr<const SubsetFile>* subset) {
  const std::span<const std::byte> bytes = stored.bytes();
  SubsetHeader header;
  if (bytes.size() < sizeof(header)) return DamagedSubset("it is no subset of ringfeed's");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (Status status = CheckKind(header, "subset"); !status.ok()) return status;
  if (header.checksum != HeaderChecksum(header)) return DamagedSubset("its header is damaged");
  const std::size_t rest = bytes.size() - sizeof(header);
  const bool possible = (header.width == 4 || header.width == 8) &&
                        header.parts <= header.part.size() && header.count <= header.records &&
                        rest % header.width == 0 && rest / header.width == header.count;
  if (!possible) return DamagedSubset("it is not as long as its header says");
  auto opened = std::make_shared<const SubsetFile>(std::move(stored), header);
  Status status = opened->CheckNumbers();
  if (status.ok()) *subset = std::move(opened);
  return status;
}

SubsetFile::SubsetFile(StoredIndex stored, const SubsetHeader& header)
    : stored_(std::move(stored)),
      header_(header),
      numbers_(stored_.bytes().subspan(sizeof(SubsetHeader))) {}

Status SubsetFile::CheckNumbers() const {
  if (header_.numbers_checksum != Crc32c(numbers_)) return DamagedSubset("its numbers are damaged");
  RowNumber least = 0;
  for (std::uint64_t i = 0; i < header_.count; ++i) {
    const RowNumber row = At(i);
    if (row < least || row >= header_.records) return DamagedSubset("its numbers do not ascend");
    least = row + 1;
  }
  return {};
}

RowNumber SubsetFile::At(std::uint64_t number) const {
  const std::byte* const at = numbers_.data() + number * header_.width;
  return header_.width == 4 ? LoadLe<std::uint32_t>(at) : LoadLe<std::uint64_t>(at);
}

std::uint64_t SubsetFile::Before(RowNumber row) const {
  std::uint64_t begin = 0;
  std::uint64_t end = header_.count;
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    if (At(middle) < row) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// A mapped file may change after its check.
Status SubsetFile::ToRows(std::span<RowNumber> numbers) const {
  bool fine = true;
  for (RowNumber& number : numbers) {
    fine = fine && number < header_.count;
    if (!fine) break;
    number = At(number);
    fine = number < header_.records;
  }
  if (fine && (stored_.mapping == nullptr || !stored_.mapping->damaged())) return {};
  return DamagedSubset("the subset was changed while it was read");
}

DataFingerprint SubsetFile::data() const {
  return {header_.files,   header_.bytes,
          header_.records, header_.sizes,
          header_.samples, {header_.part.begin(), header_.part.begin() + header_.parts}};
}

void SaveSubset(const std::string& path, std::span<const std::uint64_t> numbers,
                const DataFingerprint& data) {
  const Status status = KeepByItself(path, {EncodeSubset(numbers, data)});
  if (!status.ok()) throw Error(status.WithPlace({path, -1, -1}));
}

std::shared_ptr<const SubsetFile> OpenSubset(const std::string& path) {
  KeptFile kept;
  std::shared_ptr<const SubsetFile> subset;
  Status status = ReadByItself(path, &kept);
  if (status.ok()) status = SubsetFile::Open(std::move(kept.stored), &subset);
  if (status.ok()) return subset;
  throw Error(Status(status.code(),
                     status.message() + ": a subset is what WriteSubset and ringfeed subset write",
                     {path, -1, -1}));
}

void CheckSubset(const SubsetFile& subset, const std::string& path, const DataFingerprint& data) {
  const std::string difference = DifferenceOf(subset.data(), data);
  if (difference.empty() && subset.all() == data.records) return;
  throw Error(Status(StatusCode::kInvalidArgument,
                     "the subset is of other data; what changed: " +
                         (difference.empty() ? "records of the files" : difference) +
                         ". Read the files that it was made of, in the order of then, or make it "
                         "anew (ringfeed subset)",
                     {path, -1, -1}));
}

}  // namespace ringfeed
