#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/input_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Bytes of a file that its medium does not give, and what the system said.
struct UnreadableRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Status why;
};

/// Whether a read failed for the medium's sake: what stands around may be readable.
inline bool IsOfMedium(const Status& status) {
  return status.code() == StatusCode::kIoError || status.code() == StatusCode::kDeadlineExceeded;
}

/// What `read` gives, which is asked again, three times in all, if it fails for the medium's sake:
/// a medium that fails once may give its bytes the next time.
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

/// Reads again what a large read of a file failed at, by halves down to pages, so that nothing is
/// lost but the pages that cannot be read. One thread.
class CarefulReads {
 public:
  explicit CarefulReads(InputFile* file) : file_(file) {}

  /// Whether it can: only where there is a descriptor to read from.
  bool HelpsAfter(const Status& failure) const {
    return IsOfMedium(failure) && file_->descriptor() >= 0;
  }
  /// Reads `buffer` from `offset` on, as InputFile::ReadAt. Pages that cannot be read are zeros,
  /// and noted. Blocks, for as long as the medium takes over each of them.
  Status ReadAll(std::uint64_t offset, std::span<std::byte> buffer, std::size_t* bytes_read);
  /// The same up to the first of them, which is the failure.
  Status ReadToFirst(std::uint64_t offset, std::span<std::byte> buffer, std::size_t* bytes_read);

  /// What was noted, ascending and apart.
  std::span<const UnreadableRange> ranges() const { return ranges_; }
  void Note(std::uint64_t begin, std::uint64_t end, const Status& why);
  /// What ends in front of `offset` is of no more use.
  void Forget(std::uint64_t offset);

 private:
  /// Of a file. A medium that has failed so often is not asked for each page any more.
  static constexpr int kMostFailures = 4096;
  Status Read(std::uint64_t offset, std::span<std::byte> buffer, bool all, std::size_t* bytes_read);

  InputFile* const file_;
  std::vector<UnreadableRange> ranges_;
  int failures_ = 0;
};

}  // namespace ringfeed
