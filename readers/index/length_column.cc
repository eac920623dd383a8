#include "readers/index/length_column.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/mixed_hash.h"

namespace ringfeed {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHead = 4;
/// Of the header and the key, with the zeros behind it.
constexpr std::size_t kMostFront = sizeof(LengthHeader) + LengthHeader::kMostKeyBytes + 64;
/// A chunk of deflated records has at most so many for each of its bytes.
constexpr std::uint64_t kMostRecordsOfByte = 258;

std::size_t PagesBegin(const LengthHeader& header) {
  return (sizeof(header) + header.key_bytes + 63) / 64 * 64;
}

std::uint64_t EntriesPerPage(const LengthHeader& header) { return (kPage - kHead) / header.width; }

/// Bytes of the pages; the last one ends with its last entry.
std::uint64_t PagesBytes(const LengthHeader& header) {
  const std::uint64_t pages =
      (header.records + EntriesPerPage(header) - 1) / EntriesPerPage(header);
  return pages * kHead + header.records * header.width;
}

void AddUp(std::span<const std::uint32_t> units, LengthHeader* header) {
  MixedHash digest;
  for (const std::uint32_t each : units) {
    digest.Add(std::uint64_t{each});
    if (each == LengthColumn::kHole) {
      ++header->holes;
      continue;
    }
    header->most = std::max(header->most, each);
    header->sum += each;
    if (__builtin_add_overflow(header->squares, std::uint64_t{each} * each, &header->squares)) {
      header->squares = std::numeric_limits<std::uint64_t>::max();
    }
    ++header->histogram[static_cast<std::size_t>(std::bit_width(each))];
  }
  header->digest = digest.value();
}

Status Damaged(const std::string& what) { return Status(StatusCode::kDamaged, what); }

}  // namespace

std::vector<std::byte> EncodeLengths(std::span<const std::uint32_t> units, const std::string& key,
                                     const FileIdentity& file, std::uint64_t max_record_bytes) {
  assert(key.size() <= LengthHeader::kMostKeyBytes);
  LengthHeader header;
  std::copy(LengthHeader::kMagic.begin(), LengthHeader::kMagic.end(), header.magic.begin());
  header.version = LengthHeader::kVersion;
  header.file = file;
  header.max_record_bytes = max_record_bytes;
  header.records = units.size();
  header.key_bytes = static_cast<std::uint32_t>(key.size());
  AddUp(units, &header);
  header.width = header.most < 0xFF ? 1 : header.most < 0xFFFF ? 2 : 4;
  const auto key_bytes = std::as_bytes(std::span(key));
  header.checksum = HeaderChecksum(header, key_bytes);

  std::vector<std::byte> bytes(PagesBegin(header) + PagesBytes(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::ranges::copy(key_bytes, bytes.begin() + sizeof(header));
  std::byte* at = bytes.data() + PagesBegin(header);
  while (!units.empty()) {
    const std::size_t count = std::min<std::size_t>(units.size(), EntriesPerPage(header));
    std::byte* const page = at;
    at += kHead;
    for (const std::uint32_t each : units.first(count)) {
      std::memcpy(at, &each, header.width);  // of kHole the largest number of that width
      at += header.width;
    }
    StoreLe(page, Crc32c({page + kHead, at}));
    units = units.subspan(count);
  }
  return bytes;
}

Status LengthColumn::Open(StoredIndex stored, std::shared_ptr<const LengthColumn>* column) {
  const std::span<const std::byte> bytes = stored.bytes();
  LengthHeader header;
  if (bytes.size() < sizeof(header)) return Damaged("it is no length column of ringfeed's");
  const auto front = bytes.first(std::min(bytes.size(), kMostFront));
  if (Status status = stored.Need(front); !status.ok()) return status;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (const Status status = CheckKind(header, "length column"); !status.ok()) return status;
  const bool has_key = header.key_bytes <= LengthHeader::kMostKeyBytes &&
                       header.key_bytes <= bytes.size() - sizeof(header);
  if (!has_key ||
      header.checksum != HeaderChecksum(header, bytes.subspan(sizeof(header), header.key_bytes))) {
    return Damaged("its header is damaged");
  }
  const bool possible = (header.width == 1 || header.width == 2 || header.width == 4) &&
                        header.holes <= header.records &&
                        header.records / kMostRecordsOfByte <= header.file.bytes;
  if (!possible || PagesBegin(header) + PagesBytes(header) != bytes.size()) {
    return Damaged("it is not as long as its header says");
  }
  const std::size_t key_end = sizeof(header) + header.key_bytes;
  const auto gap = bytes.subspan(key_end, PagesBegin(header) - key_end);
  if (std::ranges::any_of(gap, [](std::byte each) { return each != std::byte{0}; })) {
    return Damaged("its header is damaged");
  }
  *column = std::make_shared<const LengthColumn>(std::move(stored), header);
  return {};
}

LengthColumn::LengthColumn(StoredIndex stored, const LengthHeader& header)
    : stored_(std::move(stored)),
      header_(header),
      pages_(stored_.bytes().subspan(PagesBegin(header))),
      checked_(header.records / EntriesPerPage(header) + 1) {}

std::string_view LengthColumn::key() const {
  return {reinterpret_cast<const char*>(stored_.bytes().data()) + sizeof(LengthHeader),
          header_.key_bytes};
}

std::size_t LengthColumn::OffsetOf(std::uint64_t record) const {
  const std::uint64_t page = record / EntriesPerPage(header_);
  return static_cast<std::size_t>((page + 1) * kHead + record * header_.width);
}

void LengthColumn::Prefetch(std::uint64_t record) const {
  __builtin_prefetch(pages_.data() + OffsetOf(record));
}

Status LengthColumn::Check(std::uint64_t page) const {
  const auto begin = static_cast<std::size_t>(page * kPage);
  const std::span<const std::byte> bytes =
      pages_.subspan(begin, std::min(kPage, pages_.size() - begin));
  if (Status status = stored_.Need(bytes); !status.ok()) return status;
  if (LoadLe<std::uint32_t>(bytes.data()) != Crc32c(bytes.subspan(kHead))) {
    return Damaged("page " + std::to_string(page) +
                   " of the lengths is damaged: make them anew (ringfeed index --lengths … "
                   "--rebuild)" +
                   stored_.Remedy());
  }
  if (stored_.was_cut()) {
    return Damaged("the lengths were cut while they were read" + stored_.Remedy());
  }
  checked_.Add(page);
  return {};
}

Status LengthColumn::CheckAll() const {
  for (std::uint64_t page = 0; page * kPage < pages_.size(); ++page) {
    if (checked_.Has(page)) continue;
    if (const Status status = Check(page); !status.ok()) return status;
  }
  return {};
}

template <typename Entry>
Status LengthColumn::Read(std::span<const std::uint64_t> records,
                          std::span<std::uint32_t> units) const {
  constexpr std::uint64_t kEntries = (kPage - kHead) / sizeof(Entry);
  for (std::size_t i = 0; i < records.size(); ++i) {
    assert(records[i] < header_.records);
    const std::uint64_t page = records[i] / kEntries;
    if (!checked_.Has(page)) {
      if (const Status status = Check(page); !status.ok()) return status;
    }
    const Entry entry =
        LoadLe<Entry>(pages_.data() + page * kPage + kHead + records[i] % kEntries * sizeof(Entry));
    units[i] = entry == std::numeric_limits<Entry>::max() ? LengthColumn::kHole : entry;
  }
  return {};
}

Status LengthColumn::UnitsOf(std::span<const std::uint64_t> records,
                             std::span<std::uint32_t> units) const {
  switch (header_.width) {
    case 1:
      return Read<std::uint8_t>(records, units);
    case 2:
      return Read<std::uint16_t>(records, units);
    default:
      return Read<std::uint32_t>(records, units);
  }
}

Status LoadLengths(const IndexPlace& place, const LengthPurpose& purpose, FolderIndexes* folders,
                   std::string* path, std::shared_ptr<const LengthColumn>* column) {
  KeptFile kept;
  Status status = ReadKept(place, folders, &kept);
  *path = kept.path;
  std::shared_ptr<const LengthColumn> opened;
  if (status.ok()) status = LengthColumn::Open(std::move(kept.stored), &opened);
  if (status.ok()) status = CheckState(opened->header().file, purpose.file, kept.written_ns);
  if (!status.ok()) return status;
  const auto other = [](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, what);
  };
  if (opened->key() != purpose.key) {
    return other("it has the lengths of " + std::string(opened->key()));
  }
  if (opened->records() != purpose.records) {
    return other("it has " + std::to_string(opened->records()) + " records, and the file " +
                 std::to_string(purpose.records));
  }
  if (opened->header().max_record_bytes != purpose.max_record_bytes) {
    return other("it was made with another max_record_bytes");
  }
  constexpr std::uint64_t kMostChecked = std::uint64_t{256} << 20;
  if (PagesBytes(opened->header()) <= kMostChecked) status = opened->CheckAll();
  if (status.ok()) *column = std::move(opened);
  return status;
}

Status SaveLengths(const IndexPlace& place, std::span<const std::byte> column,
                   FolderIndexes* folders, std::string* path) {
  return KeepWhereItFits(place, column, folders, path);
}

}  // namespace ringfeed
