#include "readers/formats/tar/tar_unit.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

namespace ringfeed {
namespace {

constexpr std::size_t kBlock = TarLayout::kBlockBytes;
// Most bytes of one extension header: paths have 4 KiB, and a pax header may hold attributes.
constexpr std::uint64_t kMostExtensionBytes = std::uint64_t{1} << 20;
// Most extension headers in front of one header; writers put two or three.
constexpr int kMostExtensions = 16;
// No medium holds more: a size like that is damage.
constexpr std::uint64_t kMostSize = std::uint64_t{1} << 50;

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view UpToNul(std::string_view text) { return text.substr(0, text.find('\0')); }

// Octal digits between spaces, up to a NUL or the field's end.
bool ReadOctal(std::string_view field, std::uint64_t* value) {
  field = UpToNul(field);
  const std::size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) {
    *value = 0;
    return true;
  }
  field = field.substr(begin, field.find_last_not_of(' ') + 1 - begin);
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), *value, 8);
  return error == std::errc() && end == field.data() + field.size();
}

// GNU: a set top bit announces a big-endian number in the rest of the field.
bool ReadBase256(std::span<const std::byte> field, std::uint64_t* value) {
  *value = std::to_integer<std::uint64_t>(field[0]) & 0x7f;
  for (const std::byte byte : field.subspan(1)) {
    if (*value >= kMostSize) return false;
    *value = *value << 8 | std::to_integer<std::uint64_t>(byte);
  }
  return true;
}

// What extension headers say about the header that follows them.
struct Extensions {
  std::string path;
  std::string size;
  std::string sparse_path;  // of a sparse file, of which `path` is that of its pieces
  bool sparse = false;
};

bool ReadDecimal(std::string_view text, std::uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// pax: records of "LENGTH KEY=VALUE" and a newline; LENGTH counts the whole record.
bool ReadPax(std::string_view text, Extensions* found) {
  while (!text.empty() && text[0] != '\0') {
    const std::size_t space = text.find(' ');
    std::uint64_t length = 0;
    if (space == std::string_view::npos || !ReadDecimal(text.substr(0, space), &length)) {
      return false;
    }
    if (length > text.size() || length < space + 3 || text[length - 1] != '\n') return false;
    const std::string_view record = text.substr(space + 1, length - space - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") found->path = value;
    if (key == "size") found->size = value;
    if (key == "GNU.sparse.name") found->sparse_path = value;
    if (key.starts_with("GNU.sparse.")) found->sparse = true;
    text.remove_prefix(length);
  }
  return true;
}

bool IsExtension(char type) {
  return type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K';
}

bool HasNoBytes(char type) { return type >= '1' && type <= '6'; }

// Takes an extension header's bytes; false if they are none.
bool TakeExtension(char type, std::string_view text, Extensions* extensions, TarGlobals* globals) {
  if (type == 'L') {
    extensions->path = UpToNul(text);
    return !extensions->path.empty();
  }
  if (type == 'K') return true;
  if (type != 'g') return ReadPax(text, extensions);
  Extensions global{globals->path, globals->size, "", false};
  if (!ReadPax(text, &global)) return false;
  *globals = {global.path, global.size};
  return true;
}

TarUnit Damage(TarUnit unit, StatusCode code, std::string reason) {
  unit.kind = TarUnit::Kind::kDamage;
  unit.code = code;
  unit.reason = std::move(reason);
  return unit;
}

// The header after all extensions; its checksum is right.
TarUnit MainHeader(std::span<const std::byte> block, const Extensions& extensions,
                   const TarGlobals& globals, TarUnit unit) {
  const char type = TarHeaderType(block);
  const std::string& own =
      extensions.sparse_path.empty() ? extensions.path : extensions.sparse_path;
  const std::string& path = own.empty() ? globals.path : own;
  unit.long_name = !path.empty();
  unit.name = unit.long_name ? path : TarHeaderName(block);
  std::string_view key;
  std::string_view extension;
  // A sparse member of no sample is passed over, if its pieces are contiguous.
  if (type == 'S' || (extensions.sparse && SplitTarName(unit.name, &key, &extension))) {
    std::string reason =
        "member " + unit.name + " is stored as a sparse file, which is not supported";
    return Damage(std::move(unit), StatusCode::kUnsupported, std::move(reason));
  }
  const std::string& size = extensions.size.empty() ? globals.size : extensions.size;
  const bool sized = size.empty() ? TarHeaderSize(block, &unit.size)
                                  : ReadDecimal(size, &unit.size) && unit.size < kMostSize;
  if (!sized) {
    return Damage(std::move(unit), StatusCode::kDamaged, "the size of a member is no number");
  }
  if (HasNoBytes(type)) unit.size = 0;
  const bool regular = type == '0' || type == '\0' || type == '7';
  const bool folder = unit.name.ends_with('/');  // old archives have no type for it
  unit.kind = regular && !folder ? TarUnit::Kind::kMember : TarUnit::Kind::kPassOver;
  unit.data_at = unit.header_at + kBlock;
  unit.end = unit.data_at + TarPadded(unit.size);
  return unit;
}

}  // namespace

bool TarHeaderMatches(std::span<const std::byte> block) {
  std::uint64_t stored = 0;
  const auto field = block.subspan(TarLayout::kChecksumAt, TarLayout::kChecksumBytes);
  if (!ReadOctal(Text(field), &stored)) return false;
  // Negative bytes weigh 256 less if they are taken for signed.
  std::uint64_t sum = 0;
  std::uint64_t negative = 0;
  for (std::size_t at = 0; at < kBlock; ++at) {
    sum += std::to_integer<unsigned>(block[at]);
    negative += std::to_integer<unsigned>(block[at]) >> 7;
  }
  for (const std::byte byte : field) {
    sum -= std::to_integer<unsigned>(byte);
    negative -= std::to_integer<unsigned>(byte) >> 7;
  }
  if (sum == 0) return false;
  sum += TarLayout::kChecksumBytes * ' ';
  return stored == sum || stored + 256 * negative == sum;
}

bool TarBlockIsZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{}; });
}

bool TarHasMagic(std::span<const std::byte> block) {
  return Text(block.subspan(TarLayout::kMagicAt, 5)) == "ustar";
}

char TarHeaderType(std::span<const std::byte> block) {
  return std::to_integer<char>(block[TarLayout::kTypeAt]);
}

bool TarHeaderSize(std::span<const std::byte> block, std::uint64_t* size) {
  const auto field = block.subspan(TarLayout::kSizeAt, TarLayout::kNumberBytes);
  const bool large = (field[0] & std::byte{0x80}) != std::byte{};
  return (large ? ReadBase256(field, size) : ReadOctal(Text(field), size)) && *size < kMostSize;
}

std::string TarHeaderName(std::span<const std::byte> block) {
  std::string name(UpToNul(Text(block.first(TarLayout::kNameBytes))));
  // GNU's own magic is "ustar  ", and it keeps other things in the bytes of POSIX's prefix.
  const std::string_view magic = Text(block.subspan(TarLayout::kMagicAt, 6));
  if (magic != std::string_view("ustar\0", 6)) return name;
  const auto prefix = Text(block.subspan(TarLayout::kPrefixAt, TarLayout::kPrefixBytes));
  if (prefix[0] == '\0') return name;
  return std::string(UpToNul(prefix)) + "/" + name;
}

bool SplitTarName(std::string_view path, std::string_view* key, std::string_view* extension) {
  const std::size_t slash = path.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  if (base == 0 && path.starts_with("__") && path.ends_with("__")) return false;
  const std::size_t dot = path.find('.', base);
  if (dot == std::string_view::npos || dot == base) return false;
  *key = path.substr(0, dot);
  *extension = path.substr(dot + 1);
  return true;
}

bool SameTarExtension(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool IsNpyExtension(std::string_view extension) {
  return SameTarExtension(extension.substr(extension.rfind('.') + 1), "npy");
}

TarUnit ReadTarUnit(std::span<const std::byte> bytes, std::uint64_t left, TarGlobals* globals) {
  TarUnit unit;
  Extensions extensions;
  for (int number = 0;; ++number) {
    const std::uint64_t at = unit.header_at;
    unit.need_bytes = at + kBlock;
    if (unit.need_bytes > left) {
      return Damage(std::move(unit), StatusCode::kTruncated, "the file ends inside a header");
    }
    unit.kind = TarUnit::Kind::kMore;
    if (unit.need_bytes > bytes.size()) return unit;
    const auto block = bytes.subspan(static_cast<std::size_t>(at), kBlock);
    if (!TarHeaderMatches(block)) {
      unit.name = extensions.path;
      unit.long_name = !unit.name.empty();
      if (number == 0 && TarBlockIsZero(block)) {
        unit.kind = TarUnit::Kind::kZeros;
        return unit;
      }
      return Damage(std::move(unit), StatusCode::kDamaged, "a header's checksum does not match");
    }
    const char type = TarHeaderType(block);
    if (!IsExtension(type)) return MainHeader(block, extensions, *globals, std::move(unit));
    std::uint64_t size = 0;
    if (!TarHeaderSize(block, &size) || size > kMostExtensionBytes || number == kMostExtensions) {
      return Damage(std::move(unit), StatusCode::kDamaged, "an extension header is out of bounds");
    }
    const std::uint64_t end = at + kBlock + TarPadded(size);
    unit.need_bytes = end + kBlock;
    if (end > left) {
      return Damage(std::move(unit), StatusCode::kTruncated, "the file ends inside a header");
    }
    if (end > bytes.size()) return unit;
    const auto text =
        Text(bytes.subspan(static_cast<std::size_t>(at) + kBlock, static_cast<std::size_t>(size)));
    if (!TakeExtension(type, text, &extensions, globals)) {
      return Damage(std::move(unit), StatusCode::kDamaged, "an extension header holds no records");
    }
    if (type == 'g' && number == 0) {
      unit.kind = TarUnit::Kind::kPassOver;
      unit.end = end;
      return unit;
    }
    unit.header_at = end;
  }
}

std::string PaxRecord(std::string_view key, std::string_view value) {
  // The length counts its own digits.
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + 1;
  while (std::to_string(length).size() + rest > length) ++length;
  return std::to_string(length) + " " + std::string(key) + "=" + std::string(value) + "\n";
}

void WriteTarHeader(std::string_view name, char type, std::uint64_t size, std::byte* block) {
  std::fill_n(block, kBlock, std::byte{});
  const auto put = [block](std::size_t at, std::string_view text) {
    std::memcpy(block + at, text.data(), text.size());
  };
  const auto octal = [&put](std::size_t at, std::size_t digits, std::uint64_t value) {
    std::string text(digits, '0');
    for (std::size_t i = digits; i-- > 0; value >>= 3) {
      text[i] = static_cast<char>('0' + static_cast<char>(value & 7));
    }
    put(at, text);
  };
  constexpr std::uint64_t kMostOctal = (std::uint64_t{1} << 33) - 1;
  put(0, name.substr(0, TarLayout::kNameBytes));
  octal(100, 7, 0644);  // mode
  octal(108, 7, 0);     // uid
  octal(116, 7, 0);     // gid
  if (size <= kMostOctal) {
    octal(TarLayout::kSizeAt, 11, size);
  } else {
    block[TarLayout::kSizeAt] = std::byte{0x80};
    for (std::size_t i = 0; i < 8; ++i) {
      block[TarLayout::kSizeAt + 4 + i] = static_cast<std::byte>(size >> (56 - 8 * i) & 0xff);
    }
  }
  octal(136, 11, 0);  // a real time would make files with equal content differ
  block[TarLayout::kTypeAt] = static_cast<std::byte>(type);
  put(TarLayout::kMagicAt, std::string_view("ustar\00000", 8));
  std::uint64_t sum = TarLayout::kChecksumBytes * ' ';
  for (std::size_t at = 0; at < kBlock; ++at) sum += std::to_integer<unsigned>(block[at]);
  octal(TarLayout::kChecksumAt, 6, sum);
  put(TarLayout::kChecksumAt + 6, std::string_view("\0 ", 2));
}

}  // namespace ringfeed
