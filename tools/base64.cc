#include "tools/base64.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace ringfeed::tools {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr char kPadding = '=';

// Two characters for each 12 bits: half as many look-ups as one by one.
using Pairs = std::array<std::array<char, 2>, 4096>;
constexpr Pairs MakePairs() {
  Pairs pairs{};
  for (std::size_t bits = 0; bits < pairs.size(); ++bits) {
    pairs[bits] = {kAlphabet[bits >> 6], kAlphabet[bits & 63]};
  }
  return pairs;
}
constexpr Pairs kPairs = MakePairs();

// The value of each character; for an invalid character, a bit that no value has.
constexpr std::uint32_t kInvalid = 1 << 8;
using Values = std::array<std::uint16_t, 256>;
constexpr Values MakeValues() {
  Values values{};
  for (std::uint16_t& value : values) value = kInvalid;
  for (std::size_t value = 0; value < kAlphabet.size(); ++value) {
    values[static_cast<unsigned char>(kAlphabet[value])] = static_cast<std::uint16_t>(value);
  }
  return values;
}
constexpr Values kValues = MakeValues();

// The same for each of the four places in a group, already shifted there.
using GroupValues = std::array<std::array<std::uint32_t, 256>, 4>;
constexpr std::uint32_t kInvalidGroup = 1U << 31;
constexpr GroupValues MakeGroupValues() {
  GroupValues values{};
  for (std::size_t place = 0; place < values.size(); ++place) {
    for (std::size_t c = 0; c < 256; ++c) {
      values[place][c] =
          kValues[c] == kInvalid ? kInvalidGroup : std::uint32_t{kValues[c]} << (18 - 6 * place);
    }
  }
  return values;
}
constexpr GroupValues kGroupValues = MakeGroupValues();

std::uint32_t ByteAt(std::span<const std::byte> bytes, std::size_t place) {
  return std::to_integer<std::uint32_t>(bytes[place]);
}

char* PutPair(std::uint32_t bits, char* to) {
  std::memcpy(to, kPairs[bits].data(), 2);
  return to + 2;
}

std::uint32_t GroupAt(const char* text) {
  const auto* c = reinterpret_cast<const unsigned char*>(text);
  return kGroupValues[0][c[0]] | kGroupValues[1][c[1]] | kGroupValues[2][c[2]] |
         kGroupValues[3][c[3]];
}

void PutGroup(std::uint32_t bits, std::byte* to) {
  to[0] = static_cast<std::byte>(bits >> 16);
  to[1] = static_cast<std::byte>(bits >> 8);
  to[2] = static_cast<std::byte>(bits);
}

Status Bad(std::size_t place, const std::string& what) {
  return Status(StatusCode::kDamaged, "character " + std::to_string(place + 1) + ": " + what);
}

// Names the error of a text that is known to hold a character outside of the alphabet.
Status DescribeBad(std::string_view text) {
  for (std::size_t place = 0; place < text.size(); ++place) {
    const auto c = static_cast<unsigned char>(text[place]);
    if (kValues[c] != kInvalid) continue;
    if (c == kPadding) return Bad(place, "padding stands elsewhere than at the end");
    std::array<char, 8> hex;
    std::snprintf(hex.data(), hex.size(), "0x%02x", c);
    return Bad(place, std::string(hex.data()) + " is not in base64's alphabet");
  }
  return {};
}

// The last one or two bytes, of a group with padding.
Status DecodeTail(std::string_view tail, std::size_t place, std::byte* to) {
  std::uint32_t bits = 0;
  for (const char c : tail) bits = bits << 6 | kValues[static_cast<unsigned char>(c)];
  const std::uint32_t unused = tail.size() == 2 ? 4 : 2;
  if ((bits & ((1U << unused) - 1)) != 0) {
    return Bad(place + tail.size() - 1, "the bits after the last byte are not zero");
  }
  bits >>= unused;
  if (tail.size() == 3) *to++ = static_cast<std::byte>(bits >> 8);
  *to = static_cast<std::byte>(bits);
  return {};
}

}  // namespace

void AppendBase64(std::span<const std::byte> bytes, std::string* text) {
  const std::size_t start = text->size();
  text->resize(start + (bytes.size() + 2) / 3 * 4);
  char* to = text->data() + start;
  std::size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    const std::uint32_t bits =
        ByteAt(bytes, i) << 16 | ByteAt(bytes, i + 1) << 8 | ByteAt(bytes, i + 2);
    to = PutPair(bits >> 12, to);
    to = PutPair(bits & 4095, to);
  }
  const std::size_t left = bytes.size() - i;
  if (left == 0) return;
  const std::uint32_t bits = ByteAt(bytes, i) << 16 | (left == 2 ? ByteAt(bytes, i + 1) << 8 : 0);
  to = PutPair(bits >> 12, to);
  *to++ = left == 2 ? kAlphabet[bits >> 6 & 63] : kPadding;
  *to = kPadding;
}

Status DecodeBase64(std::string_view text, std::vector<std::byte>* bytes) {
  if (text.size() % 4 != 0) {
    Status status = DescribeBad(text.substr(0, text.find_last_not_of(kPadding) + 1));
    if (!status.ok()) return status;
    return Bad(text.size(), "the text ends inside a group of four, it has " +
                                std::to_string(text.size()) + " characters");
  }
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with(kPadding) ? 1 : 0;
  const std::string_view digits = text.substr(0, text.size() - padding);
  const std::size_t whole = digits.size() / 4;
  bytes->resize(text.size() / 4 * 3 - padding);
  std::byte* to = bytes->data();
  std::uint32_t met = 0;
  for (std::size_t group = 0; group < whole; ++group, to += 3) {
    const std::uint32_t bits = GroupAt(digits.data() + 4 * group);
    met |= bits;
    PutGroup(bits, to);
  }
  const std::string_view tail = digits.substr(4 * whole);
  for (const char c : tail) {
    if (kValues[static_cast<unsigned char>(c)] == kInvalid) met |= kInvalidGroup;
  }
  if ((met & kInvalidGroup) != 0) return DescribeBad(digits);
  return tail.empty() ? Status() : DecodeTail(tail, 4 * whole, to);
}

}  // namespace ringfeed::tools
