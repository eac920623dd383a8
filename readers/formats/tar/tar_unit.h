#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// A tar file is blocks of 512 bytes: for each member a header and its bytes, filled up with zeros.
/// Facts from POSIX.1 (pax: "ustar Interchange Format", "pax Header Block") and the GNU tar manual
/// ("Basic Tar Format", "GNU Extensions to the Archive Format").
struct TarLayout {
  static constexpr std::size_t kBlockBytes = 512;
  static constexpr std::size_t kNameBytes = 100;
  static constexpr std::size_t kSizeAt = 124;
  static constexpr std::size_t kNumberBytes = 12;
  static constexpr std::size_t kChecksumAt = 148;
  static constexpr std::size_t kChecksumBytes = 8;
  static constexpr std::size_t kTypeAt = 156;
  static constexpr std::size_t kMagicAt = 257;
  static constexpr std::size_t kPrefixAt = 345;
  static constexpr std::size_t kPrefixBytes = 155;
};

/// The warning for a file without it.
inline constexpr std::string_view kTarHasNoEnd =
    "no end of the archive: two blocks of zeros should stand behind its last member, so samples "
    "may "
    "be missing";

/// Whether a block is a header by its checksum: the sum of its bytes with the checksum's own as
/// spaces. Old writers summed signed bytes. A block of zeros is none.
bool TarHeaderMatches(std::span<const std::byte> block);
bool TarBlockIsZero(std::span<const std::byte> bytes);
/// The path in the header itself, whatever its checksum says.
std::string TarHeaderName(std::span<const std::byte> block);
/// Whether "ustar" is in its place.
bool TarHasMagic(std::span<const std::byte> block);
char TarHeaderType(std::span<const std::byte> block);
/// The size that a header states; false if it is no number or absurd (2^50 and more).
bool TarHeaderSize(std::span<const std::byte> block, std::uint64_t* size);

/// A size with the zeros that follow.
inline std::uint64_t TarPadded(std::uint64_t size) {
  constexpr std::uint64_t kLast = TarLayout::kBlockBytes - 1;
  return (size + kLast) & ~kLast;
}

/// WebDataset's key and extension of a path: the base name is cut at its first dot. False if there
/// is no such dot, or nothing before it, or the path is one of WebDataset's own (__x__): such
/// members belong to no sample. Views into `path`.
bool SplitTarName(std::string_view path, std::string_view* key, std::string_view* extension);

/// Whether two extensions are the same except for the case of ASCII letters: cameras write "JPG".
bool SameTarExtension(std::string_view a, std::string_view b);
/// Whether members of that extension are arrays of NumPy: "npy", "seg.npy".
bool IsNpyExtension(std::string_view extension);

/// What a global pax header sets for all later members.
struct TarGlobals {
  std::string path;
  std::string size;
  bool any() const { return !path.empty() || !size.empty(); }
};

/// A header with the extension headers in front of it (GNU long name, pax).
struct TarUnit {
  enum class Kind : std::uint8_t {
    kMember,    ///< a regular file
    kPassOver,  ///< a directory, a link, a device, anything else
    kZeros,     ///< a block of zeros
    kMore,      ///< `need_bytes` from the unit's start are needed to tell
    kDamage,    ///< `code` and `reason`; the header at `header_at` is the one that is wrong
  };
  Kind kind = Kind::kDamage;
  StatusCode code = StatusCode::kDamaged;
  std::string reason;
  std::string name;
  /// All from the unit's start.
  std::uint64_t need_bytes = 0;
  std::uint64_t header_at = 0;
  std::uint64_t data_at = 0;
  std::uint64_t size = 0;
  std::uint64_t end = 0;   ///< of the bytes and the zeros that follow
  bool long_name = false;  ///< `name` was read out of extension headers: it holds under kDamage too
};

/// A header, its checksum set, with a name of up to 100 bytes; bytes and zeros follow it.
void WriteTarHeader(std::string_view name, char type, std::uint64_t size, std::byte* block);
/// One record of a pax header: its length, the key and the value.
std::string PaxRecord(std::string_view key, std::string_view value);

/// Reads the unit at the start of `bytes`. `left` is how many bytes the file has from there on, as
/// far as that is known: a unit that reaches beyond is truncated. Adds global headers to *globals.
TarUnit ReadTarUnit(std::span<const std::byte> bytes, std::uint64_t left, TarGlobals* globals);

}  // namespace ringfeed
