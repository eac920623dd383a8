#include "readers/index/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/crc32c.h"
#include "base/mixed_hash.h"
#include "io/data_file.h"
#include "io/file_mapping.h"
#include "io/file_state.h"
#include "io/remote/remote_source.h"
#include "readers/formats/format.h"

namespace ringfeed {
namespace {

namespace fs = std::filesystem;

Status DamagedManifest(const std::string& what) { return Status(StatusCode::kDamaged, what); }

bool IsAddress(const std::string& name) { return name.find("://") != std::string::npos; }

/// Without what may be a secret, the query.
std::string ShownName(const std::string& path) {
  return IsAddress(path) ? path.substr(0, path.find('?')) : path;
}

/// Whether a manifest at `path` may have this name in it.
bool IsPossible(const std::string& path, const std::string& name) {
  if (name.empty() || name.find('\0') != std::string::npos) return false;
  if (IsAddress(name)) return true;
  // One that came from afar names no files of this machine.
  if (IsAddress(path)) return name.front() != '/';
  const fs::path below(name);
  return below.is_absolute() || std::find(below.begin(), below.end(), "..") == below.end();
}

std::uint64_t VersionHash(const std::string& version) {
  return MixedHash().Add(version).value() | 1;  // as FileIdentity::inode has it
}

}  // namespace

std::string NameInManifest(const std::string& path, const std::string& name) {
  if (IsAddress(name)) {
    const std::string folder = IsAddress(path) ? FolderOfAddress(path) : "";
    const std::string rest = name.substr(std::min(folder.size(), name.size()));
    const bool is_below = !folder.empty() && name.starts_with(folder) && !rest.empty();
    return is_below && rest.front() != '/' && !IsAddress(rest) ? rest : name;
  }
  const fs::path full = fs::absolute(name).lexically_normal();
  const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  const fs::path below = full.lexically_relative(folder);
  return below.empty() || *below.begin() == ".." ? full.string() : below.string();
}

std::string NameFromManifest(const std::string& path, const std::string& name) {
  if (IsAddress(name) || name.starts_with('/')) return name;
  if (IsAddress(path)) return FolderOfAddress(path) + name;
  return (fs::path(path).parent_path() / name).string();
}

bool Manifest::IsOne(std::span<const std::byte> head) {
  constexpr std::string_view kMagic = ManifestHeader::kMagic;
  return head.size() >= kMagic.size() &&
         std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0;
}

Status Manifest::Open(const std::string& path, std::shared_ptr<const Manifest>* manifest) {
  if (IsRemote(path)) {
    std::shared_ptr<RemoteSource> source;
    Status status = RemoteSource::Make(path, ReadingOf({}), &source);
    return status.ok() ? Open(std::move(source), manifest) : status;
  }
  KeptFile kept;
  const Status status = ReadByItself(path, &kept);
  if (!status.ok()) return status.WithPlace({path, -1, -1});
  return OpenStored(path, std::move(kept.stored), manifest);
}

Status Manifest::Open(std::shared_ptr<Source> source, std::shared_ptr<const Manifest>* manifest) {
  const std::string path = source->name();
  StoredIndex stored;
  const Status status = FetchedBytes::Open(std::move(source), &stored.fetched);
  if (!status.ok()) return status.WithPlace({ShownName(path), -1, -1});
  return OpenStored(path, std::move(stored), manifest);
}

Status Manifest::OpenStored(std::string path, StoredIndex stored,
                            std::shared_ptr<const Manifest>* manifest) {
  const std::string shown = ShownName(path);
  const auto failed = [&](const Status& why) { return why.WithPlace({shown, -1, -1}); };
  stored.remedy = "; make the manifest anew (ringfeed index FILES --manifest " + shown + ")";
  const std::span<const std::byte> bytes = stored.bytes();
  ManifestHeader header;
  if (bytes.size() < sizeof(header)) return failed(DamagedManifest("it is no manifest"));
  if (Status status = stored.Need(bytes.first(sizeof(header))); !status.ok()) return failed(status);
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (Status status = CheckKind(header, "manifest"); !status.ok()) return failed(status);
  if (header.checksum != HeaderChecksum(header)) {
    return failed(DamagedManifest("its header is damaged" + stored.remedy));
  }
  if (header.bytes != bytes.size()) {
    return failed(DamagedManifest("it has " + std::to_string(bytes.size()) + " bytes and not " +
                                  std::to_string(header.bytes) + stored.remedy));
  }
  if (header.listed == 0 || header.listed > ManifestHeader::kMostFiles ||
      header.entries > header.listed ||
      header.directory_bytes > ManifestHeader::kMostDirectoryBytes ||
      header.directory_bytes > bytes.size() - sizeof(header)) {
    return failed(DamagedManifest("its header has impossible numbers"));
  }
  const auto directory =
      bytes.subspan(sizeof(header), static_cast<std::size_t>(header.directory_bytes));
  if (Status status = stored.Need(directory); !status.ok()) return failed(status);
  if (header.directory_checksum != Crc32c(directory)) {
    return failed(DamagedManifest("its directory is damaged" + stored.remedy));
  }
  auto opened = std::make_shared<Manifest>(std::move(path), std::move(stored), header);
  if (Status status = opened->ReadDirectory(directory); !status.ok()) return failed(status);
  *manifest = std::move(opened);
  return {};
}

Manifest::Manifest(std::string path, StoredIndex stored, const ManifestHeader& header)
    : path_(std::move(path)),
      stored_(std::make_shared<const StoredIndex>(std::move(stored))),
      header_(header) {}

Status Manifest::ReadDirectory(std::span<const std::byte> directory) {
  const auto take_text = [&](std::size_t bytes) {
    const std::string text(reinterpret_cast<const char*>(directory.data()), bytes);
    directory = directory.subspan(bytes);
    return text;
  };
  std::uint64_t least = 0;  // the next number
  for (std::uint64_t i = 0; i < header_.entries; ++i) {
    Entry entry;
    ManifestEntryHead& head = entry.head;
    if (directory.size() < sizeof(head)) return DamagedManifest("its directory is cut");
    std::memcpy(&head, directory.data(), sizeof(head));
    directory = directory.subspan(sizeof(head));
    for (const std::uint32_t text : {head.name_bytes, head.version_bytes, head.format_bytes}) {
      if (text > ManifestEntryHead::kMostTextBytes) return DamagedManifest("a name is too long");
    }
    if (std::size_t{head.name_bytes} + head.version_bytes + head.format_bytes > directory.size()) {
      return DamagedManifest("its directory is cut");
    }
    entry.name = take_text(head.name_bytes);
    entry.version = take_text(head.version_bytes);
    entry.format = take_text(head.format_bytes);
    if (head.number < least || head.number >= header_.listed) {
      return DamagedManifest("its files have no order");
    }
    least = head.number + 1;
    if (Status status = CheckEntry(entry); !status.ok()) return status;
    entry.name = NameFromManifest(path_, entry.name);
    entries_.push_back(std::move(entry));
  }
  return directory.empty() ? Status() : DamagedManifest("its directory is too long");
}

Status Manifest::CheckEntry(const Entry& entry) const {
  if (!IsPossible(path_, entry.name)) return DamagedManifest("it has an impossible name of a file");
  const ManifestEntryHead& head = entry.head;
  const auto fits = [this](std::uint64_t at, std::uint64_t bytes) {
    return bytes <= header_.bytes && at <= header_.bytes - bytes;
  };
  if (!fits(head.lengths_at, head.lengths_bytes)) return DamagedManifest("lengths are not in it");
  if ((head.kind & ManifestEntryHead::kComputed) != 0) return {};
  if (Status status = CheckPacked(head.index, header_.bytes); !status.ok()) return status;
  const bool are_there = fits(head.pages_at, PackedPagesBytes(head.index)) &&
                         fits(head.lists_at, PackedListsBytes(head.index));
  return are_there ? Status() : DamagedManifest("pages of an index are not in it");
}

std::vector<std::string> Manifest::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.name);
  return names;
}

Status Manifest::CheckWhole() const {
  if (header_.entries == header_.listed) return {};
  return Status(StatusCode::kInvalidArgument,
                "it is a part of a manifest, with " + std::to_string(header_.entries) + " of " +
                    std::to_string(header_.listed) +
                    " files: join all parts (ringfeed index --merge PARTS --manifest FILE)",
                {ShownName(path_), -1, -1});
}

Status Manifest::Changed(std::size_t file, const std::string& what) const {
  return Status(StatusCode::kInvalidArgument,
                "the file is not as it was when it was indexed: " + what + stored_->remedy,
                {entries_[file].name, -1, -1});
}

Status Manifest::Damaged(const Status& found) const {
  // A piece of another version is none that was written into it.
  if (found.code() != StatusCode::kDamaged && found.code() != StatusCode::kInvalidArgument) {
    return found;
  }
  const bool told = found.message().find(stored_->remedy) != std::string::npos;
  return DamagedManifest(found.message() + (told ? "" : stored_->remedy))
      .WithPlace({ShownName(path_), -1, -1});
}

ExaminedFile Manifest::Examine(std::size_t file, Source* source, const std::string& format,
                               std::uint64_t stripe_bytes) const {
  const Entry& entry = entries_[file];
  ExaminedFile examined;
  const std::uint32_t told = entry.head.kind & ~ManifestEntryHead::kLocal;
  if (format.empty() && told == ManifestEntryHead::kDetected) {
    examined.format = FindFormat(entry.format).format;
  }
  if (examined.format == nullptr) {
    examined = ExamineFile(entry.name, source, format, stripe_bytes);
  } else {
    examined.name = entry.name;
    examined.bytes = source != nullptr ? source->Size() : 0;
    if (source == nullptr) {
      examined.status = SizeOfFile(entry.name, &examined.bytes, &examined.inode);
    }
    examined.stripes = examined.format->Stripes(examined.bytes, stripe_bytes);
  }
  if (!examined.status.ok()) return examined;
  FileIdentity now = entry.head.index.file;  // for what is not looked at
  now.bytes = examined.bytes;
  if (source != nullptr) {
    const std::string version = source->Version();
    now.inode = version.empty() ? 0 : VersionHash(version);
  } else {
    struct stat facts {};
    if (stat(examined.name.c_str(), &facts) == 0) {
      now.modified_ns = FileState::Of(facts).modified_ns;
    }
  }
  examined.status = CheckState(file, source != nullptr, now);
  return examined;
}

bool Manifest::IdentityOf(std::size_t file, Source* source, FileIdentity* identity) const {
  const Entry& entry = entries_[file];
  if (source == nullptr || entry.version.empty() || source->Version() != entry.version ||
      source->Size() != bytes(file)) {
    return false;
  }
  *identity = entry.head.index.file;
  return true;
}

Status Manifest::CheckState(std::size_t file, bool of_source, const FileIdentity& now) const {
  const Entry& entry = entries_[file];
  const FileIdentity& then = entry.head.index.file;
  const bool both_local = !of_source && (entry.head.kind & ManifestEntryHead::kLocal) != 0;
  const bool both_versions = of_source && !entry.version.empty() && now.inode != 0;
  if (then.bytes != now.bytes) {
    return Changed(file, "it had " + std::to_string(then.bytes) + " bytes and has " +
                             std::to_string(now.bytes));
  }
  if (both_versions && now.inode != VersionHash(entry.version)) {
    return Changed(file, "it has another version (ETag)");
  }
  if (both_local && then.modified_ns != now.modified_ns) {
    return Changed(file, "it was written, or its time was set");
  }
  return then.sample == now.sample ? Status() : Changed(file, "its contents are others");
}

StoredIndex Manifest::Piece(std::uint64_t at, std::uint64_t bytes) const {
  return {.whole = stored_,
          .piece = stored_->bytes().subspan(static_cast<std::size_t>(at),
                                            static_cast<std::size_t>(bytes))};
}

Status Manifest::OpenIndex(std::size_t file, const IndexedFile& read_as,
                           std::shared_ptr<const PagedIndex>* index) const {
  AwaitSigbus();
  const ManifestEntryHead& head = entries_[file].head;
  const bool computed = (head.kind & ManifestEntryHead::kComputed) != 0;
  Status status = computed ? Status(StatusCode::kInvalidArgument,
                                    "it was made for format \"" + entries_[file].format + "\"")
                           : CheckPurpose(head.index, read_as);
  if (!status.ok()) {
    return Status(status.code(),
                  "the index in the manifest does not fit: " + status.message() + stored_->remedy,
                  {entries_[file].name, -1, -1});
  }
  return Damaged(OpenPacked({head.index, Piece(head.pages_at, PackedPagesBytes(head.index)),
                             Piece(head.lists_at, PackedListsBytes(head.index))},
                            index));
}

Status Manifest::OpenColumn(std::size_t file, std::shared_ptr<const LengthColumn>* column) const {
  AwaitSigbus();
  const ManifestEntryHead& head = entries_[file].head;
  return Damaged(LengthColumn::Open(Piece(head.lengths_at, head.lengths_bytes), column));
}

Status Manifest::OpenLengths(std::size_t file, const LengthPurpose& purpose,
                             std::shared_ptr<const LengthColumn>* column) const {
  if (entries_[file].head.lengths_bytes == 0) return Status(StatusCode::kNotFound, "no lengths");
  std::shared_ptr<const LengthColumn> opened;
  if (Status status = OpenColumn(file, &opened); !status.ok()) return status;
  if (opened->key() != purpose.key || opened->records() != purpose.records ||
      opened->header().max_record_bytes != purpose.max_record_bytes) {
    return Status(StatusCode::kNotFound, "its lengths are others");
  }
  *column = std::move(opened);
  return {};
}

Status Manifest::CheckRecords(std::size_t file, std::uint64_t records) const {
  const std::uint64_t then = entries_[file].head.index.records;
  if (then == records) return {};
  return Changed(file,
                 "it had " + std::to_string(then) + " records and has " + std::to_string(records));
}

Status Manifest::Take(std::size_t file, ManifestEntry* entry) const {
  AwaitSigbus();
  const Entry& from = entries_[file];
  const ManifestEntryHead& head = from.head;
  *entry = {.number = head.number,
            .name = from.name,
            .version = from.version,
            .format = from.format,
            .detected = (head.kind & ManifestEntryHead::kDetected) != 0,
            .local = (head.kind & ManifestEntryHead::kLocal) != 0,
            .header = head.index};
  Status status;
  if ((head.kind & ManifestEntryHead::kComputed) == 0) {
    status = Damaged(OpenPacked({head.index, Piece(head.pages_at, PackedPagesBytes(head.index)),
                                 Piece(head.lists_at, PackedListsBytes(head.index))},
                                &entry->index));
  }
  if (status.ok() && head.lengths_bytes != 0) status = OpenColumn(file, &entry->lengths);
  return status;
}

namespace {

// Of an object of that address. Null if it is none.
Status OpenRemote(const std::string& address, std::shared_ptr<const Manifest>* manifest) {
  if (!address.ends_with(".manifest")) return {};
  std::shared_ptr<RemoteSource> source;
  Status status = RemoteSource::Make(address, ReadingOf({}), &source);
  if (status.ok()) status = source->Begin();
  if (!status.ok()) return status;
  std::array<std::byte, ManifestHeader::kMagic.size()> head;
  const std::uint32_t got = source->CopyFront(0, head);
  if (!Manifest::IsOne(std::span(head).first(got))) return {};
  return Manifest::Open(source, manifest);
}

}  // namespace

std::shared_ptr<const Manifest> ManifestOf(const std::vector<std::string>& names) {
  if (names.size() == 1 && IsRemote(names.front())) {
    std::shared_ptr<const Manifest> manifest;
    Status status = OpenRemote(names.front(), &manifest);
    if (status.ok() && manifest != nullptr) status = manifest->CheckWhole();
    if (!status.ok()) throw Error(status);
    return manifest;
  }
  struct stat facts {};
  if (names.size() != 1 || stat(names.front().c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return nullptr;
  }
  const int descriptor = open(names.front().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;  // reading it reports that
  std::array<std::byte, ManifestHeader::kMagic.size()> head;
  std::size_t got = 0;
  const Status read = ReadWhole(descriptor, 0, head, &got);
  close(descriptor);
  if (!read.ok() || !Manifest::IsOne(std::span(head).first(got))) return nullptr;
  std::shared_ptr<const Manifest> manifest;
  Status status = Manifest::Open(names.front(), &manifest);
  if (status.ok()) status = manifest->CheckWhole();
  if (!status.ok()) throw Error(status);
  return manifest;
}

std::vector<std::string> ListedNames(const std::vector<std::string>& names) {
  const std::shared_ptr<const Manifest> manifest = ManifestOf(names);
  return manifest == nullptr ? names : manifest->names();
}

}  // namespace ringfeed
