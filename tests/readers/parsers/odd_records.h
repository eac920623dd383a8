#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ringfeed {

/// What records of features look like that OddRecords makes.
struct OddDialect {
  struct Usual {
    std::string_view key;
    unsigned kind;  ///< the number of its field in the oneof
    std::size_t count;
  };

  /// Wire types of the kinds from 1: B bytes, F float, D double, V varint.
  std::string_view kinds;
  bool nested;         ///< the map is field 1 of the record, not the record itself
  bool small_numbers;  ///< mostly what every type can hold
  std::vector<Usual> features;
  std::vector<Usual> lists{};  ///< of field 2: each of some features, which have `count` values
};

/// Makes records of features that are valid but written as no usual writer writes them: lists in
/// pieces and unpacked, unknown fields and groups, keys twice, overlong varints, other kinds than
/// usual, maps in several messages.
class OddRecords {
 public:
  OddRecords(OddDialect dialect, std::uint64_t seed)
      : dialect_(std::move(dialect)), random_(seed) {}

  /// How odd, from 0 (as the dialect's own library writes) to 1.
  std::string Make(double oddness);
  /// Changes, cuts or inserts some bytes.
  std::string Damage(std::string message);

 private:
  bool Odd() { return Below(1000) < static_cast<std::uint64_t>(oddness_ * 300); }
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  unsigned AnyKind() { return 1 + static_cast<unsigned>(Below(dialect_.kinds.size())); }
  std::string Varint(std::uint64_t value);
  std::string Delimited(unsigned field, std::string_view bytes);
  std::string Unknown();
  std::string Random(std::size_t size);
  std::string Number(char type);
  std::string List(unsigned kind, std::size_t count);
  std::string Feature(unsigned kind, std::size_t count);
  template <typename MakeValue>
  std::string Entry(std::string_view key, std::size_t count, MakeValue make_value);
  template <typename MakeValue>
  std::string Map(std::vector<OddDialect::Usual> entries, MakeValue make_value);
  std::string Features();
  std::string Lists();

  const OddDialect dialect_;
  std::mt19937_64 random_;
  double oddness_ = 0;
};

/// `count` tf.Examples and SequenceExamples in one: "s", "x", "ids", "pairs" of 0 to 26 values by
/// the record's number, "id", and a list "steps".
std::vector<std::string> OddExamples(double oddness, std::size_t count);

/// `count` records of 0 to 19 units of `unit_bytes` random bytes each.
std::vector<std::string> RandomUnits(std::size_t unit_bytes, std::size_t count);

}  // namespace ringfeed
