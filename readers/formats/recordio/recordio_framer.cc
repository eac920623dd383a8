#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/crc32.h"
#include "base/crc32c.h"
#include "base/little_endian.h"
#include "base/memory/arena_advice.h"
#include "readers/formats/compression/decompressor.h"
#include "readers/formats/compression/snappy_frames.h"
#include "readers/formats/recordio/recordio.h"
#include "readers/formats/stepped_framer.h"

namespace ringfeed {
namespace {

constexpr std::size_t kHeader = RecordIoLayout::kHeaderBytes;
constexpr std::size_t kLength = RecordIoLayout::kLengthBytes;
// RFC 1951: a deflate stream of n bytes gives fewer than 1,032 n.
constexpr std::uint64_t kMostInflation = 1032;
constexpr std::string_view kNoMagic = "no chunk starts here: the magic number is not 0x01020304";
// All of a damaged chunk must be held until its end is seen; larger chunks are not worth it.
constexpr std::uint64_t kMostHeld = std::uint64_t{64} << 20;
// Most lost records of a damaged chunk; if it is compressed, for each of its bytes. Each record
// takes memory, and a header may lie.
constexpr std::uint32_t kMostLost = 1 << 20;
constexpr std::uint64_t kMostLostOfByte = 4;
constexpr std::size_t kLeastGzipBytes = 18;  // header and trailer of a member

// A compressor's number in a dialect that is not read.
constexpr std::uint32_t kOthersGzip = 3;

// Whether the payload looks like the output of the dialect's compressors: then the word that names
// the compressor is damaged.
bool IsCompressedAsKnown(RecordIoDialect dialect, std::span<const std::byte> stored) {
  std::size_t bytes = 0;
  const bool fluid = dialect == RecordIoDialect::kFluid;
  const SnappyFraming framing = fluid ? SnappyFraming::kStream : SnappyFraming::kOfficial;
  const bool gzip = stored.size() >= kLeastGzipBytes && StartsMember(Compression::kGzip, stored);
  return SnappyFramedSize(framing, stored, &bytes).empty() || (!fluid && gzip);
}

class RecordIoFramer final : public SteppedFramer {
 public:
  using SteppedFramer::SteppedFramer;

  /// Appends the records of the chunk that `input` begins with, or says what is wrong with it.
  Status TakeChunk(const FrameInput& input, FrameOutput* output);

 private:
  /// What was found at the place of a chunk's start.
  struct Finding {
    enum class Kind { kChunk, kDamage, kMore } kind = Kind::kDamage;
    RecordIoChunk header;
    std::string reason;
    StatusCode code = StatusCode::kDamaged;
    std::size_t need_bytes = 0;  ///< kMore: from the chunk's start
    /// kDamage: the chunk ends so many bytes after its start, if its header can be believed; 0 if
    /// it can't.
    std::uint64_t extent = 0;
    std::uint64_t summed_bytes = 0;  ///< that the checksum was made of
  };

  void Run(FrameCall* call) override;
  FrameStep NextChunk(FrameCall* call);
  FrameStep Search(FrameCall* call);
  FrameStep TryBoundary(FrameCall* call);
  FrameStep SearchEnds(FrameCall* call);
  bool HasRecords(FrameCall* call);
  void Found(std::uint64_t at, FrameCall* call);
  void LoseRecords(FrameOutput* output);
  Finding Examine(const FrameCall& call) const;
  Finding ExamineHeader(const FrameCall& call) const;
  std::string Records(const RecordIoChunk& header, const FrameCall& call);
  std::string Decompress(const RecordIoChunk& header, const FrameCall& call,
                         std::span<const std::byte>* payload);
  std::string Gunzip(std::span<const std::byte> stored, FrameMemory* memory,
                     std::span<const std::byte>* payload);
  std::byte* Room(std::uint64_t bytes, FrameMemory* memory, std::string* wrong);
  /// What the chunk at hand has after its header.
  static std::span<const std::byte> Stored(const RecordIoChunk& header, const FrameCall& call) {
    return call.input.bytes.subspan(call.pos + kHeader, header.stored_bytes);
  }
  bool MayStart(const std::byte* header) const;
  bool Countable(const RecordIoChunk& header) const;
  bool Boundary(const FrameInput& input, std::uint64_t boundary, bool* believed) const;
  bool CountByHeader(bool* done, FrameCall* call) const;
  FrameStep Damaged(const Finding& finding, std::uint64_t at, FrameCall* call);

  bool MoreComes(const FrameInput& input) const {
    return input.offset + input.bytes.size() < FileEnd(input);
  }

  bool searching_ = false;  // for the next intact chunk, since search_begin_
  std::uint64_t search_begin_ = 0;
  std::uint64_t search_extent_ = 0;   // of the damaged chunk, until its end was checked
  std::uint32_t search_records_ = 0;  // that it has, if it ends at the place that its header says
  std::uint64_t search_cost_ = 0;     // bytes summed of candidates that were no chunks
  std::uint64_t chunk_cost_ = 0;  // the same of the damaged chunk, which counts if it ends nowhere
  std::string search_reason_;
  bool no_memory_ = false;              // the last chunk was refused for want of memory
  bool unsupported_ = false;            // it is not damaged, and cannot be read here
  std::unique_ptr<Decompressor> gzip_;  // made for the first chunk that needs it
};

void RecordIoFramer::Run(FrameCall* call) {
  while ((searching_ ? Search(call) : NextChunk(call)) == FrameStep::kGoOn) {
  }
}

// Examines the header of the chunk at hand; all its bytes up to the file's end are there.
RecordIoFramer::Finding RecordIoFramer::ExamineHeader(const FrameCall& call) const {
  Finding finding;
  const std::uint64_t left = FileEnd(call.input) - call.at();
  if (left < kHeader) {
    finding.code = StatusCode::kTruncated;
    finding.reason = "the file ends inside a chunk's header";
    return finding;
  }
  const std::byte* const header = call.data();
  finding.header = ReadRecordIoHeader(header);
  const auto magic = LoadLe<std::uint32_t>(header);
  const std::uint64_t extent = kHeader + std::uint64_t{finding.header.stored_bytes};
  if (extent > left) {
    finding.code = StatusCode::kTruncated;
    finding.reason = "a chunk of " + std::to_string(finding.header.stored_bytes) +
                     " bytes reaches past the end of the file";
    if (magic != RecordIoLayout::kMagic) {
      finding.code = StatusCode::kDamaged;
      finding.reason = std::string(kNoMagic);
    }
    return finding;
  }
  finding.extent = extent;
  if (magic != RecordIoLayout::kMagic) {
    finding.reason = std::string(kNoMagic);
  } else if (finding.header.stored_bytes > options_.max_record_bytes) {
    finding.code = StatusCode::kResourceExhausted;
    finding.reason =
        AboveLimit("a chunk of " + std::to_string(finding.header.stored_bytes) + " bytes");
  } else {
    finding.kind = Finding::Kind::kChunk;
  }
  return finding;
}

// Returns a chunk whose header is possible and whose checksum is right, or what is wrong.
RecordIoFramer::Finding RecordIoFramer::Examine(const FrameCall& call) const {
  const std::size_t have = call.left();
  Finding finding;
  if (have < kHeader && MoreComes(call.input)) {
    finding.kind = Finding::Kind::kMore;
    finding.need_bytes = kHeader;
    return finding;
  }
  finding = ExamineHeader(call);
  if (finding.kind != Finding::Kind::kChunk) return finding;
  const std::size_t extent = kHeader + finding.header.stored_bytes;
  if (have < extent) {
    if (MoreComes(call.input)) {
      finding.kind = Finding::Kind::kMore;
      finding.need_bytes = extent;
      return finding;
    }
    finding.kind = Finding::Kind::kDamage;
    finding.code = StatusCode::kTruncated;
    finding.reason = "the file ends inside a chunk";
    finding.extent = 0;
    return finding;
  }
  const std::span<const std::byte> stored = Stored(finding.header, call);
  finding.summed_bytes = stored.size();
  if (Crc32(stored) == finding.header.checksum) return finding;
  finding.kind = Finding::Kind::kDamage;
  finding.reason = "the chunk's checksum does not match";
  if (Crc32c(stored) == finding.header.checksum) {
    finding.code = StatusCode::kUnsupported;
    finding.reason =
        "the chunk's checksum is a CRC-32C: this is the RecordIO of elasticdl's pyrecordio, which "
        "is not PaddlePaddle's and is not supported";
  }
  return finding;
}

// Whether the records of a damaged chunk keep their numbers if it ends at the place that its header
// says. They do not if there are more than can be in it, or so many that a lying header would cost
// much. The header alone decides, for the index too.
bool RecordIoFramer::Countable(const RecordIoChunk& header) const {
  const bool stored = header.compressor == static_cast<std::uint32_t>(RecordIoCompressor::kNone);
  const std::uint64_t most =
      stored ? header.stored_bytes / kLength : header.stored_bytes * kMostLostOfByte;
  return header.records <= std::min<std::uint64_t>(kMostLost, most) &&
         kHeader + std::uint64_t{header.stored_bytes} <= kMostHeld;
}

// Whether a chunk, or the end of the file, is at `boundary`. False if more of the file must be at
// hand to tell. The header of a chunk that the file ends in is believed: in a stream the end is
// known only much later.
bool RecordIoFramer::Boundary(const FrameInput& input, std::uint64_t boundary,
                              bool* believed) const {
  const auto into = static_cast<std::size_t>(boundary - input.offset);
  const bool here = into + kHeader <= input.bytes.size();
  const bool at_end = boundary == FileEnd(input) && into <= input.bytes.size();
  if (!here && !at_end && MoreComes(input)) return false;
  *believed = at_end || (here && MayStart(input.bytes.data() + into));
  return true;
}

// For units only: takes the chunk at call->pos by its header, if another chunk follows it. Whatever
// its payload is, its records then have numbers. The first chunk is examined all the same: it tells
// whether this is RecordIO. So is a chunk without records, for which no later read asks. False if
// more is needed.
bool RecordIoFramer::CountByHeader(bool* done, FrameCall* call) const {
  const std::uint64_t at = call->at();
  if (at == 0 || call->left() < kHeader) return true;
  const Finding finding = ExamineHeader(*call);
  if (finding.kind != Finding::Kind::kChunk || !Countable(finding.header)) return true;
  if (finding.header.records == 0) return true;
  const std::uint64_t end = at + kHeader + finding.header.stored_bytes;
  if (!Boundary(call->input, end, done)) {
    const std::uint64_t wanted = std::min(end + kHeader, FileEnd(call->input));
    (void)call->Need(wanted - at);
    return false;
  }
  if (!*done) return true;
  call->output->units->push_back({at, end, finding.header.records});
  call->pos += static_cast<std::size_t>(end - at);
  return true;
}

// Whether a chunk with records is next. If bytes were lost after a chunk, they are no chunk or a
// cut one; no index lists a chunk of no records.
bool RecordIoFramer::HasRecords(FrameCall* call) {
  while (call->left() >= kHeader) {
    const Finding finding = Examine(*call);
    if (finding.kind != Finding::Kind::kChunk) return false;
    if (!Records(finding.header, *call).empty()) return false;
    if (finding.header.records != 0) return true;
    call->pos += kHeader + finding.header.stored_bytes;
  }
  return false;
}

Status RecordIoFramer::TakeChunk(const FrameInput& input, FrameOutput* output) {
  const FrameCall call{input, output};
  Finding finding = Examine(call);
  if (finding.kind == Finding::Kind::kMore) finding.reason = "the chunk is longer than it was";
  if (finding.code == StatusCode::kResourceExhausted) finding.code = StatusCode::kDamaged;
  if (finding.kind == Finding::Kind::kChunk) {
    finding.reason = Records(finding.header, call);
    FrameOutput unused;
    FrameCall rest{input, &unused, kHeader + finding.header.stored_bytes};
    if (finding.reason.empty() && HasRecords(&rest)) {
      finding.reason = "another chunk stands after it that the index does not know";
    }
    if (no_memory_) finding.code = StatusCode::kResourceExhausted;
    if (unsupported_) finding.code = StatusCode::kUnsupported;
  }
  if (finding.reason.empty()) return {};
  return Status(finding.code, std::move(finding.reason),
                {options_.file, static_cast<std::int64_t>(input.offset), -1});
}

FrameStep RecordIoFramer::NextChunk(FrameCall* call) {
  const std::uint64_t at = call->at();
  if (at >= call->input.limit || at >= FileEnd(call->input)) return FrameStep::kStop;
  bool done = false;
  if (options_.units_only && !CountByHeader(&done, call)) return FrameStep::kStop;
  if (done) return FrameStep::kGoOn;
  Finding finding = Examine(*call);
  if (finding.kind == Finding::Kind::kMore) return call->Need(finding.need_bytes);
  if (finding.kind == Finding::Kind::kChunk) {
    const std::size_t extent = kHeader + finding.header.stored_bytes;
    finding.reason = Records(finding.header, *call);
    if (finding.reason.empty()) {
      if (call->output->units != nullptr && finding.header.records > 0) {
        call->output->units->push_back({at, at + extent, finding.header.records});
      }
      call->pos += extent;
      return FrameStep::kGoOn;
    }
    if (no_memory_) {
      return Fail(StatusCode::kResourceExhausted, std::move(finding.reason), at, call);
    }
    finding.kind = Finding::Kind::kDamage;
    if (unsupported_) finding.code = StatusCode::kUnsupported;
  }
  return Damaged(finding, at, call);
}

// Adds the chunk's records, or returns what is wrong with it and adds none.
std::string RecordIoFramer::Records(const RecordIoChunk& header, const FrameCall& call) {
  std::span<const std::byte> payload;
  std::string wrong = Decompress(header, call, &payload);
  if (!wrong.empty()) return wrong;
  if (payload.size() / kLength < header.records) {
    return "a chunk of " + std::to_string(payload.size()) + " bytes cannot hold the " +
           std::to_string(header.records) + " records that it promises";
  }
  std::vector<RecordSpan>& records = call.output->records;
  const std::size_t base = records.size();
  std::uint32_t found = 0;
  while (payload.size() >= kLength && found < header.records) {
    const std::size_t bytes = LoadOnceLe<std::uint32_t>(payload.data());
    payload = payload.subspan(kLength);
    if (bytes > payload.size()) break;
    records.push_back({payload.data(), bytes});
    payload = payload.subspan(bytes);
    ++found;
  }
  if (found != header.records || !payload.empty()) {
    records.resize(base);
    return "the chunk's records do not fill it: " + std::to_string(header.records) +
           " are promised";
  }
  next_record_ += found;
  return {};
}

// The header's word says how. Afterwards the payload is in the input or in its memory.
std::string RecordIoFramer::Decompress(const RecordIoChunk& header, const FrameCall& call,
                                       std::span<const std::byte>* payload) {
  const std::span<const std::byte> stored = Stored(header, call);
  no_memory_ = unsupported_ = false;
  switch (header.compressor) {
    case static_cast<std::uint32_t>(RecordIoCompressor::kNone):
      *payload = stored;
      return {};
    case static_cast<std::uint32_t>(RecordIoCompressor::kSnappy): {
      const SnappyFraming framing = header.dialect == RecordIoDialect::kFluid
                                        ? SnappyFraming::kStream
                                        : SnappyFraming::kOfficial;
      std::size_t bytes = 0;
      std::string wrong(SnappyFramedSize(framing, stored, &bytes));
      if (!wrong.empty()) return wrong;
      std::byte* const to = Room(bytes, call.input.memory, &wrong);
      if (to == nullptr) return wrong;
      *payload = {to, bytes};
      return std::string(SnappyFramedDecompress(framing, stored, {to, bytes}));
    }
    case static_cast<std::uint32_t>(RecordIoCompressor::kGzip):
      return Gunzip(stored, call.input.memory, payload);
    case kOthersGzip:
      unsupported_ = !IsCompressedAsKnown(header.dialect, stored);
      if (!unsupported_) break;
      return "the chunk's compressor 3 is that of another RecordIO (elasticdl's pyrecordio), which "
             "is not supported; 0 (none), 1 (snappy) and 2 (gzip) are";
    default:
      break;
  }
  return "the chunk's compressor " + std::to_string(header.compressor) +
         " is none of 0 (none), 1 (snappy), 2 (gzip)";
}

std::string RecordIoFramer::Gunzip(std::span<const std::byte> stored, FrameMemory* memory,
                                   std::span<const std::byte>* payload) {
  if (stored.size() < kLeastGzipBytes) return "a gzip member of too few bytes";
  // The member's last word is its length. If it lies, deflate's best ratio shows it.
  const std::size_t bytes = LoadOnceLe<std::uint32_t>(stored.data() + stored.size() - 4);
  if (bytes > kMostInflation * stored.size()) return "a gzip member that promises too much";
  std::string wrong;
  std::byte* const to = Room(bytes, memory, &wrong);
  if (to == nullptr) return wrong;
  if (gzip_ == nullptr) gzip_ = MakeDecompressor(Compression::kGzip);
  gzip_->Restart();
  std::byte beyond{};
  std::span<std::byte> room{to, bytes};
  Decompressor::Result result = gzip_->Decompress(&stored, &room);
  if (result == Decompressor::Result::kNeedsRoom) {
    room = {&beyond, 1};
    result = gzip_->Decompress(&stored, &room);
    if (room.empty()) return "a gzip member that is longer than it says";
  } else if (!room.empty()) {
    return "a gzip member that is shorter than it says";
  }
  if (result == Decompressor::Result::kDamaged) return std::string(gzip_->problem());
  if (result != Decompressor::Result::kMemberEnds || !stored.empty()) {
    return "the chunk is not one gzip member";
  }
  *payload = {to, bytes};
  return {};
}

std::byte* RecordIoFramer::Room(std::uint64_t bytes, FrameMemory* memory, std::string* wrong) {
  if (bytes > options_.max_record_bytes) {
    *wrong = AboveLimit("a chunk of " + std::to_string(bytes) + " bytes, decompressed,");
    return nullptr;
  }
  // An empty payload has an address as well: records and spans are never null.
  std::byte* const to = memory->Allocate(std::max<std::size_t>(1, bytes));
  if (to == nullptr) {
    no_memory_ = true;
    *wrong = NoMemoryFor("a chunk of " + std::to_string(bytes) + " bytes, decompressed");
  }
  return to;
}

FrameStep RecordIoFramer::Damaged(const Finding& finding, std::uint64_t at, FrameCall* call) {
  if (options_.on_damage == OnDamage::kFail || finding.code == StatusCode::kUnsupported) {
    return Fail(finding.code, finding.reason, at, call);
  }
  searching_ = true;
  search_begin_ = at;
  search_extent_ = finding.extent <= kMostHeld ? finding.extent : 0;
  chunk_cost_ = 2 * finding.summed_bytes;  // the search that found it also took its sum
  if (search_extent_ == 0) search_cost_ += chunk_cost_;
  search_records_ = Countable(finding.header) ? finding.header.records : 0;
  search_reason_ = finding.reason;
  return FrameStep::kGoOn;
}

// Whether a chunk of a readable size starts there, if all of it is there.
bool RecordIoFramer::MayStart(const std::byte* header) const {
  return LoadLe<std::uint32_t>(header) == RecordIoLayout::kMagic &&
         ReadRecordIoHeader(header).stored_bytes <= options_.max_record_bytes;
}

// Looks for the next chunk at the end of the damaged one before any other place: the payload may
// hold chunks too. If a magic number is there, or the end of the file, that end is believed, and so
// is the number of records of the damaged chunk.
FrameStep RecordIoFramer::TryBoundary(FrameCall* call) {
  const std::uint64_t boundary = search_begin_ + search_extent_;
  const auto into = static_cast<std::size_t>(boundary - call->input.offset);
  bool believed = false;
  if (!Boundary(call->input, boundary, &believed)) {
    const std::uint64_t left = FileEnd(call->input) - call->at();
    return call->Need(std::min<std::uint64_t>(left, into + kHeader - call->pos));
  }
  search_extent_ = 0;
  if (believed) {
    LoseRecords(call->output);
    Found(boundary, call);
    call->pos = into;
  } else {
    search_cost_ += chunk_cost_;
    ++call->pos;
  }
  return FrameStep::kGoOn;
}

FrameStep RecordIoFramer::Search(FrameCall* call) {
  // Failed candidates cost a checksum of the bytes that they promise. A file that is made to cost
  // much is given up for lost.
  constexpr std::uint64_t kMostCost = std::uint64_t{16} << 30;
  constexpr std::string_view kMagicBytes("\x04\x03\x02\x01");
  if (search_extent_ != 0) return TryBoundary(call);
  if (call->at() == search_begin_) ++call->pos;
  const std::string_view bytes(reinterpret_cast<const char*>(call->input.bytes.data()),
                               call->input.bytes.size());
  while (search_cost_ < kMostCost) {
    const std::size_t found = bytes.find(kMagicBytes, call->pos);
    if (found == std::string_view::npos) break;
    call->pos = found;
    if (call->at() >= call->input.limit) return FrameStep::kStop;
    const Finding finding = Examine(*call);
    if (finding.kind == Finding::Kind::kChunk) {
      Found(call->at(), call);
      return FrameStep::kGoOn;
    }
    if (finding.kind == Finding::Kind::kMore) return call->Need(finding.need_bytes);
    search_cost_ += finding.summed_bytes;
    ++call->pos;
  }
  return SearchEnds(call);
}

// There is no further candidate in the bytes at hand.
FrameStep RecordIoFramer::SearchEnds(FrameCall* call) {
  const std::size_t size = call->input.bytes.size();
  if (!MoreComes(call->input)) {
    Found(call->end(), call);
    return call->PassRest(0);
  }
  // The magic number's first three bytes may be at the end.
  call->pos = std::max(call->pos, size - std::min<std::size_t>(size, 3));
  return call->Need(call->at() < call->input.limit ? kHeader : 0);
}

void RecordIoFramer::LoseRecords(FrameOutput* output) {
  if (search_records_ == 0) return;
  if (!options_.units_only) output->records.resize(output->records.size() + search_records_);
  if (output->units != nullptr) {
    output->units->push_back({search_begin_, search_begin_, search_records_, true});
  }
  output->more_holes += search_records_ - 1;
  next_record_ += search_records_;
}

void RecordIoFramer::Found(std::uint64_t at, FrameCall* call) {
  Note(search_begin_, at, std::move(search_reason_), call);
  searching_ = false;
}

class RecordIoUnitFramer final : public UnitFramer {
 public:
  explicit RecordIoUnitFramer(const FramerOptions& options)
      : UnitFramer(options), framer_(options) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    if (unit.bytes.empty()) return Lose(unit, records, kLostBefore, output);
    FrameInput whole = unit;
    whole.at_end = true;
    const std::size_t before = output->records.size();
    Status status = framer_.TakeChunk(whole, output);
    const bool damaged = status.ok() ? output->records.size() != before + records
                                     : status.code() == StatusCode::kDamaged ||
                                           status.code() == StatusCode::kTruncated;
    if (!damaged) return status;
    output->records.resize(before);
    return Lose(unit, records, status.message(), output);
  }

 private:
  RecordIoFramer framer_;
};

}  // namespace

std::unique_ptr<UnitFramer> NewRecordIoUnitFramer(const FramerOptions& options) {
  return std::make_unique<RecordIoUnitFramer>(options);
}

std::unique_ptr<Framer> NewRecordIoFramer(const FramerOptions& options) {
  return std::make_unique<RecordIoFramer>(options);
}

}  // namespace ringfeed
