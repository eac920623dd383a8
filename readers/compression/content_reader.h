#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "readers/compression/decompressor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// The decompressed content of a compressed file or stream, from its start to its end. Zeros behind
/// a member are padding. One thread at a time.
class ContentReader {
 public:
  /// Fills `buffer` with the next compressed bytes: at least one of them, none at the end.
  using Source = std::function<Status(std::span<std::byte> buffer, std::size_t* got)>;

  ContentReader(Compression compression, Source source);

  /// Fills the front of `to` (not empty): at least one byte, none at the end of the content. After
  /// all that precedes it: kDamaged or kTruncated with the place in the compressed bytes and what
  /// is wrong there, or the source's failure. These are final.
  Status Read(std::span<std::byte> to, std::size_t* got);

 private:
  void Step(std::span<std::byte>* room);
  bool Refill();
  Status Bad(StatusCode code, const char* what, std::string_view problem) const;

  const Compression compression_;
  const Source source_;
  const std::unique_ptr<Decompressor> decompressor_;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> input_;  ///< of buffer_: not yet decompressed
  std::uint64_t read_bytes_ = 0;      ///< compressed ones, input_ among them
  bool had_member_ = false;
  bool has_more_ = false;  ///< the decompressor holds output for which there was no room
  bool ended_ = false;
  Status failure_;
};

}  // namespace ringfeed
