#include "readers/formats/array_record/chunk.h"

#include <snappy.h>
#include <zstd.h>
#ifdef RINGFEED_WITH_BROTLI
#include <brotli/decode.h>
#endif

#include <algorithm>
#include <array>
#include <new>

#include "base/little_endian.h"
#include "base/memory/arena_advice.h"
#include "readers/formats/builders/wire_format.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kBlock = RiegeliLayout::kBlockBytes;
constexpr std::uint64_t kBlockHeader = RiegeliLayout::kBlockHeaderBytes;
constexpr std::size_t kHeader = RiegeliLayout::kChunkHeaderBytes;
// What a chunk has beside its stored bytes, for a limit that an index's units have, too.
constexpr std::uint64_t kChunkSlack = 64 * 1024;
constexpr std::uint64_t kLongestVarint = 10;

std::uint64_t HashOf(std::span<const std::byte> bytes) {
  return HighwayHash64(bytes, RiegeliLayout::kHashKey);
}

// Copies a chunk's bytes from *at of the file on, without the headers of blocks. `bytes` stand at
// `offset`, and have all of them.
void Join(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t* at,
          std::span<std::byte> to) {
  while (!to.empty()) {
    if (*at % kBlock == 0) *at += kBlockHeader;
    const auto some = static_cast<std::size_t>(std::min(to.size(), kBlock - *at % kBlock));
    const auto from = bytes.subspan(static_cast<std::size_t>(*at - offset), some);
    std::copy(from.begin(), from.end(), to.begin());
    *at += some;
    to = to.subspan(some);
  }
}

std::string Bytes(std::uint64_t bytes) { return "a chunk of " + std::to_string(bytes) + " bytes"; }

#ifdef RINGFEED_WITH_BROTLI
bool Unbrotli(std::span<const std::byte> stored, std::span<std::byte> to) {
  const std::unique_ptr<BrotliDecoderState, decltype(&BrotliDecoderDestroyInstance)> state(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), BrotliDecoderDestroyInstance);
  BrotliDecoderSetParameter(state.get(), BROTLI_DECODER_PARAM_LARGE_WINDOW, 1);
  std::size_t stored_left = stored.size();
  std::size_t room = to.size();
  const auto* in = reinterpret_cast<const std::uint8_t*>(stored.data());
  auto* out = reinterpret_cast<std::uint8_t*>(to.data());
  const BrotliDecoderResult result =
      BrotliDecoderDecompressStream(state.get(), &stored_left, &in, &room, &out, nullptr);
  return result == BROTLI_DECODER_RESULT_SUCCESS && stored_left == 0 && room == 0;
}
#endif

bool Unsnappy(std::span<const std::byte> stored, std::span<std::byte> to) {
  const char* const in = reinterpret_cast<const char*>(stored.data());
  std::size_t bytes = 0;
  return snappy::GetUncompressedLength(in, stored.size(), &bytes) && bytes == to.size() &&
         snappy::RawUncompress(in, stored.size(), reinterpret_cast<char*>(to.data()));
}

}  // namespace

std::uint64_t RiegeliChunkBytes(std::uint64_t begin, std::uint64_t bytes) {
  constexpr std::uint64_t kUsed = kBlock - kBlockHeader;
  const std::uint64_t before = (begin + kUsed - 1) % kBlock;
  return bytes + (bytes + before) / kUsed * kBlockHeader;
}

ChunkProblem ReadRiegeliHeader(std::span<const std::byte> bytes, std::uint64_t offset,
                               RiegeliChunk* chunk) {
  if (RiegeliChunkBytes(offset, kHeader) > bytes.size()) {
    return {"the file ends inside a chunk's header", StatusCode::kTruncated};
  }
  std::array<std::byte, kHeader> header;
  std::uint64_t at = offset;
  Join(bytes, offset, &at, header);
  if (HashOf(std::span(header).subspan(8)) != LoadLe<std::uint64_t>(header.data())) {
    return {"the hash of a chunk's header is another one"};
  }
  const auto kind = LoadLe<std::uint64_t>(header.data() + 24);
  chunk->stored_bytes = LoadLe<std::uint64_t>(header.data() + 8);
  chunk->stored_hash = LoadLe<std::uint64_t>(header.data() + 16);
  chunk->kind = static_cast<char>(kind & 0xff);
  chunk->records = kind >> 8;
  chunk->decoded_bytes = LoadLe<std::uint64_t>(header.data() + 32);
  // So that sums with it never wrap.
  if (chunk->stored_bytes > RecordLimit::kMost) {
    return {Bytes(chunk->stored_bytes) + " reaches past the end of the file"};
  }
  chunk->file_bytes = RiegeliChunkBytes(offset, kHeader + chunk->stored_bytes);
  return {};
}

RiegeliReader::RiegeliReader() = default;
RiegeliReader::~RiegeliReader() = default;
void RiegeliReader::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

ChunkProblem RiegeliReader::Read(const FrameInput& input, std::uint64_t records,
                                 std::uint64_t most_bytes, RiegeliRecords* read) {
  RiegeliChunk chunk;
  ChunkProblem problem = ReadRiegeliHeader(input.bytes, input.offset, &chunk);
  if (!problem.ok()) return problem;
  if (chunk.kind != 'r') {
    return {"a chunk of the kind " + std::to_string(static_cast<unsigned char>(chunk.kind)) +
            ", where 'r' (114), of records, is expected"};
  }
  if (records != kAnyNumber && chunk.records != records) {
    return {"a chunk of " + std::to_string(chunk.records) + " records, where the footer has " +
            std::to_string(records)};
  }
  const std::uint64_t largest = std::max(chunk.stored_bytes, chunk.decoded_bytes);
  if (largest > most_bytes || chunk.file_bytes > most_bytes + kChunkSlack) {
    return {
        Bytes(largest) + " is longer than max_record_bytes (" + std::to_string(most_bytes) + ")",
        StatusCode::kResourceExhausted};
  }
  if (chunk.file_bytes > input.bytes.size()) {
    return {Bytes(chunk.stored_bytes) + " reaches past the next one"};
  }
  std::uint64_t at = input.offset + RiegeliChunkBytes(input.offset, kHeader);
  const auto stored_bytes = static_cast<std::size_t>(chunk.stored_bytes);
  std::span<const std::byte> stored;
  if (chunk.file_bytes == kHeader + stored_bytes) {
    stored = input.bytes.subspan(kHeader, stored_bytes);
  } else {
    // Values that are not compressed are handed out where they are joined.
    std::byte first{};
    std::uint64_t at_first = at;
    if (stored_bytes > 0) Join(input.bytes, input.offset, &at_first, {&first, 1});
    std::byte* to = nullptr;
    if (first == std::byte{0}) {
      to = input.memory->Allocate(std::max<std::size_t>(1, stored_bytes));
      if (to == nullptr) {
        return {NoMemoryFor(Bytes(stored_bytes)), StatusCode::kResourceExhausted, true};
      }
    } else {
      joined_.resize(stored_bytes);
      to = joined_.data();
    }
    Join(input.bytes, input.offset, &at, {to, stored_bytes});
    // A file that is mapped may change: what was decided holds.
    if (stored_bytes > 0) *to = first;
    stored = {to, stored_bytes};
  }
  if (HashOf(stored) != chunk.stored_hash) return {"the hash of a chunk's bytes is another one"};
  // Sizes are as many as records: where these are told, they are few.
  const std::uint64_t most_size_bytes = records == kAnyNumber ? most_bytes : kAnyNumber;
  return Decode(chunk, stored, most_size_bytes, input.memory, read);
}

ChunkProblem RiegeliReader::Decode(const RiegeliChunk& chunk, std::span<const std::byte> stored,
                                   std::uint64_t most_size_bytes, FrameMemory* memory,
                                   RiegeliRecords* read) {
  const ChunkProblem wrong{"a chunk whose sizes or values are not as long as it says"};
  read->count = chunk.records;
  if (stored.empty()) return wrong;
  const std::byte compression = Settled(stored.front());
  WireReader head(stored.subspan(1));
  std::span<const std::byte> sizes;
  if (!head.ReadDelimited(&sizes)) return wrong;
  const std::span<const std::byte> values(head.at(), stored.data() + stored.size());
  if (compression == std::byte{0}) {
    if (values.size() != chunk.decoded_bytes || sizes.size() < chunk.records) return wrong;
    read->sizes = sizes;
    read->values = values;
    return {};
  }
  WireReader compressed_sizes(sizes);
  WireReader compressed_values(values);
  std::uint64_t size_bytes = 0;
  std::uint64_t value_bytes = 0;
  if (!compressed_sizes.ReadVarint(&size_bytes) || !compressed_values.ReadVarint(&value_bytes) ||
      value_bytes != chunk.decoded_bytes || size_bytes < chunk.records ||
      size_bytes > most_size_bytes || size_bytes / kLongestVarint > chunk.records) {
    return wrong;
  }
  sizes_.resize(static_cast<std::size_t>(size_bytes));
  ChunkProblem problem =
      Decompress(compression, {compressed_sizes.at(), sizes.data() + sizes.size()}, sizes_);
  if (!problem.ok()) return problem;
  const auto bytes = static_cast<std::size_t>(value_bytes);
  std::byte* const to = memory->Allocate(std::max<std::size_t>(1, bytes));
  if (to == nullptr) {
    return {NoMemoryFor(Bytes(bytes) + ", decompressed"), StatusCode::kResourceExhausted, true};
  }
  read->sizes = sizes_;
  read->values = {to, bytes};
  return Decompress(compression, {compressed_values.at(), values.data() + values.size()},
                    {to, bytes});
}

ChunkProblem RiegeliReader::Decompress(std::byte compression, std::span<const std::byte> stored,
                                       std::span<std::byte> to) {
  bool good = false;
  switch (static_cast<char>(compression)) {
    case 'z': {
      if (zstd_ == nullptr) zstd_.reset(ZSTD_createDCtx());
      if (zstd_ == nullptr) throw std::bad_alloc();
      const std::size_t got =
          ZSTD_decompressDCtx(zstd_.get(), to.data(), to.size(), stored.data(), stored.size());
      good = ZSTD_isError(got) == 0 && got == to.size();
      break;
    }
    case 's':
      good = Unsnappy(stored, to);
      break;
    case 'b':
#ifdef RINGFEED_WITH_BROTLI
      good = Unbrotli(stored, to);
      break;
#else
      return {
          "the chunk is compressed by brotli, which this build of ringfeed does not read: build "
          "it where libbrotli-dev is",
          StatusCode::kUnsupported, true};
#endif
    default:
      return {"the chunk's compression " + std::to_string(std::to_integer<int>(compression)) +
              " is none of 0 (none), 'z' (zstd), 'b' (brotli), 's' (snappy)"};
  }
  if (good) return {};
  return {std::string("what the chunk's compression '") + static_cast<char>(compression) +
          "' gives is not as long as it says, or damaged"};
}

}  // namespace ringfeed
