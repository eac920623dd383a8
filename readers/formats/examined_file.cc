#include "readers/formats/examined_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "io/careful_reads.h"
#include "io/data_file.h"
#include "io/remote/remote_source.h"
#include "readers/formats/mistaken_file.h"

namespace ringfeed {
namespace {

/// The front of a file, or of a source, into `head`; `got` bytes of it.
using ReadFront = std::function<Status(std::span<std::byte> head, std::size_t* got)>;

// Asks for the object of a store, which may not be there.
Status BeginReading(const Source* source) {
  const auto* const remote = dynamic_cast<const RemoteSource*>(source);
  return remote != nullptr ? remote->Begin() : Status();
}

Status ReadSource(Source* source, std::span<std::byte> head, std::size_t* got) {
  head = head.first(std::min<std::uint64_t>(head.size(), source->Size()));
  return source->ReadAt(0, head, got);
}

/// The bytes that tell the format. If they cannot be read, the format is unknown: the file's name
/// may say less than its bytes do. `most`: of them, unless the file is compressed.
Status ReadHead(const ReadFront& read, std::size_t most, std::vector<std::byte>* head) {
  const auto fill = [&](std::size_t bytes) {
    std::size_t got = 0;
    head->resize(bytes);
    const Status status = ReadPatiently([&] { return read(*head, &got); });
    head->resize(status.ok() ? got : 0);
    return status;
  };
  Status status = fill(most);
  const std::size_t needed = HeadBytesOf(*head);
  return status.ok() && needed > most ? fill(needed) : status;
}

/// Whether the file is what was asked for, whatever its first bytes are.
bool IsToldWithoutHead(std::string_view asked) {
  if (asked.empty()) return false;
  const FormatResult found = FindFormat(asked);
  return found.status.ok() && found.compression == Compression::kNone &&
         !found.format->decompresses();
}

Status ReadHeadOfFile(const std::string& name, std::size_t most, std::uint64_t* bytes,
                      std::uint64_t* inode, std::vector<std::byte>* head, Status* unread) {
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(name, &descriptor, &facts);
  if (!status.ok()) return status;
  *bytes = static_cast<std::uint64_t>(facts.st_size);
  *inode = facts.st_ino;
  const auto read = [descriptor](std::span<std::byte> to, std::size_t* got) {
    return ReadWhole(descriptor, 0, to, got);
  };
  *unread = ReadHead(read, most, head);
  close(descriptor);
  return {};
}

// Asks the format of a file, or of a source, whose end says where its records are.
Status ReadEnd(const ExaminedFile& file, Source* source, std::shared_ptr<const Format>* own) {
  int descriptor = -1;
  const ReadPart read = [&](std::uint64_t offset, std::span<std::byte> to, std::size_t* got) {
    struct stat unused {};
    Status status;
    if (source == nullptr && descriptor < 0) status = OpenDataFile(file.name, &descriptor, &unused);
    if (!status.ok()) return status;
    return ReadPatiently([&] {
      return source != nullptr ? source->ReadAt(offset, to, got)
                               : ReadWhole(descriptor, offset, to, got);
    });
  };
  Status status = file.format->ReadEnd(file.bytes, read, own);
  if (descriptor >= 0) close(descriptor);
  return status.WithPlace({file.name, -1, -1});
}

Status RefuseMistake(std::string_view asked, const FormatResult& found, std::string_view file_name,
                     std::span<const std::byte> head) {
  const bool is_format = found.format != nullptr || asked.empty();
  if (!is_format || found.compression != Compression::kNone) return {};
  MistakenFile mistaken = FindMistake(head);
  if (mistaken.mistake == Mistake::kNone) return {};
  // The first bytes are the mistake's, so that only the name tells what the user means.
  const auto meant = asked.empty() ? DetectFormat(file_name, {}).format : found.format;
  if (meant != nullptr && meant->MayHold(mistaken.mistake, !asked.empty())) return {};
  if (asked.empty() && mistaken.mistake != Mistake::kPointer) {
    mistaken.words += "\nif it is data all the same, name its format (format=, --format)";
  }
  return Status(StatusCode::kInvalidArgument, std::move(mistaken.words));
}

// The data of a format of two files, beside the one that told the format. `source` is that one.
Status ExamineDataSource(const Source* source, const std::string& named, ExaminedFile* file) {
  const auto* const remote = dynamic_cast<const RemoteSource*>(source);
  // One with a query (a secret for one object) has no other beside it.
  if (remote == nullptr || remote->address() != remote->name()) {
    return Status(StatusCode::kUnsupported,
                  "a format of two files is read from a folder: copy both of them to one");
  }
  if (file->name == named) return {};
  std::shared_ptr<RemoteSource> object;
  Status status = remote->Other(file->name, &object);
  if (status.ok()) status = object->Begin();
  if (!status.ok()) return status;
  file->bytes = object->Size();
  file->object = std::move(object);
  return {};
}

// In a format of two files, the named one told the format.
Status ExamineDataFile(ExaminedFile* file) {
  std::vector<std::byte> head;
  Status status = SizeOfFile(file->name, &file->bytes, &file->inode);
  Status unread;  // matters only if nothing else tells the format
  if (status.ok()) {
    status = ReadHeadOfFile(file->name, kHeadBytes, &file->bytes, &file->inode, &head, &unread);
  }
  const MistakenFile mistaken = FindMistake(head);
  const bool refused = status.ok() && mistaken.mistake != Mistake::kNone;
  return refused ? Status(StatusCode::kInvalidArgument, mistaken.words) : status;
}

}  // namespace

FormatResult ChooseFileFormat(std::string_view asked, std::string_view file_name,
                              std::span<const std::byte> head) {
  FormatResult found = ChooseFormat(asked, file_name, head);
  Status mistaken = RefuseMistake(asked, found, file_name, head);
  if (!mistaken.ok()) return {std::move(mistaken), nullptr};
  return found;
}

Status SizeOfFile(const std::string& name, std::uint64_t* bytes, std::uint64_t* inode) {
  struct stat info {};
  if (stat(name.c_str(), &info) != 0) {
    return StatusFromErrno(errno, "examine").WithPlace({name, -1, -1});
  }
  if (S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument,
                  "is a directory; name the files in it, e.g. \"" + name + "/*\"", {name, -1, -1});
  }
  *bytes = static_cast<std::uint64_t>(info.st_size);
  *inode = info.st_ino;
  return {};
}

namespace {

// Opens `source`, or the object or file of the result's name, and reads the first `most` bytes of
// it. A failure to open becomes the result's status, one to read becomes `unread`.
void OpenAndReadHead(Source* source, std::size_t most, ExaminedFile* result,
                     std::vector<std::byte>* head, Status* unread) {
  if (source == nullptr) {
    result->status = SizeOfFile(result->name, &result->bytes, &result->inode);
    if (!result->status.ok()) return;
    result->status =
        ReadHeadOfFile(result->name, most, &result->bytes, &result->inode, head, unread);
    return;
  }
  result->status = BeginReading(source);
  if (!result->status.ok()) return;
  result->bytes = source->Size();
  const auto read = [source](std::span<std::byte> to, std::size_t* got) {
    return ReadSource(source, to, got);
  };
  *unread = ReadHead(read, most, head);
}

}  // namespace

ExaminedFile ExamineFile(const std::string& name, Source* source, const std::string& asked,
                         std::uint64_t stripe_bytes) {
  ExaminedFile result;
  result.name = name;
  if (source == nullptr && IsRemote(name)) {
    std::shared_ptr<RemoteSource> object;
    result.status = RemoteSource::Make(name, ReadingOf({}), &object);
    if (!result.status.ok()) return result;
    source = object.get();
    result.name = object->name();
    result.object = std::move(object);
  }
  std::vector<std::byte> head;
  Status unread;
  // The name of a format that names the columns (csv:header=HEX) is longer than a row of them.
  OpenAndReadHead(source, std::max(kHeadBytes, asked.size()), &result, &head, &unread);
  if (!result.status.ok()) return result;
  if (!unread.ok() && !IsToldWithoutHead(asked)) {
    result.status = unread.WithPlace({result.name, 0, -1});
    return result;
  }
  FormatResult format = ChooseFileFormat(asked, result.name, head);
  if (format.status.ok() && !format.data_file.empty()) {
    const std::string named = std::exchange(result.name, std::move(format.data_file));
    format.status =
        source == nullptr ? ExamineDataFile(&result) : ExamineDataSource(source, named, &result);
    if (format.status.ok() && format.source != nullptr) {
      result.bytes = format.source->Size();
      result.inode = 0;
      result.object = std::move(format.source);
    }
  }
  if (!format.status.ok()) {
    result.status = format.status.WithPlace({result.name, -1, -1});
    return result;
  }
  result.format = std::move(format.format);
  result.compression = format.compression;
  std::shared_ptr<const Format> own = result.format->OfFile(result.compression, head);
  if (result.compression == Compression::kNone && own == nullptr) {
    result.status = ReadEnd(result, source, &own);
    if (!result.status.ok()) return result;
  }
  if (own != nullptr) result.format = std::move(own);
  result.stripes = result.compression != Compression::kNone
                       ? kUnknownSize
                       : result.format->Stripes(result.bytes, stripe_bytes);
  return result;
}

std::string KindName(const ExaminedFile& file) {
  std::string kind(file.format->name());
  if (file.compression != Compression::kNone) {
    kind += std::string("+") + CompressionName(file.compression);
  }
  return kind;
}

}  // namespace ringfeed
