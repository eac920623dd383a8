#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "readers/formats/compression/decompressor.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a compressed file or stream decompresses to, from its start to its end. Zeros after a
/// member are padding. One thread at a time.
class DecompressedReader {
 public:
  /// Fills `buffer` with the next compressed bytes: at least one of them, none at the end.
  using Source = std::function<Status(std::span<std::byte> buffer, std::size_t* got)>;

  DecompressedReader(Compression compression, Source source);

  /// Fills the front of `to` (not empty): at least one byte, none at the end of all. After all
  /// earlier bytes: kDamaged or kTruncated with the place in the compressed bytes and what is wrong
  /// there, or the source's failure. These are final, except that FindNextMember may go on. How
  /// much comes of a damaged member depends only on the source, not on how much each call asks for.
  Status Read(std::span<std::byte> to, std::size_t* got);
  /// The place in the decompressed bytes at which the last member read begins. Its checksum is at
  /// its end: if Read says that the member is damaged, no checksum covers the bytes from here on.
  std::uint64_t member_begin() const { return member_begin_; }
  /// Whether Read failed because of the bytes, not because of the source.
  bool damaged() const { return damaged_; }

  /// After Read returned kDamaged or kTruncated: looks for the next member, from which Read then
  /// goes on. A member is believed if it decompresses to its end, checksum included, or as far as
  /// the buffer reaches. It may start before the place at which the damage was noticed: damaged
  /// bytes may decompress for a while before they make no sense. Returns false if there is no
  /// member, or no way to go on; true also if the source fails meanwhile, which Read then says.
  /// *loss is Read's message and the place at which it goes on.
  bool FindNextMember(std::string* loss);

 private:
  void Step(std::span<std::byte>* room);
  std::size_t TakeStaged(std::span<std::byte> to);
  /// Reads bytes after end_. To make room it may drop bytes before *keep, and then moves *keep and
  /// begin_. Returns false if nothing came: at the source's end, or if the source failed.
  bool ReadMore(std::size_t* keep);
  bool Refill();
  /// Whether a member, at that index, may have begun a byte earlier.
  bool LacksFirstByte(std::size_t member) const;
  /// Looks in `bytes` bytes from index `begin` on for members that together end exactly at the end
  /// of them. Returns how far into them the first one starts, at least 1; 0 if there are none. A
  /// member stored inside another one ends before the outer one's checksum.
  std::size_t SwallowedMember(std::size_t begin, std::size_t bytes);
  /// The size of the member that `bytes` start with; 0 if they do not hold a whole one. Adds to
  /// *decompressed the bytes that it decompressed to.
  std::size_t MemberBytes(std::span<const std::byte> bytes, std::size_t* decompressed);
  /// One call of the decompressor; its output is discarded.
  Decompressor::Result Discard(std::span<const std::byte>* input, std::size_t* decompressed);
  /// Whether the bytes of a magic number are at hand `ahead` bytes after *keep, an index as in
  /// ReadMore.
  bool Reaches(std::size_t* keep, std::size_t ahead);
  /// Whether a member to be believed starts there.
  bool Decompresses(std::size_t* keep, std::size_t ahead);
  void Resume(std::size_t at, std::string* loss);
  /// The file's offset of an index into the buffer.
  std::uint64_t OffsetOf(std::size_t at) const { return read_bytes_ - end_ + at; }
  std::span<const std::byte> From(std::size_t at) const { return {buffer_.get() + at, end_ - at}; }
  Status Bad(StatusCode code, const char* what, std::string_view problem) const;

  const Compression compression_;
  const Source source_;
  const std::unique_ptr<Decompressor> decompressor_;
  const std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;         ///< in the buffer: not yet decompressed
  std::size_t end_ = 0;           ///< in the buffer: of what was read
  std::uint64_t read_bytes_ = 0;  ///< compressed ones, up to end_
  std::uint64_t member_offset_ = 0;
  // How much a decompressor gives of damaged bytes depends on the room that it gets. So it always
  // gets the rest of a chunk. If a call of Read asks for less, that rest goes to the stage first.
  std::unique_ptr<std::byte[]> stage_;
  std::span<const std::byte> staged_;  ///< decompressed, and not yet given
  std::size_t chunk_left_;
  std::uint64_t decompressed_bytes_ = 0;
  std::uint64_t member_begin_ = 0;
  bool source_ended_ = false;
  bool had_member_ = false;
  bool has_more_ = false;  ///< the decompressor holds output for which there was no room
  bool ended_ = false;
  bool damaged_ = false;  ///< failure_ is that of the compressed bytes, not of the source
  Status failure_;
};

/// The text for a member that turned out damaged after [begin, end) of the decompressed bytes had
/// come of it, and after so many records were delivered from them. Empty if nothing came.
inline std::string UntrustedBytes(std::uint64_t begin, std::uint64_t end, std::uint64_t records) {
  if (begin >= end) return "";
  return "; what came of it, decompressed bytes " + std::to_string(begin) + " to " +
         std::to_string(end) +
         ", is not to be trusted: no checksum vouches for it (records delivered: " +
         std::to_string(records) + ")";
}

}  // namespace ringfeed
