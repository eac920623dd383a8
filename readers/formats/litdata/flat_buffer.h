#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/little_endian.h"

namespace ringfeed {

/// A table in a FlatBuffer (google/flatbuffers' internals.md), whose bytes are not trusted. What
/// lies outside of them is absent: zero, empty, no table.
class FlatTable {
 public:
  FlatTable() = default;
  /// The root of a buffer.
  explicit FlatTable(std::span<const std::byte> buffer)
      : buffer_(buffer), at_(buffer.size() < kOffset ? 0 : Read<std::uint32_t>(0)) {}

  bool exists() const { return at_ != 0; }

  template <typename T>
  T Scalar(std::size_t field, T absent = {}) const {
    const std::size_t at = Place(field);
    return at == 0 || !Has(at, sizeof(T)) ? absent : Read<T>(at);
  }
  FlatTable Table(std::size_t field) const { return FlatTable(buffer_, Target(field)); }
  std::string_view Text(std::size_t field) const {
    const std::span<const std::byte> text = Structs(field, 1);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  /// A vector of structures of so many bytes.
  std::span<const std::byte> Structs(std::size_t field, std::size_t bytes) const {
    const std::size_t at = Target(field);
    if (at == 0 || !Has(at, kOffset)) return {};
    const std::size_t count = Read<std::uint32_t>(at);
    const std::span<const std::byte> rest = buffer_.subspan(at + kOffset);
    return count > rest.size() / bytes ? std::span<const std::byte>() : rest.first(count * bytes);
  }
  /// One of a vector of tables, and how many it has.
  std::size_t Tables(std::size_t field) const { return Structs(field, kOffset).size() / kOffset; }
  FlatTable TableAt(std::size_t field, std::size_t number) const {
    const std::span<const std::byte> offsets = Structs(field, kOffset);
    const auto at = static_cast<std::size_t>(offsets.data() - buffer_.data()) + number * kOffset;
    return FlatTable(buffer_, Follow(at));
  }

 private:
  static constexpr std::size_t kOffset = sizeof(std::uint32_t);

  FlatTable(std::span<const std::byte> buffer, std::size_t at) : buffer_(buffer), at_(at) {}

  bool Has(std::size_t at, std::size_t bytes) const {
    return at <= buffer_.size() && bytes <= buffer_.size() - at;
  }
  template <typename T>
  T Read(std::size_t at) const {
    return LoadOnceLe<T>(buffer_.data() + at);
  }
  std::size_t Follow(std::size_t at) const {
    if (!Has(at, kOffset)) return 0;
    const std::size_t target = at + Read<std::uint32_t>(at);
    return target < buffer_.size() ? target : 0;
  }
  // Where a field stands; 0 if it does not. A table begins with the way back to its list of fields:
  // u16 bytes of that, of the table, and the place in the table of each.
  std::size_t Place(std::size_t field) const {
    if (at_ == 0 || !Has(at_, kOffset)) return 0;
    const std::int64_t list = static_cast<std::int64_t>(at_) - Read<std::int32_t>(at_);
    const std::size_t entry = 4 + 2 * field;
    if (list < 0 || !Has(static_cast<std::size_t>(list), entry + 2)) return 0;
    const auto place = static_cast<std::size_t>(list);
    if (Read<std::uint16_t>(place) < entry + 2) return 0;
    const std::size_t into = Read<std::uint16_t>(place + entry);
    return into == 0 ? 0 : at_ + into;
  }
  std::size_t Target(std::size_t field) const {
    const std::size_t at = Place(field);
    return at == 0 ? 0 : Follow(at);
  }

  std::span<const std::byte> buffer_;
  std::size_t at_ = 0;
};

}  // namespace ringfeed
