#include "readers/index/indexed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <span>

#include "base/mixed_hash.h"
#include "io/data_file.h"

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
    // So that pieces begin at pages of the cache; those of a small file are all of it.
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

std::int64_t NsOf(const timespec& time) {
  return time.tv_sec * std::int64_t{1000000000} + time.tv_nsec;
}

/// How far what a file system says of a file beside its contents and times can be relied on.
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
      // The machine that serves it, or a cache, may say one thing today and another tomorrow.
      return Reliance::kNone;
    case 0x794C7630:  // overlayfs numbers files anew when it is mounted again
      return Reliance::kNotInodes;
    default:
      return Reliance::kAll;
  }
}

Status SampleFile(const std::string& name, FileIdentity* identity) {
  const int descriptor = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return StatusFromErrno(errno, "open");
  struct stat facts {};
  Status status;
  if (fstat(descriptor, &facts) != 0) {
    status = StatusFromErrno(errno, "examine");
  } else {
    identity->bytes = static_cast<std::uint64_t>(facts.st_size);
    identity->modified_ns = NsOf(facts.st_mtim);
    const Reliance reliance = RelianceOn(descriptor);
    if (reliance != Reliance::kNone) identity->changed_ns = NsOf(facts.st_ctim);
    if (reliance == Reliance::kAll) identity->inode = facts.st_ino;
    const auto read = [descriptor](std::uint64_t at, std::span<std::byte> to, std::size_t* got) {
      return ReadWhole(descriptor, at, to, got);
    };
    status = Sample(identity->bytes, read, &identity->sample);
  }
  close(descriptor);
  return status;
}

}  // namespace

Status IdentifyFile(const IndexedFile& file, FileIdentity* identity) {
  *identity = {};
  Status status;
  if (file.source == nullptr) {
    status = SampleFile(file.name, identity);
  } else {
    identity->bytes = file.source->Size();
    const auto read = [&file](std::uint64_t at, std::span<std::byte> to, std::size_t* got) {
      return file.source->ReadAt(at, to, got);
    };
    status = Sample(identity->bytes, read, &identity->sample);
  }
  return status.ok() ? status : status.WithPlace({file.name, -1, -1});
}

}  // namespace ringfeed
