#include "tests/readers/parsers/odd_records.h"

#include <algorithm>

namespace ringfeed {

std::string OddRecords::Varint(std::uint64_t value) {
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

std::string OddRecords::Delimited(unsigned field, std::string_view bytes) {
  return Varint(field << 3 | 2) + Varint(bytes.size()) + std::string(bytes);
}

std::string OddRecords::Unknown() {
  if (!Odd()) return "";
  const unsigned field = static_cast<unsigned>(dialect_.kinds.size() + 1 + Below(100));
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

std::string OddRecords::Random(std::size_t size) {
  std::string bytes(size, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random_()); });
  return bytes;
}

std::string OddRecords::Number(char type) {
  const bool any = Below(dialect_.small_numbers ? 50 : 3) == 0;
  const auto small = static_cast<std::int64_t>(Below(dialect_.small_numbers ? 128 : 1 << 20));
  if (type == 'V') {
    const std::uint64_t bits = random_() >> Below(64);
    if (!any) return Varint(static_cast<std::uint64_t>(Odd() ? -small : small));
    return Varint(Below(8) == 0 ? ~bits : bits);
  }
  const std::size_t size = type == 'F' ? sizeof(float) : sizeof(double);
  if (any) return Random(size);
  const double number = static_cast<double>(small) + 0.25;
  const auto single = static_cast<float>(number);
  const void* from = type == 'F' ? static_cast<const void*>(&single) : &number;
  return {static_cast<const char*>(from), size};
}

// `count` values of a list, packed or not, in pieces or not.
std::string OddRecords::List(unsigned kind, std::size_t count) {
  const char type = dialect_.kinds[kind - 1];
  const unsigned single = type == 'V' ? 0 : type == 'F' ? 5 : 1;
  std::string out = Unknown();
  std::string run;
  const bool packed = !Odd();
  for (std::size_t i = 0; i < count; ++i) {
    if (type == 'B') {
      out += Delimited(1, Random(Odd() ? Below(300) : 8));
    } else if (packed) {
      run += Number(type);
    } else {
      out += Varint(1U << 3 | single) + Number(type);
    }
    if (packed && type != 'B' && Odd()) {
      out += Delimited(1, run);
      run.clear();
    }
  }
  if (!run.empty() || (type != 'B' && Odd())) out += Delimited(1, run);
  return out + Unknown();
}

std::string OddRecords::Feature(unsigned kind, std::size_t count) {
  std::string out = Unknown();
  const unsigned other = AnyKind();
  if (Odd()) out += Delimited(other, Odd() ? List(other, 1) : "");
  const std::size_t first = Odd() ? Below(count + 1) : count;
  out += Delimited(kind, List(kind, first));
  if (first != count) out += Delimited(kind, List(kind, count - first));
  if (Odd() && Odd()) out += Delimited(AnyKind(), "");
  return out + Unknown();
}

// `make_value` gives a value that is a part, of so many of its things.
template <typename MakeValue>
std::string OddRecords::Entry(std::string_view key, std::size_t count, MakeValue make_value) {
  std::string out = Unknown();
  const bool value_first = Odd();
  const std::string name = Odd() && Odd() ? "" : Delimited(1, key);
  if (!value_first) out += name;
  const std::size_t first = Odd() ? Below(count + 1) : count;
  if (!Odd() || !Odd()) out += Delimited(2, make_value(first));
  if (first != count) out += Delimited(2, make_value(count - first));
  if (value_first) out += name;
  return out + Unknown();
}

template <typename MakeValue>
std::string OddRecords::Map(std::vector<OddDialect::Usual> entries, MakeValue make_value) {
  if (Below(3) == 0) std::shuffle(entries.begin(), entries.end(), random_);
  std::string out;
  for (const OddDialect::Usual& entry : entries) {
    if (Odd() && Odd()) continue;
    out += Unknown() + Delimited(1, make_value(entry, Odd()));
    if (Odd()) out += Delimited(1, make_value(entry, false));
  }
  return out + Unknown();
}

std::string OddRecords::Features() {
  return Map(dialect_.features, [&](const OddDialect::Usual& usual, bool odd) {
    const unsigned kind = odd ? AnyKind() : usual.kind;
    const std::size_t count = odd && Odd() ? Below(40) : usual.count;
    return Entry(usual.key, count, [&](std::size_t part) { return Feature(kind, part); });
  });
}

std::string OddRecords::Lists() {
  return Map(dialect_.lists, [&](const OddDialect::Usual& usual, bool odd) {
    return Entry(usual.key, Below(5), [&](std::size_t steps) {
      std::string list = Unknown();
      for (std::size_t i = 0; i < steps; ++i) {
        const unsigned kind = odd && Odd() ? AnyKind() : usual.kind;
        const std::size_t count = odd && Odd() ? Below(4) : usual.count;
        list += Delimited(1, Feature(kind, count)) + Unknown();
      }
      return list;
    });
  });
}

std::string OddRecords::Make(double oddness) {
  oddness_ = oddness;
  if (!dialect_.nested) return Features();
  std::string out = Unknown() + Delimited(1, Features());
  if (Odd()) out += Delimited(1, Features());
  if (!dialect_.lists.empty()) out += Delimited(2, Lists());
  if (!dialect_.lists.empty() && Odd()) out += Delimited(2, Lists());
  return out + Unknown();
}

std::string OddRecords::Damage(std::string message) {
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

std::vector<std::string> OddExamples(double oddness, std::size_t count) {
  std::vector<std::string> records;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t values = i % 13;
    const std::vector<OddDialect::Usual> features{{"s", 1, 1},
                                                  {"x", 2, values},
                                                  {"ids", 3, values + 1},
                                                  {"pairs", 3, 2 * values},
                                                  {"id", 3, 1}};
    records.push_back(
        OddRecords({"BFV", true, true, features, {{"steps", 3, 1}}}, i).Make(oddness));
  }
  return records;
}

std::vector<std::string> RandomUnits(std::size_t unit_bytes, std::size_t count) {
  std::mt19937_64 random(unit_bytes);
  std::vector<std::string> records(count);
  for (std::string& record : records) {
    record.resize(random() % 20 * unit_bytes);
    for (char& each : record) each = static_cast<char>(random() % 100);
  }
  return records;
}

}  // namespace ringfeed
