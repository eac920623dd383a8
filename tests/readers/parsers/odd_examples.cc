#include "tests/readers/parsers/odd_examples.h"

#include <algorithm>
#include <array>
#include <vector>

namespace ringfeed {
namespace {

struct UsualFeature {
  std::string_view key;
  unsigned kind;  // 1 bytes, 2 floats, 3 int64s
  std::size_t count;
};

// What example_against_protobuf_test.cc asks for, and more.
constexpr std::array<UsualFeature, 9> kUsual = {{{"image", 1, 1},
                                                 {"fixed", 1, 1},
                                                 {"dense", 2, 13},
                                                 {"sparse", 3, 26},
                                                 {"label", 3, 1},
                                                 {"small", 3, 2},
                                                 {"x", 2, 1},
                                                 {"a feature nobody asks for", 3, 5},
                                                 {"", 2, 3}}};

}  // namespace

std::uint64_t OddExamples::AnyNumber() {
  const std::uint64_t bits = random_() >> Below(64);
  return Below(8) == 0 ? ~bits : bits;
}

std::string OddExamples::Varint(std::uint64_t value) {
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

std::string OddExamples::Delimited(unsigned field, std::string_view bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}

std::string OddExamples::Unknown() {
  if (!Odd()) return "";
  const unsigned field = 4 + static_cast<unsigned>(Below(100));
  switch (Below(5)) {
    case 0:
      return Varint(field << 3) + Varint(AnyNumber());
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

// `count` values of a list, packed or not.
std::string OddExamples::Values(unsigned kind, std::size_t count) {
  std::string out;
  const bool packed = !Odd();
  std::string run;
  for (std::size_t i = 0; i < count; ++i) {
    if (kind == 1) {
      std::string bytes(Odd() ? Below(300) : 8, '\0');
      for (char& c : bytes) c = static_cast<char>(random_());
      out += Delimited(1, bytes);
    } else if (kind == 2) {
      std::string bytes(4, '\0');
      for (char& c : bytes) c = static_cast<char>(random_());
      out += packed ? "" : Varint(1 << 3 | 5) + bytes;
      run += bytes;
    } else {
      const std::uint64_t value = Below(3) == 0 ? AnyNumber() : Below(1 << 20);
      out += packed ? "" : Varint(1 << 3) + Varint(value);
      run += Varint(value);
    }
  }
  if (kind != 1 && packed && (count != 0 || Odd())) out += Delimited(1, run);
  return out;
}

std::string OddExamples::List(unsigned kind, std::size_t count) {
  const std::size_t first = Odd() ? Below(count + 1) : count;
  std::string out = Unknown() + Values(kind, first);
  if (first != count || Odd()) out += Values(kind, count - first);
  return out + Unknown();
}

std::string OddExamples::Feature(unsigned kind, std::size_t count) {
  std::string out = Unknown();
  if (Odd()) out += Delimited(1 + static_cast<unsigned>(Below(3)), Values(kind, 1));
  const std::size_t first = Odd() ? Below(count + 1) : count;
  out += Delimited(kind, List(kind, first));
  if (first != count) out += Delimited(kind, List(kind, count - first));
  if (Odd()) out += Delimited(1 + static_cast<unsigned>(Below(3)), "");
  return out + Unknown();
}

std::string OddExamples::Entry(std::string_view key, unsigned kind, std::size_t count) {
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

std::string OddExamples::Features() {
  std::vector<UsualFeature> features(kUsual.begin(), kUsual.end());
  if (Below(4) == 0) std::shuffle(features.begin(), features.end(), random_);
  std::string out;
  for (const UsualFeature& feature : features) {
    if (Odd()) continue;
    const unsigned kind = Odd() ? 1 + static_cast<unsigned>(Below(3)) : feature.kind;
    const std::size_t count = Odd() ? Below(40) : feature.count;
    out += Unknown() + Delimited(1, Entry(feature.key, kind, count));
    if (Odd()) out += Delimited(1, Entry(feature.key, feature.kind, feature.count));
  }
  return out + Unknown();
}

std::string OddExamples::Make(double oddness) {
  oddness_ = oddness;
  std::string out = Unknown() + Delimited(1, Features());
  if (Odd()) out += Delimited(1, Features());
  return out + Unknown();
}

std::string OddExamples::Damage(std::string message) {
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
