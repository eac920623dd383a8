#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace ringfeed {

/// Makes OFRecords that are valid but written as no usual writer writes them: lists in pieces and
/// unpacked, unknown fields and groups, keys twice, overlong varints, other kinds than usual.
class OddOFRecords {
 public:
  explicit OddOFRecords(std::uint64_t seed) : random_(seed) {}

  /// How odd, from 0 (as OneFlow writes) to 1.
  std::string Make(double oddness);
  /// Changes, cuts or inserts some bytes.
  std::string Damage(std::string message);

 private:
  bool Odd() { return Below(1000) < static_cast<std::uint64_t>(oddness_ * 300); }
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  std::string Varint(std::uint64_t value);
  std::string Delimited(unsigned field, std::string_view bytes);
  std::string Unknown();
  std::string Number(unsigned kind);
  std::string List(unsigned kind, std::size_t count);
  std::string Feature(unsigned kind, std::size_t count);
  std::string Entry(std::string_view key, unsigned kind, std::size_t count);

  std::mt19937_64 random_;
  double oddness_ = 0;
};

}  // namespace ringfeed
