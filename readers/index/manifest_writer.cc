#include "readers/index/manifest_writer.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/crc32c.h"
#include "base/mixed_hash.h"
#include "io/remote/address.h"
#include "readers/formats/writing/output_file.h"

namespace ringfeed {
namespace {

/// The bytes of a manifest, but for pages and lengths, which stay where they are.
class ManifestBytes {
 public:
  ManifestBytes(const std::string& path, std::span<const ManifestEntry> entries)
      : path_(path), entries_(entries), heads_(entries.size()), lists_(entries.size()) {}

  Status Write(const ManifestList& list) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (Status status = Describe(i); !status.ok()) {
        return status.WithPlace({entries_[i].name, -1, -1});
      }
    }
    Arrange();
    const std::vector<std::byte> directory = Directory();
    if (directory.size() > ManifestHeader::kMostDirectoryBytes ||
        list.files > ManifestHeader::kMostFiles) {
      return Status(StatusCode::kUnsupported,
                    "a manifest has at most 1,000,000 files, and 1 GiB of names");
    }
    const ManifestHeader header = Header(list, directory);
    OutputFile file(path_);
    Status status = file.Open();
    const auto append = [&](std::span<const std::byte> bytes) {
      if (status.ok() && !bytes.empty()) status = file.Append(bytes);
    };
    append(std::as_bytes(std::span(&header, 1)));
    append(directory);
    for (const auto& lists : lists_) append(lists);
    for (std::size_t i = 0; i < entries_.size(); ++i) append(PagesOf(i));
    for (const ManifestEntry& entry : entries_) append(LengthsOf(entry));
    return status.ok() ? file.Commit() : status;
  }

 private:
  static std::span<const std::byte> LengthsOf(const ManifestEntry& entry) {
    if (entry.lengths == nullptr) return {};
    return entry.lengths->bytes();
  }
  std::span<const std::byte> PagesOf(std::size_t i) const {
    if (entries_[i].index == nullptr) return {};
    return entries_[i].index->pages().first(
        static_cast<std::size_t>(PackedPagesBytes(heads_[i].index)));
  }

  Status Describe(std::size_t i) {
    const ManifestEntry& entry = entries_[i];
    ManifestEntryHead& head = heads_[i];
    if (Status listable = CheckListable({entry.name}); !listable.ok()) return listable;
    names_.push_back(NameInManifest(path_, entry.name));
    for (const std::string& text : {names_.back(), entry.version, entry.format}) {
      if (text.size() <= ManifestEntryHead::kMostTextBytes) continue;
      return Status(StatusCode::kUnsupported, "its name or its format's is too long");
    }
    head.number = entry.number;
    head.name_bytes = static_cast<std::uint32_t>(names_.back().size());
    head.version_bytes = static_cast<std::uint32_t>(entry.version.size());
    head.format_bytes = static_cast<std::uint32_t>(entry.format.size());
    head.index = entry.header;
    if (entry.detected) head.kind |= ManifestEntryHead::kDetected;
    if (entry.local) head.kind |= ManifestEntryHead::kLocal;
    Status status;
    if (entry.index == nullptr) {
      head.kind |= ManifestEntryHead::kComputed;
    } else {
      lists_[i] = PackLists(*entry.index);
      status = entry.index->CheckPages();
    }
    head.lengths_bytes = LengthsOf(entry).size();
    if (status.ok() && entry.lengths != nullptr) status = entry.lengths->CheckAll();
    return status;
  }

  /// Gives everything its place.
  void Arrange() {
    std::uint64_t at = sizeof(ManifestHeader);
    for (const ManifestEntryHead& head : heads_) {
      at += sizeof(head) + head.name_bytes + head.version_bytes + head.format_bytes;
    }
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      heads_[i].lists_at = std::exchange(at, at + lists_[i].size());
    }
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      heads_[i].pages_at = std::exchange(at, at + PagesOf(i).size());
    }
    for (ManifestEntryHead& head : heads_) {
      head.lengths_at = std::exchange(at, at + head.lengths_bytes);
    }
    bytes_ = at;
  }

  std::vector<std::byte> Directory() const {
    std::vector<std::byte> directory;
    const auto add = [&](std::span<const std::byte> bytes) {
      directory.insert(directory.end(), bytes.begin(), bytes.end());
    };
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      add(std::as_bytes(std::span(&heads_[i], 1)));
      add(std::as_bytes(std::span(names_[i])));
      add(std::as_bytes(std::span(entries_[i].version)));
      add(std::as_bytes(std::span(entries_[i].format)));
    }
    return directory;
  }

  ManifestHeader Header(const ManifestList& list, std::span<const std::byte> directory) const {
    ManifestHeader header;
    std::ranges::copy(ManifestHeader::kMagic, header.magic.begin());
    header.version = ManifestHeader::kVersion;
    header.bytes = bytes_;
    header.entries = entries_.size();
    header.listed = list.files;
    header.list = list.hash;
    header.directory_bytes = directory.size();
    header.directory_checksum = Crc32c(directory);
    header.checksum = Crc32c(std::as_bytes(std::span(&header, 1)));
    return header;
  }

  const std::string& path_;
  const std::span<const ManifestEntry> entries_;
  std::vector<ManifestEntryHead> heads_;
  std::vector<std::vector<std::byte>> lists_;
  std::vector<std::string> names_;
  std::uint64_t bytes_ = 0;
};

Status Refused(const std::string& what, const std::string& part) {
  return Status(StatusCode::kInvalidArgument, what, {part, -1, -1});
}

}  // namespace

ManifestList ListOf(const std::vector<std::string>& names, const std::string& what) {
  MixedHash hash;
  hash.Add(std::string_view(what));
  for (const std::string& name : names) hash.Add(std::string_view(name));
  return {names.size(), hash.value()};
}

ManifestEntry EntryOf(std::uint64_t number, const std::string& name, bool detected,
                      const IndexedFile& file, const OpenedIndex& opened) {
  ManifestEntry entry;
  entry.number = number;
  entry.name = name;
  entry.format = file.format->name();
  entry.detected = detected;
  entry.local = file.source == nullptr;
  if (file.source != nullptr) entry.version = file.source->Version();
  entry.index = opened.pages;
  if (entry.index != nullptr) {
    entry.header = entry.index->header();
  } else {
    entry.header.file = opened.known.identity;
    entry.header.records = opened.index->records();
  }
  return entry;
}

Status CheckListable(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    RemoteAddress address;
    if (!IsRemote(name) || !ParseAddress(name, &address).ok()) continue;  // opening it reports that
    const std::string shown = ShownAddress(name);
    if (address.kind != StoreKind::kHttp || shown == name) continue;
    return Status(StatusCode::kUnsupported,
                  "a manifest holds no address with a query, which may be a secret and expires: "
                  "name objects by s3://, gs:// or az://, with credentials in the environment, or "
                  "give the addresses without a manifest",
                  {shown, -1, -1});
  }
  return {};
}

Status WriteManifest(const std::string& path, const ManifestList& list,
                     std::vector<ManifestEntry> entries) {
  std::ranges::sort(entries, {}, &ManifestEntry::number);
  return ManifestBytes(path, entries).Write(list);
}

Status MergeManifests(const std::vector<std::string>& parts, const std::string& path) {
  ManifestList list;
  std::vector<ManifestEntry> entries;
  std::vector<std::string> part_of;  // by the file's number; empty: it is in none
  for (const std::string& part : parts) {
    std::shared_ptr<const Manifest> opened;
    if (Status status = Manifest::Open(part, &opened); !status.ok()) return status;
    const bool is_first = part_of.empty() && entries.empty();
    if (is_first) {
      list = {opened->listed(), opened->list()};
      part_of.resize(static_cast<std::size_t>(list.files));
    }
    if (opened->listed() != list.files || opened->list() != list.hash) {
      return Refused("it is of another list of files, or of another --format or --lengths, than " +
                         parts.front() + ": make all parts of one list",
                     part);
    }
    for (std::size_t i = 0; i < opened->files(); ++i) {
      ManifestEntry& entry = entries.emplace_back();
      if (Status status = opened->Take(i, &entry); !status.ok()) return status;
      std::string& before = part_of[static_cast<std::size_t>(entry.number)];
      if (!before.empty()) return Refused("it has " + entry.name + ", and so has " + before, part);
      before = part;
    }
  }
  if (entries.size() != list.files) {
    const auto missing = std::ranges::find(part_of, "") - part_of.begin();
    return Refused("file " + std::to_string(missing) + " of the list, from 0, is in none of the " +
                       std::to_string(parts.size()) + " parts, which have " +
                       std::to_string(entries.size()) + " of " + std::to_string(list.files) +
                       " files: name all parts",
                   path);
  }
  return WriteManifest(path, list, std::move(entries));
}

}  // namespace ringfeed
