#include "readers/index/kept_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/mixed_hash.h"
#include "io/file_state.h"
#include "io/remote/address.h"
#include "readers/formats/writing/output_file.h"

namespace ringfeed {
namespace {

constexpr const char* kEnding = ".rfx";
constexpr const char* kLengthsEnding = ".rfl";
constexpr const char* kPointsEnding = ".rfp";

std::string WithoutEnding(const std::string& index) {
  return index.substr(0, index.size() - std::string_view(kEnding).size());
}

std::string PathByHash(const std::filesystem::path& file, const std::string& hashed,
                       const std::string& folder) {
  std::array<char, 24> hash{};
  std::snprintf(hash.data(), hash.size(), "-%016llx",
                static_cast<unsigned long long>(MixedHash().Add(hashed).value()));
  return (std::filesystem::path(folder) / file.filename()).string() + hash.data() + kEnding;
}

Status ReadWhole(int descriptor, std::size_t bytes, std::vector<std::byte>* memory) {
  memory->resize(bytes);
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got =
        pread(descriptor, memory->data() + have, bytes - have, static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return StatusFromErrno(errno, "read");
    if (got == 0) return Status(StatusCode::kDamaged, "it was cut while it was read");
    have += static_cast<std::size_t>(got);
  }
  return {};
}

}  // namespace

IndexPlace PlaceOfIndex(const std::string& file, const std::string& folder) {
  const std::filesystem::path given(file);
  const std::string name = given.filename().string();
  if (folder.empty()) {  // hidden, so that "data/*" does not take it for data
    return {given.parent_path() / ("." + name + kEnding), given.parent_path() / kEnding, name};
  }
  std::error_code error;
  std::filesystem::path place = std::filesystem::weakly_canonical(given, error);
  if (error) place = std::filesystem::absolute(given, error);
  const std::filesystem::path parent = place.parent_path();
  return {PathByHash(given, place.string(), folder),
          PathByHash(parent, "folder " + parent.string(), folder), place.filename().string()};
}

IndexPlace PlaceOfSourceIndex(const std::string& name, const std::string& folder) {
  const std::filesystem::path parent = std::filesystem::path(name).parent_path();
  return {PathByHash(name, "source " + name, folder),
          PathByHash(parent, "sources " + parent.string(), folder), name};
}

IndexPlace PlaceOfLengths(const IndexPlace& index, const std::string& key) {
  if (index.own.empty()) return {};
  std::array<char, 20> hash{};
  std::snprintf(hash.data(), hash.size(), "%016llx",
                static_cast<unsigned long long>(MixedHash().Add(key).value()));
  return {WithoutEnding(index.own) + "." + hash.data() + kLengthsEnding, index.shared,
          index.name + "/" + hash.data()};
}

IndexPlace PlaceOfPoints(const IndexPlace& index) {
  if (index.own.empty()) return {};
  return {WithoutEnding(index.own) + kPointsEnding, index.shared, index.name + "/points"};
}

// O_NONBLOCK, here and for other companions of data: without it opening a FIFO would wait.
Status ReadByItself(const std::string& path, KeptFile* kept) {
  kept->path = path;
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return StatusFromErrno(errno, "open");
  struct stat facts {};
  Status status;
  if (fstat(descriptor, &facts) != 0) {
    status = StatusFromErrno(errno, "examine");
  } else if (!S_ISREG(facts.st_mode) || facts.st_size == 0) {
    status = Status(StatusCode::kDamaged, "it is no file of ringfeed's");
  } else {
    kept->written_ns = FileState::Of(facts).modified_ns;
    const bool maps = FileMapping::Count() < FileMapping::kMostKept;
    if (maps) kept->stored.mapping = FileMapping::Open(descriptor, facts, &status);
    // The system may have no mappings left.
    if (kept->stored.mapping == nullptr) {
      status = ReadWhole(descriptor, static_cast<std::size_t>(facts.st_size), &kept->stored.memory);
    }
  }
  close(descriptor);
  return status;
}

Status ReadKept(const IndexPlace& place, FolderIndexes* folders, KeptFile* kept) {
  const Status status = ReadByItself(place.own, kept);
  if (status.code() != StatusCode::kNotFound) return status;
  kept->path = place.shared;
  FolderIndexes::Entry entry;
  const Status found = folders->Read(place.shared, place.name, &entry);
  kept->stored.memory = std::move(entry.index);
  kept->written_ns = entry.written_ns;
  return found;
}

Status KeepAmongOthers(const IndexPlace& place, std::span<const std::byte> bytes,
                       FolderIndexes* folders, std::string* path) {
  *path = place.shared;
  const Status status = folders->Append(place.shared, place.name, bytes);
  if (status.ok()) (void)unlink(place.own.c_str());
  return status;
}

Status KeepByItself(const std::string& path,
                    std::initializer_list<std::span<const std::byte>> pieces) {
  if (IsRemote(path)) {
    return Status(StatusCode::kUnsupported, "it is kept on a disk alone: name a path",
                  {ShownAddress(path), -1, -1});
  }
  OutputFile file(path);
  file.ReplaceLink();
  Status status = file.Open();
  for (const std::span<const std::byte> piece : pieces) {
    if (status.ok()) status = file.Append(piece);
  }
  return status.ok() ? file.Commit() : status;
}

Status KeepWhereItFits(const IndexPlace& place, std::span<const std::byte> bytes,
                       FolderIndexes* folders, std::string* path) {
  constexpr std::size_t kMostAmongOthers = 4096;
  if (bytes.size() <= kMostAmongOthers) {
    const Status status = KeepAmongOthers(place, bytes, folders, path);
    if (status.code() != StatusCode::kUnsupported) return status;
  }
  *path = place.own;
  return KeepByItself(place.own, {bytes});
}

Status CheckState(const FileIdentity& then, const FileIdentity& now, std::int64_t written_ns) {
  const auto other = [](const std::string& what) {
    return Status(StatusCode::kInvalidArgument, what);
  };
  if (then.bytes != now.bytes) {
    return other("the file had " + std::to_string(then.bytes) + " bytes then and has " +
                 std::to_string(now.bytes));
  }
  if (then.modified_ns != now.modified_ns) return other("the file was written since");
  if (then.sample != now.sample) return other("the file's contents are others");
  const auto differs = [](auto before, auto after) {
    return before != 0 && after != 0 && before != after;
  };
  if (differs(then.changed_ns, now.changed_ns) || differs(then.inode, now.inode)) {
    return other("the file was changed or copied since, though its size and time are the same");
  }
  // A write after it was made may have left the file with the same time.
  if (now.changed_ns != 0 && written_ns <= now.changed_ns) {
    return other("it is no younger than the file's last change");
  }
  return {};
}

}  // namespace ringfeed
