#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringfeed {

/// OFRecord files written plainly, sharing nothing with the code under test.
inline std::string PlainVarint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

/// A field of wire type 2.
inline std::string PlainField(unsigned number, const std::string& bytes) {
  return PlainVarint(number << 3 | 2) + PlainVarint(bytes.size()) + bytes;
}

/// One feature of a record: an entry of its map whose list, of kind 1 (bytes), 2 (float), 3
/// (double), 4 (int32) or 5 (int64), is one run: the bytes of one value or of packed numbers.
inline std::string PlainFeature(const std::string& key, unsigned kind, const std::string& run) {
  const std::string list = PlainField(kind, PlainField(1, run));
  return PlainField(1, PlainField(1, key) + PlainField(2, list));
}

inline std::string PlainLength(std::int64_t length) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(length) >> (8 * i));
  }
  return bytes;
}

inline std::string PlainOfRecordFile(const std::vector<std::string>& records) {
  std::string file;
  for (const std::string& record : records) {
    file += PlainLength(static_cast<std::int64_t>(record.size())) + record;
  }
  return file;
}

/// Records of one to three features, with lengths around those where a varint grows.
inline std::vector<std::string> SomeOfRecords() {
  std::vector<std::string> records;
  for (const std::size_t size : {0u, 1u, 100u, 118u, 5u, 140u, 300u, 2u, 33u}) {
    std::string record = PlainFeature("image", 1, std::string(size, static_cast<char>(size * 7)));
    if (size % 2 == 1) record += PlainFeature("class/label", 4, PlainVarint(size));
    if (size > 99) record += PlainFeature("x", 2, "abcdefgh");
    records.push_back(record);
  }
  return records;
}

}  // namespace ringfeed
