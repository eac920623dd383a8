// One file that stands for a list of data files: their names, states, indexes and lengths.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "readers/formats/examined_file.h"
#include "readers/formats/record_index.h"
#include "readers/index/index_file.h"
#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "readers/index/kept_file.h"
#include "readers/index/length_column.h"
#include "ringfeed/source.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The first bytes of a manifest, little-endian. The directory follows: for each file a
/// ManifestEntryHead, its name, its version, its format. Then come the gaps and damage of all
/// files, the pages of all indexes (PackedIndex), and all length columns, each where its entry
/// says.
struct ManifestHeader {
  static constexpr std::string_view kMagic{"ringfeed files\n\0", 16};
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::uint64_t kMostFiles = 1'000'000;
  static constexpr std::uint64_t kMostDirectoryBytes = std::uint64_t{1} << 30;

  std::array<char, 16> magic{};
  std::uint32_t version = 0;
  std::uint32_t checksum = 0;  ///< CRC-32C of the header with zero here
  std::uint64_t bytes = 0;     ///< of the whole file
  std::uint64_t entries = 0;
  std::uint64_t listed = 0;  ///< files of the list; more than the entries in a part
  std::uint64_t list = 0;    ///< ListHash
  std::uint64_t directory_bytes = 0;
  std::uint32_t directory_checksum = 0;
  std::uint32_t unused = 0;
};
static_assert(sizeof(ManifestHeader) == 72);

struct ManifestEntryHead {
  static constexpr std::size_t kMostTextBytes = std::size_t{1} << 18;  ///< of each text
  static constexpr std::uint32_t kComputed = 1;  ///< the format tells the records' places
  static constexpr std::uint32_t kDetected = 2;  ///< the file told its format
  static constexpr std::uint32_t kLocal = 4;     ///< its time of modification tells its state

  std::uint64_t number = 0;  ///< in the list; ascending
  std::uint64_t lists_at = 0;
  std::uint64_t pages_at = 0;
  std::uint64_t lengths_at = 0;
  std::uint64_t lengths_bytes = 0;  ///< 0: no lengths were made
  std::uint32_t name_bytes = 0;
  std::uint32_t version_bytes = 0;
  std::uint32_t format_bytes = 0;
  std::uint32_t kind = 0;
  /// The index's. Of one that is computed only the file's identity and the records.
  IndexHeader index;
};
static_assert(sizeof(ManifestEntryHead) == 5 * 8 + 4 * 4 + sizeof(IndexHeader));

/// What a manifest has of one file.
struct ManifestEntry {
  std::uint64_t number = 0;  ///< in the list, which a part has some of
  std::string name;          ///< as a program would give it
  std::string version;       ///< Source::Version; empty of a local file
  std::string format;
  bool detected = false;                      ///< by the file's name or its first bytes
  bool local = true;                          ///< no Source
  IndexHeader header;                         ///< of one that is computed only `file` and `records`
  std::shared_ptr<const PagedIndex> index{};  ///< null: it is computed
  std::shared_ptr<const LengthColumn> lengths{};  ///< null: none were made
};

/// A manifest that was opened. Of a local file the bytes are mapped; of a Source the directory is
/// read at once, and the rest as it is needed. Immutable; thread safe.
class Manifest {
 public:
  /// Whether a file begins so.
  static bool IsOne(std::span<const std::byte> head);
  /// Opens what `path` names, a file or an object of a store, or a source, whose name is then its
  /// address. Blocks. Looks at header and directory: kDamaged, kInvalidArgument (of another
  /// version) with what is wrong.
  static Status Open(const std::string& path, std::shared_ptr<const Manifest>* manifest);
  static Status Open(std::shared_ptr<Source> source, std::shared_ptr<const Manifest>* manifest);
  Manifest(std::string path, StoredIndex stored, const ManifestHeader& header);

  const std::string& path() const { return path_; }
  std::size_t files() const { return entries_.size(); }
  std::vector<std::string> names() const;
  const std::string& version(std::size_t file) const { return entries_[file].version; }
  std::uint64_t bytes(std::size_t file) const { return entries_[file].head.index.file.bytes; }

  std::uint64_t listed() const { return header_.listed; }
  std::uint64_t list() const { return header_.list; }
  /// kInvalidArgument, with what to do, of a part.
  Status CheckWhole() const;

  /// ExamineFile, without a look at the file's first bytes if it told its format when it was
  /// indexed, and none is asked for. Fails as CheckState does. `source` is read in place of the
  /// file of that name, if not null. Blocks.
  ExaminedFile Examine(std::size_t file, Source* source, const std::string& format,
                       std::uint64_t stripe_bytes) const;
  /// The identity that it had when it was indexed, if the source's version says that it still has
  /// it: then nothing of it needs to be read.
  bool IdentityOf(std::size_t file, Source* source, FileIdentity* identity) const;
  /// Whether it has changed since it was indexed: its size, the time of modification of a local
  /// file, the version of a source, the sample. (A copy has another inode.) kInvalidArgument, with
  /// what to do. `of_source`: it is read from one now.
  Status CheckState(std::size_t file, bool of_source, const FileIdentity& now) const;
  /// Its index, for a file that is to be read so. kInvalidArgument if it was made for another
  /// format or max_record_bytes. What is found damaged, then or later, is kDamaged, with what to
  /// do. Reads gaps and damage alone.
  Status OpenIndex(std::size_t file, const IndexedFile& read_as,
                   std::shared_ptr<const PagedIndex>* index) const;
  /// Its lengths; kNotFound if it has none of that key and these options; kDamaged.
  Status OpenLengths(std::size_t file, const LengthPurpose& purpose,
                     std::shared_ptr<const LengthColumn>* column) const;
  /// kInvalidArgument if it had another number of records when it was indexed.
  Status CheckRecords(std::size_t file, std::uint64_t records) const;
  /// All of an entry, for another manifest. Blocks.
  Status Take(std::size_t file, ManifestEntry* entry) const;

 private:
  struct Entry {
    ManifestEntryHead head;
    std::string name;
    std::string version;
    std::string format;
  };

  static Status OpenStored(std::string path, StoredIndex stored,
                           std::shared_ptr<const Manifest>* manifest);
  Status ReadDirectory(std::span<const std::byte> directory);
  Status CheckEntry(const Entry& entry) const;
  Status Changed(std::size_t file, const std::string& what) const;
  Status Damaged(const Status& found) const;
  StoredIndex Piece(std::uint64_t at, std::uint64_t bytes) const;
  Status OpenColumn(std::size_t file, std::shared_ptr<const LengthColumn>* column) const;

  const std::string path_;
  const std::shared_ptr<const StoredIndex> stored_;
  const ManifestHeader header_;
  std::vector<Entry> entries_;
};

/// The manifest that a program names in place of files: its name alone. Null if `names` are others,
/// or the name is not one of a manifest, whose address ends in ".manifest". Throws Error if it
/// cannot be opened, or is a part. Blocks.
std::shared_ptr<const Manifest> ManifestOf(const std::vector<std::string>& names);
/// The files that it lists; `names` if they name no manifest.
std::vector<std::string> ListedNames(const std::vector<std::string>& names);

/// How a manifest at `path` has a file's name: from its own folder on if the file is in that or
/// below, so that both can be moved; else a path from the root, or an address. And back.
std::string NameInManifest(const std::string& path, const std::string& name);
std::string NameFromManifest(const std::string& path, const std::string& name);

}  // namespace ringfeed
