#include "readers/index/indexed_file.h"

#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "base/mixed_hash.h"
#include "io/careful_reads.h"
#include "io/data_file.h"
#include "io/remote/remote_source.h"
#include "readers/index/manifest.h"
#include "readers/index/pointed_content.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kPieceBytes = 4096;
constexpr std::uint64_t kPieces = 8;

using ReadPiece = std::function<Status(std::uint64_t, std::span<std::byte>, std::size_t*)>;

Status Sample(std::uint64_t bytes, const ReadPiece& read, std::uint64_t* sample) {
  MixedHash hash;
  hash.Add(bytes);
  std::array<std::byte, kPieceBytes> piece;
  const std::uint64_t last = bytes - std::min(bytes, kPieceBytes);
  for (std::uint64_t i = 0; i < kPieces; ++i) {
    // So that pieces begin at pages of the cache. The pieces of a small file are all of it.
    const std::uint64_t even =
        bytes <= kPieces * kPieceBytes ? i * kPieceBytes : last / (kPieces - 1) * i;
    const std::uint64_t at =
        i + 1 == kPieces && bytes > kPieces * kPieceBytes ? last : even / kPieceBytes * kPieceBytes;
    if (at >= bytes) break;
    const auto wanted = static_cast<std::size_t>(std::min(kPieceBytes, bytes - at));
    std::size_t got = 0;
    Status status = read(at, std::span(piece).first(wanted), &got);
    if (!status.ok()) return status;
    hash.Add(std::span<const std::byte>(piece).first(got));
  }
  *sample = hash.value();
  return {};
}

/// How far to rely on what a file system says of a file besides its contents and times.
enum class Reliance : std::uint8_t { kAll, kNotInodes, kNone };

Reliance RelianceOn(int descriptor) {
  struct statfs facts {};
  if (fstatfs(descriptor, &facts) != 0) return Reliance::kNone;
  switch (static_cast<std::uint32_t>(facts.f_type)) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFE534D42:  // SMB 2
    case 0xFF534D42:  // CIFS
    case 0x65735546:  // FUSE
    case 0x00C36400:  // Ceph
    case 0x0BD00BD0:  // Lustre
    case 0x01021997:  // 9p
    case 0x5346414F:  // AFS
    case 0x73757245:  // Coda
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0x6A656A63:  // virtiofs of some kernels
      // The server, or a cache, may say one thing today and another tomorrow.
      return Reliance::kNone;
    case 0x794C7630:  // overlayfs numbers files anew when it is mounted again
      return Reliance::kNotInodes;
    default:
      return Reliance::kAll;
  }
}

/// If the file is longer, reads its first `most` bytes.
Status LookAt(const std::string& name, std::uint64_t most, KnownFile* known) {
  int descriptor = -1;
  struct stat facts {};
  Status status = OpenDataFile(name, &descriptor, &facts);
  if (!status.ok()) return status;
  known->state = FileState::Of(facts);
  FileIdentity& identity = known->identity;
  identity.bytes = std::min(most, known->state.bytes);
  identity.modified_ns = known->state.modified_ns;
  const Reliance reliance = RelianceOn(descriptor);
  if (reliance != Reliance::kNone) identity.changed_ns = known->state.changed_ns;
  if (reliance == Reliance::kAll) identity.inode = known->state.inode;
  const auto read = [descriptor](std::uint64_t at, std::span<std::byte> to, std::size_t* got) {
    Status given = ReadPatiently([&] { return ReadWhole(descriptor, at, to, got); });
    if (!IsOfMedium(given)) return given;
    // Bytes that the medium does not give count as zeros: the file differs when it can be read
    // again.
    std::fill(to.begin(), to.end(), std::byte{0});
    *got = to.size();
    return Status();
  };
  status = Sample(identity.bytes, read, &identity.sample);
  close(descriptor);
  return status;
}

Status Replaced(StatusCode code, const std::string& why, const std::string& name) {
  return Status(code, "the file was replaced since its index was opened: " + why, {name, -1, -1});
}

}  // namespace

OpenInputResult OpenIndexed(const IndexedFile& file, const std::string& reason) {
  if (file.source != nullptr) return OpenSequentialSource(file.source);
  return OpenSequentialInput(file.name, IoOptions{}, reason);
}

Status IdentifyFile(const IndexedFile& file, KnownFile* known) {
  *known = {};
  Status status;
  if (const PointedContent* const content = PointedContentOf(file.source.get())) {
    status = IdentifyFile(content->stored(), known);
    known->identity.bytes = content->Size();
    return status;
  }
  const bool listed = file.manifest != nullptr;
  Source* const source = file.source.get();
  if (listed && file.manifest->IdentityOf(file.entry, source, &known->identity)) return status;
  if (file.source == nullptr) {
    status = LookAt(file.name, kUnknownSize, known);
  } else {
    known->identity.bytes = file.source->Size();
    const std::string version = file.source->Version();
    if (!version.empty()) known->identity.inode = MixedHash().Add(version).value() | 1;
    const auto read = [&file](std::uint64_t at, std::span<std::byte> to, std::size_t* got) {
      return file.source->ReadAt(at, to, got);
    };
    status = Sample(known->identity.bytes, read, &known->identity.sample);
  }
  if (listed && status.ok()) {
    status = file.manifest->CheckState(file.entry, source != nullptr, known->identity);
  }
  return status.ok() ? status : status.WithPlace({file.name, -1, -1});
}

Status CheckKnown(const std::string& name, const KnownFile& known, const FileState& now) {
  if (now == known.state) return {};
  const FileIdentity& then = known.identity;
  if (now.bytes < then.bytes) {
    return Replaced(
        StatusCode::kTruncated,
        "it had " + std::to_string(then.bytes) + " bytes and has " + std::to_string(now.bytes),
        name);
  }
  KnownFile seen;
  Status status = LookAt(name, then.bytes, &seen);
  if (!status.ok()) return status.WithPlace({name, -1, -1});
  if (seen.state != now) {
    return Status(StatusCode::kIoError, "the file changed while it was opened", {name, -1, -1});
  }
  const FileIdentity& its = seen.identity;
  if (then.inode != 0 && its.inode != 0 && then.inode != its.inode) {
    return Replaced(StatusCode::kDamaged, "another one has its name", name);
  }
  if (its.sample != then.sample) {
    return Replaced(StatusCode::kDamaged, "its contents are others", name);
  }
  if (now.bytes == then.bytes && its.modified_ns != then.modified_ns) {
    return Replaced(StatusCode::kDamaged, "it was written, or its time was set", name);
  }
  return {};
}

}  // namespace ringfeed
