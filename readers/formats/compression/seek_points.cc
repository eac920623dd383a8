#include "readers/formats/compression/seek_points.h"

#include <isa-l/igzip_lib.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace ringfeed {
namespace {

bool Deflates(Compression compression) {
  return compression == Compression::kGzip || compression == Compression::kZlib;
}

Status Damaged(std::string what) { return Status(StatusCode::kDamaged, std::move(what)); }

/// Adds the points of a file, in order, of which it takes so many as fit into 1 % of the file.
class PointAdder {
 public:
  explicit PointAdder(SeekPoints* points) : points_(*points) {}

  /// Counts content that the file gave.
  void NoteContent(std::span<const std::byte> content) {
    checksum_ = ExtendCrc32c(checksum_, content);
    points_.content_bytes += content.size();
  }
  /// A member begins at that byte of the file.
  void AddMember(std::uint64_t stored) {
    const bool is_first = points_.points.empty();
    if (!is_first && (ContentSinceLast() < kLeastOfMember || !Affords(stored, 0))) return;
    Add({.stored_begin = stored});
  }
  /// A block begins inside a member, after so many bits of the byte before `stored`. `window` is
  /// the end of the member's content so far.
  void AddBlock(std::uint64_t stored, unsigned bits, std::span<const std::byte> window) {
    const bool must = ContentSinceLast() >= kUsualSpanBytes;
    if (ContentSinceLast() < kLeastInside) return;
    if (!must && !Affords(stored, window_estimate_)) return;
    std::vector<std::byte> frame(ZSTD_compressBound(window.size()));
    const std::size_t bytes =
        ZSTD_compress(frame.data(), frame.size(), window.data(), window.size(), kWindowLevel);
    if (ZSTD_isError(bytes) != 0) throw std::bad_alloc();  // its only failure
    window_estimate_ = bytes;
    if (!must && !Affords(stored, bytes)) return;
    SeekPoint point{.stored_begin = stored, .bits = bits, .is_inside = 1};
    point.window_begin = points_.windows.size();
    point.window_bytes = static_cast<std::uint32_t>(bytes);
    points_.windows.insert(points_.windows.end(), frame.begin(),
                           frame.begin() + static_cast<std::ptrdiff_t>(bytes));
    Add(point);
  }
  /// Ends the last span. Of a file without content no point stays.
  void Finish() {
    if (points_.content_bytes == 0) points_.points.clear();
    if (!points_.points.empty()) points_.points.back().checksum = checksum_;
    // One at the end of the content, where only empty members follow.
    if (points_.points.size() > 1 && ContentSinceLast() == 0) points_.points.pop_back();
  }

 private:
  static constexpr std::uint64_t kLeastOfMember = 64 * 1024;
  static constexpr std::uint64_t kLeastInside = std::uint64_t{1} << 20;
  /// A span is made to end after so much, whatever it costs.
  static constexpr std::uint64_t kUsualSpanBytes = std::uint64_t{32} << 20;
  static constexpr std::uint64_t kFileBytesOfOne = 100;
  static constexpr int kWindowLevel = 12;

  std::uint64_t ContentSinceLast() const {
    return points_.content_bytes - points_.points.back().content_begin;
  }
  bool Affords(std::uint64_t stored, std::uint64_t window_bytes) const {
    const std::uint64_t since = stored - points_.points.back().stored_begin;
    return since / kFileBytesOfOne >= sizeof(SeekPoint) + window_bytes;
  }
  void Add(SeekPoint point) {
    if (!points_.points.empty()) points_.points.back().checksum = checksum_;
    point.content_begin = points_.content_bytes;
    points_.points.push_back(point);
    checksum_ = 0;
  }

  SeekPoints& points_;
  std::uint32_t checksum_ = 0;  ///< of the content since the last point
  std::uint64_t window_estimate_ = 0;
};

/// The bytes of a file from its start, piece by piece.
class StoredInput {
 public:
  explicit StoredInput(const DecompressedReader::Source& read) : read_(read) {}

  /// Reads the next piece after all of the one before was taken. False at the end, or if the read
  /// failed.
  bool Refill() {
    assert(rest_.empty());
    std::size_t got = 0;
    status_ = read_(buffer_, &got);
    if (!status_.ok()) return false;
    rest_ = std::span<const std::byte>(buffer_).first(got);
    read_bytes_ += got;
    return got > 0;
  }
  /// Passes over zeros, which pad members. False at the file's end, or if a read failed.
  bool SkipZeros() {
    while (true) {
      const auto next = std::ranges::find_if(rest_, [](std::byte b) { return b != std::byte{0}; });
      rest_ = rest_.subspan(static_cast<std::size_t>(next - rest_.begin()));
      if (!rest_.empty()) return true;
      if (!Refill()) return false;
    }
  }

  std::span<const std::byte> rest() const { return rest_; }
  void Take(std::size_t bytes) { rest_ = rest_.subspan(bytes); }
  std::uint64_t offset() const { return read_bytes_ - rest_.size(); }
  const Status& status() const { return status_; }

 private:
  static constexpr std::size_t kPieceBytes = 256 * 1024;

  const DecompressedReader::Source& read_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kPieceBytes);
  std::span<const std::byte> rest_;
  std::uint64_t read_bytes_ = 0;
  Status status_;
};

/// Walks over the blocks of gzip's and zlib's members. ISA-L does not stop at them, zlib does.
class BlockWalk {
 public:
  BlockWalk(Compression compression, StoredInput* stored, PointAdder* adder)
      : stored_(*stored), adder_(*adder) {
    constexpr int kWindowBits = 15;
    constexpr int kGzip = 16;  // zlib.h: added, it asks for gzip
    const int bits = compression == Compression::kGzip ? kWindowBits + kGzip : kWindowBits;
    if (inflateInit2(&stream_, bits) != Z_OK) throw std::bad_alloc();
  }
  ~BlockWalk() { inflateEnd(&stream_); }
  BlockWalk(const BlockWalk&) = delete;
  BlockWalk& operator=(const BlockWalk&) = delete;

  Status Walk() {
    while (stored_.SkipZeros()) {
      adder_.AddMember(stored_.offset());
      filled_ = 0;
      inflateReset(&stream_);
      Status status = WalkMember();
      if (!status.ok()) return status;
    }
    return stored_.status();
  }

 private:
  static constexpr std::size_t kRoomBytes = 8 * SeekPoints::kWindowBytes;

  Status WalkMember() {
    while (true) {
      if (stored_.rest().empty() && !stored_.Refill()) {
        return stored_.status().ok() ? Status(StatusCode::kTruncated, "is cut off in a member")
                                     : stored_.status();
      }
      const int code = Step();
      if (code == Z_STREAM_END) return {};
      if (code != Z_OK && code != Z_BUF_ERROR) {
        return Damaged("is damaged at byte " + std::to_string(stored_.offset()) + ": " +
                       (stream_.msg != nullptr ? stream_.msg : "it does not decompress"));
      }
      // zlib.h: 128 after the end of a block, 64 in the last block, and the unused bits.
      constexpr int kBlockEnds = 128;
      constexpr int kLastBlock = 64;
      constexpr int kBits = 7;
      if ((stream_.data_type & kBlockEnds) != 0 && (stream_.data_type & kLastBlock) == 0) {
        const std::size_t window = std::min(filled_, SeekPoints::kWindowBytes);
        adder_.AddBlock(stored_.offset(), static_cast<unsigned>(stream_.data_type & kBits),
                        std::span(room_).subspan(filled_ - window, window));
      }
    }
  }

  int Step() {
    if (filled_ == room_.size()) {  // the window stays
      std::copy(room_.end() - SeekPoints::kWindowBytes, room_.end(), room_.begin());
      filled_ = SeekPoints::kWindowBytes;
    }
    const std::span<const std::byte> input = stored_.rest();
    const std::span<std::byte> output = std::span(room_).subspan(filled_);
    stream_.next_in =
        const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));  // only read
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(output.size());
    const int code = inflate(&stream_, Z_BLOCK);
    const std::size_t written = output.size() - stream_.avail_out;
    adder_.NoteContent(output.first(written));
    filled_ += written;
    stored_.Take(input.size() - stream_.avail_in);
    return code;
  }

  StoredInput& stored_;
  PointAdder& adder_;
  z_stream stream_{};
  std::vector<std::byte> room_ = std::vector<std::byte>(kRoomBytes);
  std::size_t filled_ = 0;  ///< of the member's content, in the front of room_
};

// Of all other kinds the members' begins alone are places to begin.
Status WalkMembers(Compression compression, StoredInput* stored, PointAdder* adder) {
  constexpr std::size_t kRoomBytes = 256 * 1024;
  const std::unique_ptr<Decompressor> decompressor = MakeDecompressor(compression);
  std::vector<std::byte> room(kRoomBytes);
  bool has_more = false;
  while (true) {
    if (!decompressor->inside_member()) {
      if (!stored->SkipZeros()) return stored->status();
      adder->AddMember(stored->offset());
    } else if (!has_more && stored->rest().empty() && !stored->Refill()) {
      return stored->status().ok() ? Status(StatusCode::kTruncated, "is cut off in a member")
                                   : stored->status();
    }
    std::span<const std::byte> input = stored->rest();
    std::span<std::byte> output = room;
    const Decompressor::Result result = decompressor->Decompress(&input, &output);
    has_more = result == Decompressor::Result::kNeedsRoom;
    adder->NoteContent(std::span(room).first(room.size() - output.size()));
    stored->Take(stored->rest().size() - input.size());
    if (result == Decompressor::Result::kDamaged) {
      return Status(decompressor->code(), "is damaged at byte " + std::to_string(stored->offset()) +
                                              ": " + std::string(decompressor->problem()));
    }
  }
}

Status RefuseLongSpan(const SeekPoints& points) {
  for (std::size_t i = 0; i < points.points.size(); ++i) {
    const std::uint64_t begin = points.points[i].content_begin;
    if (points.ContentEnd(i) - begin <= SeekPoints::kMostSpanBytes) continue;
    return Status(StatusCode::kUnsupported,
                  "has no place to begin from byte " + std::to_string(begin) + " to " +
                      std::to_string(points.ContentEnd(i)) +
                      " of its content: compress it in members (frames) of at most 64 MiB each, "
                      "as zstd's seekable format, pzstd and bgzip do");
  }
  return {};
}

/// The bytes that the rest of a deflated member takes after its last block.
std::size_t TrailerBytes(Compression compression) {
  return compression == Compression::kGzip ? 8 : 4;
}

Status ReadWindow(const SeekPoints& points, const SeekPoint& point,
                  std::vector<std::byte>* window) {
  window->resize(SeekPoints::kWindowBytes);
  const std::size_t bytes =
      ZSTD_decompress(window->data(), window->size(), points.windows.data() + point.window_begin,
                      point.window_bytes);
  if (ZSTD_isError(bytes) != 0) return Damaged("the window of a seek point is damaged");
  window->resize(bytes);
  return {};
}

// Goes on inside of a member, from the front of *input, and fills the front of *output up to the
// member's end.
Status FinishMember(const SeekPoints& points, const SeekPoint& point,
                    std::span<const std::byte>* input, std::span<std::byte>* output) {
  std::vector<std::byte> window;
  Status status = ReadWindow(points, point, &window);
  if (!status.ok()) return status;
  const auto stream = std::make_unique<inflate_state>();
  isal_inflate_init(stream.get());
  stream->crc_flag = ISAL_DEFLATE;
  const int code =
      isal_inflate_set_dict(stream.get(), reinterpret_cast<std::uint8_t*>(window.data()),
                            static_cast<std::uint32_t>(window.size()));
  if (code != COMP_OK) return Damaged("the window of a seek point has a wrong size");
  if (point.bits > 0) {
    stream->read_in = std::to_integer<std::uint64_t>(input->front()) >> (8 - point.bits);
    stream->read_in_length = static_cast<std::int32_t>(point.bits);
    *input = input->subspan(1);
  }
  stream->next_in = const_cast<std::uint8_t*>(
      reinterpret_cast<const std::uint8_t*>(input->data()));  // it is only read
  stream->avail_in = static_cast<std::uint32_t>(input->size());
  stream->next_out = reinterpret_cast<std::uint8_t*>(output->data());
  stream->avail_out = static_cast<std::uint32_t>(output->size());
  const int result = isal_inflate(stream.get());
  if (result != ISAL_DECOMP_OK && result != ISAL_END_INPUT && result != ISAL_OUT_OVERFLOW) {
    return Damaged("it does not decompress");
  }
  *output = output->last(stream->avail_out);
  if (output->empty()) return {};
  if (stream->block_state != ISAL_BLOCK_FINISH) return Damaged("it ends early");
  // ISA-L took whole bytes that it did not use.
  const auto unused = static_cast<std::size_t>(stream->read_in_length) / 8;
  const std::size_t rest = stream->avail_in + unused;
  const std::size_t trailer = TrailerBytes(points.compression);
  if (rest < trailer || rest > input->size()) return Damaged("it ends early");
  *input = input->last(rest - trailer);
  return {};
}

// Fills all of `output` from members. If `whole`, the last of them ends with it.
Status DecompressMembers(Compression compression, bool whole, std::span<const std::byte> input,
                         std::span<std::byte> output) {
  const std::unique_ptr<Decompressor> decompressor = MakeDecompressor(compression);
  std::array<std::byte, 1> beyond{};  // a member may end only after a call that has room
  while (!output.empty() || (whole && decompressor->inside_member())) {
    if (!decompressor->inside_member()) {
      while (!input.empty() && input.front() == std::byte{0}) input = input.subspan(1);
    }
    const bool is_full = output.empty();
    std::span<std::byte> room = is_full ? std::span<std::byte>(beyond) : output;
    const std::size_t room_before = room.size();
    const std::size_t input_before = input.size();
    const Decompressor::Result result = decompressor->Decompress(&input, &room);
    if (result == Decompressor::Result::kDamaged) {
      return Damaged(std::string(decompressor->problem()));
    }
    const bool wrote = room.size() != room_before;
    if (is_full && wrote) return Damaged("it gives more bytes than its table says");
    if (!is_full) output = room;
    const bool moved = wrote || input.size() != input_before;
    if (!moved && result != Decompressor::Result::kMemberEnds) return Damaged("it ends early");
  }
  return {};
}

Status CompareSum(const SeekPoints& points, std::size_t span, std::span<const std::byte> content) {
  std::uint32_t found = points.points[span].checksum;
  if (points.sum == SpanSum::kCrc32c) found = Crc32c(content);
  if (points.sum == SpanSum::kXxh64) {
    found = static_cast<std::uint32_t>(XXH64(content.data(), content.size(), 0));
  }
  if (found == points.points[span].checksum) return {};
  return Damaged("its checksum does not match");
}

}  // namespace

std::size_t SeekPoints::SpanOf(std::uint64_t content) const {
  assert(content < content_bytes);
  const auto next = std::ranges::upper_bound(points, content, {}, &SeekPoint::content_begin);
  return static_cast<std::size_t>(next - points.begin()) - 1;
}

std::uint64_t SeekPoints::ContentEnd(std::size_t span) const {
  return span + 1 < points.size() ? points[span + 1].content_begin : content_bytes;
}

std::uint64_t SeekPoints::StoredEnd(std::size_t span) const {
  return span + 1 < points.size() ? points[span + 1].stored_begin : stored_bytes;
}

Status SeekPoints::Check() const {
  const Status damaged = Damaged("its seek points are those of no file");
  if ((content_bytes == 0) != points.empty()) return damaged;
  if (!points.empty() && points.front().content_begin != 0) return damaged;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const SeekPoint& point = points[i];
    const bool is_inside = point.is_inside != 0;
    const bool has_bits = point.bits > 0;
    const bool fits = point.stored_begin >= (has_bits ? 1 : 0) &&
                      point.stored_begin < StoredEnd(i) && StoredEnd(i) <= stored_bytes &&
                      StoredEnd(i) - point.stored_begin <= 2 * kMostSpanBytes &&
                      point.content_begin < ContentEnd(i) && ContentEnd(i) <= content_bytes &&
                      ContentEnd(i) - point.content_begin <= kMostSpanBytes && point.bits < 8 &&
                      (!is_inside || Deflates(compression)) && (!has_bits || is_inside) &&
                      point.window_begin <= windows.size() &&
                      point.window_bytes <= windows.size() - point.window_begin;
    if (!fits) return damaged;
  }
  return {};
}

Status MakeSeekPoints(Compression compression, const DecompressedReader::Source& read,
                      SeekPoints* points) {
  *points = {};
  points->compression = compression;
  points->sum = SpanSum::kCrc32c;
  StoredInput stored(read);
  PointAdder adder(points);
  Status status = Deflates(compression) ? BlockWalk(compression, &stored, &adder).Walk()
                                        : WalkMembers(compression, &stored, &adder);
  if (status.ok()) {
    adder.Finish();
    points->stored_bytes = stored.offset();
    status = RefuseLongSpan(*points);
  }
  // Only padding can make a span longer than its content.
  if (status.ok()) status = points->Check();
  if (status.ok()) return status;
  return Status(status.code(),
                std::string("the ") + CompressionName(compression) + " file " + status.message());
}

Status ReadSeekTable(std::uint64_t stored_bytes, const ReadStored& read, SeekPoints* points) {
  constexpr std::uint32_t kTableMagic = 0x8F92EAB1;
  constexpr std::uint32_t kFrameMagic = 0x184D2A5E;
  constexpr std::size_t kFooterBytes = 9;
  constexpr std::size_t kFrameHead = 8;
  constexpr std::uint64_t kMostFrames = std::uint64_t{1} << 23;
  constexpr unsigned kHasSums = 0x80;
  constexpr unsigned kReserved = 0x7c;
  const Status none(StatusCode::kNotFound, "it has no table of seekable frames");
  if (stored_bytes < kFooterBytes + kFrameHead) return none;
  std::array<std::byte, kFooterBytes> footer{};
  Status status = read(stored_bytes - kFooterBytes, footer);
  if (!status.ok()) return status;
  if (LoadLe<std::uint32_t>(footer.data() + 5) != kTableMagic) return none;
  const auto flags = std::to_integer<unsigned>(footer[4]);
  const std::uint64_t frames = LoadLe<std::uint32_t>(footer.data());
  const std::size_t entry_bytes = (flags & kHasSums) != 0 ? 12 : 8;
  const std::uint64_t table_bytes = kFrameHead + frames * entry_bytes + kFooterBytes;
  const auto damaged = [](const std::string& what) {
    return Damaged("its table of seekable frames is damaged: " + what);
  };
  if ((flags & kReserved) != 0) return damaged("reserved flags are set");
  if (frames > kMostFrames) {
    return Status(StatusCode::kUnsupported, "its table has " + std::to_string(frames) +
                                                " frames, and " + std::to_string(kMostFrames) +
                                                " are read: make larger ones");
  }
  if (table_bytes > stored_bytes) return damaged("it is longer than the file");
  std::vector<std::byte> table(static_cast<std::size_t>(table_bytes));
  status = read(stored_bytes - table_bytes, table);
  if (!status.ok()) return status;
  if (LoadLe<std::uint32_t>(table.data()) != kFrameMagic ||
      LoadLe<std::uint32_t>(table.data() + 4) != table_bytes - kFrameHead) {
    return damaged("no frame of its size is there");
  }
  *points = {};
  points->compression = Compression::kZstd;
  points->sum = (flags & kHasSums) != 0 ? SpanSum::kXxh64 : SpanSum::kNone;
  std::uint64_t stored = 0;
  for (std::uint64_t i = 0; i < frames; ++i) {
    const std::byte* const entry = table.data() + kFrameHead + i * entry_bytes;
    const std::uint64_t content = LoadLe<std::uint32_t>(entry + 4);
    SeekPoint point{.stored_begin = stored, .content_begin = points->content_bytes};
    if (points->sum == SpanSum::kXxh64) point.checksum = LoadLe<std::uint32_t>(entry + 8);
    if (content > 0) points->points.push_back(point);  // others are frames that are passed over
    stored += LoadLe<std::uint32_t>(entry);
    points->content_bytes += content;
  }
  points->stored_bytes = stored_bytes - table_bytes;
  if (stored != points->stored_bytes) return damaged("its frames are not those of the file");
  status = RefuseLongSpan(*points);
  return status.ok() ? points->Check() : status;
}

Status DecompressSpan(const SeekPoints& points, std::size_t span, const ReadStored& read,
                      std::span<std::byte> content) {
  assert(content.size() == points.ContentBytes(span));
  const SeekPoint& point = points.points[span];
  const std::uint64_t begin = point.stored_begin - (point.bits > 0 ? 1 : 0);
  const auto bytes = static_cast<std::size_t>(points.StoredEnd(span) - begin);
  const auto stored = std::make_unique_for_overwrite<std::byte[]>(bytes);
  Status status = read(begin, {stored.get(), bytes});
  if (!status.ok()) return status;
  std::span<const std::byte> input(stored.get(), bytes);
  std::span<std::byte> output = content;
  if (point.is_inside != 0) status = FinishMember(points, point, &input, &output);
  const bool whole = !Deflates(points.compression);
  if (status.ok() && !output.empty()) {
    status = DecompressMembers(points.compression, whole, input, output);
  }
  if (status.ok()) status = CompareSum(points, span, content);
  if (status.code() != StatusCode::kDamaged) return status;
  return Damaged(std::string("the ") + CompressionName(points.compression) +
                 " stream is damaged in bytes " + std::to_string(begin) + " to " +
                 std::to_string(points.StoredEnd(span)) + ": " + status.message());
}

}  // namespace ringfeed
