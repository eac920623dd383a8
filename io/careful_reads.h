#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/input_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Bytes of a file that its medium did not return, and the system's error.
struct UnreadableRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Status why;
};

/// Whether a read failed because of the medium: the bytes around it may be readable.
inline bool IsOfMedium(const Status& status) {
  return status.code() == StatusCode::kIoError || status.code() == StatusCode::kDeadlineExceeded;
}

/// Calls `read` up to three times in all, as long as it fails because of the medium: a medium that
/// fails once may give the bytes the next time.
template <typename Read>
Status ReadPatiently(const Read& read) {
  constexpr int kMostTries = 3;
  Status status;
  for (int tries = 0; tries < kMostTries; ++tries) {
    status = read();
    if (!IsOfMedium(status)) break;
  }
  return status;
}

/// Reads again what a large read of a file failed at, by halves down to pages, so that only the
/// pages that cannot be read are lost. One thread.
class CarefulReads {
 public:
  explicit CarefulReads(InputFile* file) : file_(file) {}

  /// Whether it can help: it needs a descriptor to read from.
  bool HelpsAfter(const Status& failure) const {
    return IsOfMedium(failure) && file_->descriptor() >= 0;
  }
  /// Reads `buffer` from `offset` on, as InputFile::ReadAt. Pages that cannot be read become zeros,
  /// and are noted. Blocks, for as long as the medium takes over each of them.
  Status ReadAll(std::uint64_t offset, std::span<std::byte> buffer, std::size_t* bytes_read);
  /// The same up to the first such page, whose failure it returns.
  Status ReadToFirst(std::uint64_t offset, std::span<std::byte> buffer, std::size_t* bytes_read);

  /// The noted ranges, ascending and apart.
  std::span<const UnreadableRange> ranges() const { return ranges_; }
  void Note(std::uint64_t begin, std::uint64_t end, const Status& why);
  /// Drops the ranges that end in front of `offset`.
  void Forget(std::uint64_t offset);

 private:
  /// For one file. After so many failures the medium is not asked for single pages any more.
  static constexpr int kMostFailures = 4096;
  Status Read(std::uint64_t offset, std::span<std::byte> buffer, bool all, std::size_t* bytes_read);

  InputFile* const file_;
  std::vector<UnreadableRange> ranges_;
  int failures_ = 0;
};

}  // namespace ringfeed
