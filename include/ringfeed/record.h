#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ringfeed {

/// One record's payload: a view into memory that its provider owns. A damaged record that was
/// skipped keeps its place in a list with data == nullptr.
struct RecordSpan {
  const std::byte* data = nullptr;
  std::size_t size = 0;

  std::span<const std::byte> bytes() const { return {data, size}; }
  bool damaged() const { return data == nullptr; }
};

/// A range of bytes of a file that could not be delivered, and why.
struct DamagedRange {
  std::string file;
  std::uint64_t begin = 0;  ///< first byte of the range
  std::uint64_t end = 0;    ///< one past its last byte
  std::string reason;
};

/// Something wrong with a file, though nothing is known to be lost: an archive without its end,
/// say.
struct DataWarning {
  std::string file;
  std::string text;
};

/// What to do with damaged data.
enum class OnDamage : std::uint8_t {
  kFail,  ///< deliver everything before the first damage, then fail
  kSkip,  ///< count it, note its range, go on at the next intact record
};

}  // namespace ringfeed
