#include "readers/index/index_file.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/mixed_hash.h"
#include "readers/index/index_builder.h"
#include "readers/index/index_cover.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kPage = IndexLayout::kPageBytes;
constexpr std::size_t kDamageHead = 28;
/// Of a compressed chunk: deflate makes at most 1032 bytes of one, and a record takes at least 4.
constexpr std::uint64_t kMostRecordsOfByte = 258;

// A name that is too long keeps its beginning, for messages, and a hash tells it from others.
std::string ShortName(std::string_view name) {
  constexpr std::size_t kHashBytes = 17;
  if (name.size() <= IndexHeader::kFormatBytes) return std::string(name);
  std::array<char, kHashBytes + 1> hash{};
  std::snprintf(hash.data(), hash.size(), "#%016llx",
                static_cast<unsigned long long>(MixedHash().Add(name).value()));
  return std::string(name.substr(0, IndexHeader::kFormatBytes - kHashBytes)) + hash.data();
}

std::array<char, IndexHeader::kFormatBytes> FormatField(const Format& format) {
  std::array<char, IndexHeader::kFormatBytes> field{};
  const std::string name = ShortName(format.name());
  std::copy(name.begin(), name.end(), field.begin());
  return field;
}

std::uint32_t GapsChecksum(std::span<const IndexGap> gaps) { return Crc32c(std::as_bytes(gaps)); }

std::vector<std::byte> Encoded(std::span<const IndexDamage> damage) {
  std::vector<std::byte> bytes;
  for (const IndexDamage& one : damage) {
    const std::size_t at = bytes.size();
    bytes.resize(at + kDamageHead + one.reason.size());
    StoreLe(bytes.data() + at, one.begin);
    StoreLe(bytes.data() + at + 8, one.end);
    StoreLe(bytes.data() + at + 16, one.record);
    StoreLe(bytes.data() + at + 24, static_cast<std::uint32_t>(one.reason.size()));
    std::memcpy(bytes.data() + at + kDamageHead, one.reason.data(), one.reason.size());
  }
  return bytes;
}

// False if the bytes are no such list.
bool Decode(std::span<const std::byte> bytes, std::vector<IndexDamage>* damage) {
  while (!bytes.empty()) {
    if (bytes.size() < kDamageHead) return false;
    const std::size_t reason = LoadLe<std::uint32_t>(bytes.data() + 24);
    if (reason > bytes.size() - kDamageHead) return false;
    const auto* const text = reinterpret_cast<const char*>(bytes.data() + kDamageHead);
    damage->push_back({LoadLe<std::uint64_t>(bytes.data()), LoadLe<std::uint64_t>(bytes.data() + 8),
                       LoadLe<std::uint64_t>(bytes.data() + 16), std::string(text, reason)});
    bytes = bytes.subspan(kDamageHead + reason);
  }
  return std::is_sorted(damage->begin(), damage->end());
}

Status Damaged(const std::string& what) { return Status(StatusCode::kDamaged, what); }

bool DamagedAllOver(const IndexHeader& header) {
  return std::min(header.gaps, header.damaged) > IndexImage::kMostGapsKept ||
         header.damage_bytes > IndexImage::kMostDamageBytes;
}

// Whether it is a header, and as many bytes follow it as it says.
Status CheckHeader(const IndexHeader& header, std::uint64_t bytes) {
  if (const Status status = CheckKind(header, "index"); !status.ok()) return status;
  if (header.checksum != HeaderChecksum(header)) return Damaged("its header is damaged");
  const std::uint64_t per_page = header.layout().entries_per_page();
  const std::uint64_t pages = header.units / per_page + (header.units % per_page != 0 ? 1 : 0);
  const bool fits = header.pages == pages && header.pages <= bytes / kPage &&
                    header.gaps <= header.units && !DamagedAllOver(header) &&
                    header.data_end <= header.file.bytes;
  if (!fits || IndexBytes(header) != bytes) return Damaged("it is not as long as its header says");
  // A record is looked up in the page of its unit: without chunks it is the unit.
  const bool counts = header.chunks != 0 ? (header.units != 0 || header.records == 0)
                                         : header.records == header.units;
  if (!counts) return Damaged("it has other records than units");
  const std::uint64_t of_file = header.file.bytes;
  if (header.units > of_file || header.records / kMostRecordsOfByte > of_file ||
      header.lost_ranges > of_file || header.first_lost > of_file) {
    return Damaged("it counts more than the file has bytes for");
  }
  return {};
}

// Whether the lists are possible for a file and an index of these numbers.
Status CheckLists(const IndexHeader& header, std::span<const IndexGap> gaps,
                  std::span<const IndexDamage> damage) {
  const std::uint64_t bytes = header.file.bytes;
  std::uint64_t least = 0;  // the next gap's unit
  for (const IndexGap& gap : gaps) {
    if (gap.unit < least || gap.unit >= header.units || gap.end > bytes) {
      return Damaged("its list of gaps has no order");
    }
    least = gap.unit + 1;
  }
  std::uint64_t lost = 0;
  for (const IndexDamage& range : damage) {
    const bool of_none = range.record == IndexDamage::kNoRecord;
    if (range.begin > range.end || range.end > bytes ||
        (!of_none && range.record >= header.records)) {
      return Damaged("its list of damage is of another file");
    }
    lost += of_none ? 1 : 0;
  }
  // Losses beyond so many are only counted.
  const bool all_listed = damage.size() < IndexBuilder::kMostRanges;
  if (header.lost_ranges < lost || (all_listed && header.lost_ranges > lost)) {
    return Damaged("it counts other damage than it lists");
  }
  return {};
}

}  // namespace

Status CheckPurpose(const IndexHeader& header, const IndexedFile& file) {
  const auto other = [](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, what);
  };
  if (header.format != FormatField(*file.format)) {
    return other(
        "it was made for format \"" +
        std::string(header.format.data(), strnlen(header.format.data(), header.format.size())) +
        "\"");
  }
  const bool same_limit = header.max_record_bytes == file.max_record_bytes;
  if (!same_limit && (header.damaged != 0 || header.longest_unit > file.max_record_bytes)) {
    return other("it was made with another max_record_bytes");
  }
  return {};
}

std::uint64_t PackedListsBytes(const IndexHeader& header) {
  return header.gaps * sizeof(IndexGap) + header.damage_bytes;
}

std::uint64_t IndexBytes(const IndexHeader& header) {
  return kPage + header.pages * kPage + PackedListsBytes(header);
}

std::uint64_t PackedPagesBytes(const IndexHeader& header) {
  if (header.pages == 0) return 0;
  const std::uint64_t before = header.pages - 1;
  const std::uint64_t units = header.units - before * header.layout().entries_per_page();
  return before * kPage + IndexLayout::kPageHead + units * header.layout().entry_bytes();
}

std::vector<std::byte> PackLists(const PagedIndex& index) {
  const auto gaps = std::as_bytes(index.gaps());
  std::vector<std::byte> bytes(gaps.begin(), gaps.end());
  const std::vector<std::byte> damage = Encoded(index.damage());
  bytes.insert(bytes.end(), damage.begin(), damage.end());
  return bytes;
}

Status CheckPacked(const IndexHeader& header, std::uint64_t most_bytes) {
  // So that no sum of them comes near the largest number.
  if (header.pages > most_bytes / kPage + 1 || header.gaps > most_bytes / sizeof(IndexGap) ||
      header.damage_bytes > most_bytes) {
    return Damaged("an index in it has more pages than it has bytes for");
  }
  return CheckHeader(header, IndexBytes(header));
}

Status OpenPacked(PackedIndex packed, std::shared_ptr<const PagedIndex>* index) {
  const IndexHeader& header = packed.header;
  const std::span<const std::byte> lists = packed.lists.bytes();
  if (Status status = packed.lists.Need(lists); !status.ok()) return status;
  std::vector<IndexGap> gaps(static_cast<std::size_t>(header.gaps));
  if (!gaps.empty()) std::memcpy(gaps.data(), lists.data(), gaps.size() * sizeof(IndexGap));
  if (GapsChecksum(gaps) != header.gaps_checksum) return Damaged("its list of gaps is damaged");
  const auto listed = lists.subspan(gaps.size() * sizeof(IndexGap));
  std::vector<IndexDamage> damage;
  if (Crc32c(listed) != header.damage_checksum || !Decode(listed, &damage)) {
    return Damaged("its list of damage is damaged");
  }
  Status status = CheckLists(header, gaps, damage);
  if (!status.ok()) return status;
  const std::span<const std::byte> pages = packed.pages.bytes();
  *index = std::make_shared<const PagedIndex>(header, pages, std::move(gaps), std::move(damage),
                                              std::move(packed.pages));
  return {};
}

namespace {

Status OpenStored(StoredIndex stored, std::int64_t written_ns, const IndexedFile& file,
                  const FileIdentity& identity, std::shared_ptr<const PagedIndex>* index) {
  const std::span<const std::byte> bytes = stored.bytes();
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  Status status = CheckHeader(header, bytes.size());
  if (status.ok()) status = CheckState(header.file, identity, written_ns);
  if (status.ok()) status = CheckPurpose(header, file);
  if (!status.ok()) return status;
  const std::size_t pages_bytes = static_cast<std::size_t>(header.pages * kPage);
  const auto whole = std::make_shared<const StoredIndex>(std::move(stored));
  std::shared_ptr<const PagedIndex> made;
  status = OpenPacked({header,
                       {.whole = whole, .piece = bytes.subspan(kPage, pages_bytes)},
                       {.whole = whole, .piece = bytes.subspan(kPage + pages_bytes)}},
                      &made);
  if (!status.ok()) return status;
  status = CheckCover(*made, file);
  if (status.ok()) *index = std::move(made);
  return status;
}

// An index of at most a page as it is among others: without the zeros of its pages.
std::vector<std::byte> Compact(const IndexImage& image) {
  std::vector<std::byte> bytes;
  const auto add = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  add(std::as_bytes(std::span(&image.header, 1)));
  add(std::span(image.pages).first(PackedPagesBytes(image.header)));
  add(std::as_bytes(std::span(image.gaps)));
  add(Encoded(image.damage));
  return bytes;
}

// It as it is by itself.
Status Spread(std::span<const std::byte> bytes, std::vector<std::byte>* spread) {
  IndexHeader header;
  if (bytes.size() < sizeof(header)) return Damaged("it is no index of ringfeed's");
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.pages > 1 || header.units > header.layout().entries_per_page() ||
      PackedPagesBytes(header) > bytes.size() - sizeof(header)) {
    return Damaged("it is not as long as its header says");
  }
  const auto pages = bytes.subspan(sizeof(header), PackedPagesBytes(header));
  const auto lists = bytes.subspan(sizeof(header) + pages.size());
  spread->resize(kPage + static_cast<std::size_t>(header.pages) * kPage);
  std::memcpy(spread->data(), &header, sizeof(header));
  std::ranges::copy(pages, spread->begin() + kPage);
  spread->insert(spread->end(), lists.begin(), lists.end());
  return {};
}

}  // namespace

std::uint64_t KeptBytes(const IndexHeader& header, const IndexPlace& place,
                        const std::string& path) {
  if (path != place.shared) return IndexBytes(header);
  return sizeof(header) + PackedPagesBytes(header) + PackedListsBytes(header);
}

Status LoadIndex(const IndexPlace& place, const IndexedFile& file, const FileIdentity& identity,
                 FolderIndexes* folders, std::string* path,
                 std::shared_ptr<const PagedIndex>* index) {
  KeptFile kept;
  Status status = ReadKept(place, folders, &kept);
  *path = kept.path;
  if (status.ok() && kept.path == place.shared) {
    std::vector<std::byte> spread;
    status = Spread(kept.stored.bytes(), &spread);
    kept.stored.memory = std::move(spread);
  }
  if (status.ok() && kept.stored.bytes().size() < kPage) {
    status = Damaged("it is no index of ringfeed's");
  }
  if (!status.ok()) return status;
  return OpenStored(std::move(kept.stored), kept.written_ns, file, identity, index);
}

void SignIndex(const IndexedFile& file, const FileIdentity& identity, IndexImage* image) {
  image->header.file = identity;
  image->header.format = FormatField(*file.format);
  image->header.gaps_checksum = GapsChecksum(image->gaps);
  const std::vector<std::byte> damage = Encoded(image->damage);
  image->header.damage_bytes = damage.size();
  image->header.damage_checksum = Crc32c(damage);
  image->header.checksum = HeaderChecksum(image->header);
}

Status CanBeKept(const IndexImage& image) {
  if (DamagedAllOver(image.header)) {
    return Status(StatusCode::kUnsupported, "the file is damaged in too many places");
  }
  if (image.unreadable) {
    return Status(StatusCode::kIoError, "a part of the file could not be read");
  }
  return {};
}

Status SaveIndex(const IndexPlace& place, const IndexImage& image, FolderIndexes* folders,
                 std::string* path) {
  if (Status status = CanBeKept(image); !status.ok()) return status;
  if (image.header.pages <= 1) {
    const Status status = KeepAmongOthers(place, Compact(image), folders, path);
    if (status.code() != StatusCode::kUnsupported) return status;
  }
  *path = place.own;
  return SaveIndex(place.own, image);
}

Status SaveIndex(const std::string& path, const IndexImage& image) {
  if (Status status = CanBeKept(image); !status.ok()) return status;
  std::array<std::byte, kPage> header{};
  std::memcpy(header.data(), &image.header, sizeof(image.header));
  return KeepByItself(
      path, {header, image.pages, std::as_bytes(std::span(image.gaps)), Encoded(image.damage)});
}

}  // namespace ringfeed
