#include "tests/readers/parsers/odd_ofrecords.h"

#include <algorithm>
#include <array>
#include <vector>

namespace ringfeed {
namespace {

struct UsualFeature {
  std::string_view key;
  unsigned kind;  // 1 bytes, 2 floats, 3 doubles, 4 int32s, 5 int64s
  std::size_t count;
};

// What ofrecord_against_protobuf_test.cc asks for, and more.
constexpr std::array<UsualFeature, 9> kUsual = {{{"encoded", 1, 1},
                                                 {"raw", 1, 1},
                                                 {"x", 2, 13},
                                                 {"d", 3, 3},
                                                 {"class/label", 4, 1},
                                                 {"small", 4, 4},
                                                 {"wide", 5, 6},
                                                 {"a feature nobody asks for", 5, 5},
                                                 {"", 3, 3}}};

}  // namespace

std::string OddOFRecords::Varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
  // Overlong, as long as every reader takes it (five bytes of a length or a tag).
  while (Odd() && out.size() < 5) {
    out.back() = static_cast<char>(out.back() | '\x80');
    out += '\0';
  }
  return out;
}

std::string OddOFRecords::Delimited(unsigned field, std::string_view bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}

std::string OddOFRecords::Unknown() {
  if (!Odd()) return "";
  const unsigned field = 6 + static_cast<unsigned>(Below(100));
  switch (Below(5)) {
    case 0:
      return Varint(field << 3) + Varint(random_());
    case 1:
      return Varint(field << 3 | 1) + "12345678";
    case 2:
      return Delimited(field, "unknown");
    case 3:
      return Varint(field << 3 | 3) + Unknown() + Varint(field << 3 | 4);
    default:
      return Varint(field << 3 | 5) + "1234";
  }
}

// Mostly what every type can hold, so that conversions succeed as well as fail.
std::string OddOFRecords::Number(unsigned kind) {
  const bool any = Below(50) == 0;
  const auto small = static_cast<std::int64_t>(Below(128));
  if (kind > 3) {
    const std::uint64_t bits = random_() >> Below(64);
    if (!any) return Varint(static_cast<std::uint64_t>(Odd() ? -small : small));
    return Varint(Below(8) == 0 ? ~bits : bits);
  }
  const double number = static_cast<double>(small) + 0.25;
  const auto single = static_cast<float>(number);
  const void* from = kind == 2 ? static_cast<const void*>(&single) : &number;
  std::string bytes(static_cast<const char*>(from), kind == 2 ? 4 : 8);
  if (any) std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random_()); });
  return bytes;
}

// `count` values of a list, packed or not, in pieces or not.
std::string OddOFRecords::List(unsigned kind, std::size_t count) {
  constexpr std::array<unsigned, 6> kSingleTypes = {0, 2, 5, 1, 0, 0};
  const std::string unknown = Unknown();
  std::string out = unknown;
  std::string run;
  const bool packed = !Odd();
  for (std::size_t i = 0; i < count; ++i) {
    if (kind == 1) {
      std::string bytes(Odd() ? Below(300) : 8, '\0');
      for (char& c : bytes) c = static_cast<char>(random_());
      out += Delimited(1, bytes);
    } else if (packed) {
      run += Number(kind);
    } else {
      out += Varint(1U << 3 | kSingleTypes[kind]) + Number(kind);
    }
    if (packed && kind != 1 && Odd()) {
      out += Delimited(1, run);
      run.clear();
    }
  }
  if (!run.empty() || (kind != 1 && Odd())) out += Delimited(1, run);
  return out + Unknown();
}

std::string OddOFRecords::Feature(unsigned kind, std::size_t count) {
  std::string out = Unknown();
  if (Odd()) out += Delimited(1 + static_cast<unsigned>(Below(5)), "");
  const std::size_t first = Odd() ? Below(count + 1) : count;
  out += Delimited(kind, List(kind, first));
  if (first != count) out += Delimited(kind, List(kind, count - first));
  return out + Unknown();
}

std::string OddOFRecords::Entry(std::string_view key, unsigned kind, std::size_t count) {
  std::string out = Unknown();
  const bool value_first = Odd();
  const std::string name = Odd() && Odd() ? "" : Delimited(1, key);
  if (!value_first) out += name;
  const std::size_t first = Odd() ? Below(count + 1) : count;
  if (!Odd() || !Odd()) out += Delimited(2, Feature(kind, first));
  if (first != count) out += Delimited(2, Feature(kind, count - first));
  if (value_first) out += name;
  return out + Unknown();
}

std::string OddOFRecords::Make(double oddness) {
  oddness_ = oddness;
  std::vector<UsualFeature> features(kUsual.begin(), kUsual.end());
  if (Below(2) == 0) std::shuffle(features.begin(), features.end(), random_);
  std::string out;
  for (const UsualFeature& feature : features) {
    if (Odd() && Odd()) continue;
    const unsigned kind = Odd() ? 1 + static_cast<unsigned>(Below(5)) : feature.kind;
    const std::size_t count = Odd() && Odd() ? Below(40) : feature.count;
    out += Unknown() + Delimited(1, Entry(feature.key, kind, count));
    if (Odd()) out += Delimited(1, Entry(feature.key, feature.kind, feature.count));
  }
  return out + Unknown();
}

std::string OddOFRecords::Damage(std::string message) {
  for (std::uint64_t times = 1 + Below(3); times != 0 && !message.empty(); --times) {
    const std::size_t at = Below(message.size());
    switch (Below(4)) {
      case 0:
        message[at] = static_cast<char>(random_());
        break;
      case 1:
        message[at] = static_cast<char>(message[at] ^ (1 << Below(8)));
        break;
      case 2:
        message.resize(at);
        break;
      default:
        message.insert(at, 1, static_cast<char>(random_()));
    }
  }
  return message;
}

}  // namespace ringfeed
