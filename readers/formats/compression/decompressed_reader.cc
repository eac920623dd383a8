#include "readers/formats/compression/decompressed_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace ringfeed {
namespace {

// The next member may begin at most so many bytes before the place at which damage was noticed.
constexpr std::size_t kLookBackBytes = 32 * 1024;
// Holds any block of zstd, which gives nothing before it has one whole.
constexpr std::size_t kBufferBytes = kLookBackBytes + 160 * 1024;
// So many decompressed bytes are not there by chance.
constexpr std::size_t kBelievedBytes = 64 * 1024;
constexpr std::size_t kMagicBytes = 4;
// Bytes are decompressed in pieces of this size.
constexpr std::size_t kChunkBytes = 128 * 1024;
// A search for members inside one stops after so many decompressed bytes.
constexpr std::size_t kSearchedBytes = 16 * 1024 * 1024;

}  // namespace

DecompressedReader::DecompressedReader(Compression compression, Source source)
    : compression_(compression),
      source_(std::move(source)),
      decompressor_(MakeDecompressor(compression)),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)),
      chunk_left_(kChunkBytes) {}

Status DecompressedReader::Bad(StatusCode code, const char* what, std::string_view problem) const {
  return Status(code, std::string("the ") + CompressionName(compression_) + " stream " + what +
                          " at byte " + std::to_string(OffsetOf(begin_)) +
                          std::string(problem.empty() ? "" : ": ") + std::string(problem));
}

bool DecompressedReader::ReadMore(std::size_t* keep) {
  if (source_ended_) return false;
  if (end_ == kBufferBytes) {
    const std::size_t dropped = *keep;
    std::memmove(buffer_.get(), buffer_.get() + dropped, end_ - dropped);
    *keep = 0;
    begin_ -= std::min(begin_, dropped);
    end_ -= dropped;
  }
  std::size_t got = 0;
  const Status status = source_({buffer_.get() + end_, kBufferBytes - end_}, &got);
  if (!status.ok()) {
    failure_ = status;
    damaged_ = false;
    return false;
  }
  read_bytes_ += got;
  end_ += got;
  source_ended_ = got == 0;
  return got > 0;
}

bool DecompressedReader::Refill() {
  std::size_t keep = begin_ - std::min(begin_, kLookBackBytes);
  if (ReadMore(&keep)) return true;
  if (!failure_.ok()) return false;
  ended_ = true;
  damaged_ = decompressor_->inside_member();
  if (damaged_) failure_ = Bad(StatusCode::kTruncated, "is cut off", "");
  return false;
}

void DecompressedReader::Step(std::span<std::byte>* room) {
  if (begin_ == end_ && !has_more_ && !Refill()) return;
  if (!decompressor_->inside_member()) {
    const std::span<const std::byte> rest = From(begin_);
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (had_member_) {
      begin_ += static_cast<std::size_t>(std::ranges::find_if_not(rest, is_zero) - rest.begin());
    }
    if (begin_ == end_) return;
    member_offset_ = OffsetOf(begin_);
    member_begin_ = decompressed_bytes_;
  }
  std::span<const std::byte> input = From(begin_);
  const Decompressor::Result result = decompressor_->Decompress(&input, room);
  begin_ = end_ - input.size();
  has_more_ = result == Decompressor::Result::kNeedsRoom;
  if (result == Decompressor::Result::kMemberEnds) had_member_ = true;
  if (result == Decompressor::Result::kDamaged) {
    StatusCode code = decompressor_->code();
    // A writer treats all members of a file alike: if only a later one is unsupported, a bit
    // flipped.
    if (code == StatusCode::kUnsupported && had_member_) code = StatusCode::kDamaged;
    damaged_ = code == StatusCode::kDamaged;
    failure_ = Bad(code, damaged_ ? "is damaged" : "cannot be read", decompressor_->problem());
  }
}

std::size_t DecompressedReader::TakeStaged(std::span<std::byte> to) {
  const std::size_t bytes = std::min(to.size(), staged_.size());
  std::copy_n(staged_.begin(), bytes, to.begin());
  staged_ = staged_.subspan(bytes);
  return bytes;
}

Status DecompressedReader::Read(std::span<std::byte> to, std::size_t* got) {
  *got = TakeStaged(to);
  while (*got == 0 && !ended_ && failure_.ok()) {
    const bool direct = to.size() >= chunk_left_;
    if (!direct && stage_ == nullptr) {
      stage_ = std::make_unique_for_overwrite<std::byte[]>(kChunkBytes);
    }
    const std::span<std::byte> all =
        direct ? to.first(chunk_left_) : std::span(stage_.get(), chunk_left_);
    std::span<std::byte> room = all;
    Step(&room);
    const std::size_t given = all.size() - room.size();
    decompressed_bytes_ += given;
    chunk_left_ = room.empty() ? kChunkBytes : room.size();
    if (direct) {
      *got = given;
    } else {
      staged_ = all.first(given);
      *got = TakeStaged(to);
    }
  }
  return *got > 0 ? Status() : failure_;
}

bool DecompressedReader::FindNextMember(std::string* loss) {
  *loss = failure_.message();
  if (!damaged_) return false;
  const std::uint64_t noticed = OffsetOf(begin_);
  const std::uint64_t back = noticed - std::min<std::uint64_t>(noticed, kLookBackBytes);
  auto doubtful = static_cast<std::size_t>(noticed - std::max(back, member_offset_));
  if (member_offset_ >= back && LacksFirstByte(begin_ - doubtful)) doubtful += 2;
  std::size_t at = begin_ - doubtful;
  if (const std::size_t ahead = SwallowedMember(at, doubtful); ahead > 0) {
    Resume(at + ahead, loss);
    return true;
  }
  // If a checksum does not match, that is noticed right before the next member, and the content of
  // a member may look like one: so the search starts here.
  bool found = doubtful > 0 && Reaches(&at, doubtful) && Decompresses(&at, doubtful);
  if (found) at += doubtful;
  while (!found && damaged_ && Reaches(&at, 1)) {
    ++at;
    found = Decompresses(&at, 0);
  }
  if (found) Resume(at, loss);
  return found || !damaged_;  // or the source failed
}

// bzip2 ends its streams inside of a byte. If that byte was cut off, it takes the next stream's
// first one for it. A member that starts as it should is never looked at again: that would not end.
bool DecompressedReader::LacksFirstByte(std::size_t member) const {
  return compression_ == Compression::kBzip2 && had_member_ && member >= 2 &&
         end_ - member >= kMagicBytes && !StartsMember(compression_, From(member));
}

std::size_t DecompressedReader::SwallowedMember(std::size_t begin, std::size_t bytes) {
  // Others fail at the start or the end of a block. A member inside the damaged one may end there
  // too.
  if (compression_ != Compression::kGzip && compression_ != Compression::kZlib) return 0;
  const std::span<const std::byte> region = From(begin).first(bytes);
  std::size_t decompressed = 0;
  for (std::size_t at = 1; at < bytes && decompressed < kSearchedBytes; ++at) {
    std::size_t end = at;
    for (std::size_t size = 1; size > 0 && end < bytes; end += size) {
      size = MemberBytes(region.subspan(end), &decompressed);
    }
    if (end == bytes) return at;
  }
  return 0;
}

Decompressor::Result DecompressedReader::Discard(std::span<const std::byte>* input,
                                                 std::size_t* decompressed) {
  std::array<std::byte, 4096> discarded;
  std::span<std::byte> room = discarded;
  const Decompressor::Result result = decompressor_->Decompress(input, &room);
  *decompressed += discarded.size() - room.size();
  return result;
}

std::size_t DecompressedReader::MemberBytes(std::span<const std::byte> bytes,
                                            std::size_t* decompressed) {
  if (bytes.size() < kMagicBytes || !StartsMember(compression_, bytes)) return 0;
  std::span<const std::byte> input = bytes;
  auto result = Decompressor::Result::kNeedsRoom;
  decompressor_->Restart();
  while (result == Decompressor::Result::kNeedsRoom && *decompressed < kSearchedBytes) {
    result = Discard(&input, decompressed);
  }
  return result == Decompressor::Result::kMemberEnds ? bytes.size() - input.size() : 0;
}

bool DecompressedReader::Reaches(std::size_t* keep, std::size_t ahead) {
  while (end_ - *keep < ahead + kMagicBytes) {
    if (!ReadMore(keep)) return false;
  }
  return true;
}

void DecompressedReader::Resume(std::size_t at, std::string* loss) {
  decompressor_->Restart();
  begin_ = at;
  chunk_left_ = kChunkBytes;
  *loss = failure_.message() + "; goes on at byte " + std::to_string(OffsetOf(at));
  has_more_ = ended_ = damaged_ = false;
  failure_ = Status();
}

bool DecompressedReader::Decompresses(std::size_t* keep, std::size_t ahead) {
  if (!StartsMember(compression_, From(*keep + ahead))) return false;
  std::size_t decompressed = 0;
  std::size_t taken = ahead;
  decompressor_->Restart();
  while (true) {
    std::span<const std::byte> input = From(*keep + taken);
    const Decompressor::Result result = Discard(&input, &decompressed);
    taken = end_ - input.size() - *keep;
    if (result == Decompressor::Result::kMemberEnds || decompressed >= kBelievedBytes) return true;
    if (result == Decompressor::Result::kDamaged) return false;
    if (result == Decompressor::Result::kNeedsRoom) continue;
    if (taken == kBufferBytes) return true;
    if (!ReadMore(keep)) return false;
  }
}

}  // namespace ringfeed
