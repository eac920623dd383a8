#include <fast_float/fast_float.h>
#include <isa-l/crc.h>
#include <snappy.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "bench/bare_loop.h"

namespace ringfeed::bench {
namespace {

// --- RecordIO ----------------------------------------------------------------------------------

constexpr std::size_t kChunkHeaderBytes = 20;

// A file's chunks, one after the other.
class ChunkFile {
 public:
  explicit ChunkFile(const std::string& path) : file_(path) {}

  // The stored bytes of the next chunk, checked; empty at the end.
  std::span<const std::byte> Next() {
    std::byte header[kChunkHeaderBytes];
    const std::size_t got = file_.Read(header, sizeof(header), offset_);
    if (got == 0) return {};
    if (got != sizeof(header)) Die("cut header");
    offset_ += kChunkHeaderBytes;
    if (Load<std::uint32_t>(header) != 0x01020304) Die("bad magic");
    records_ = Load<std::uint32_t>(header + 4);
    compressor_ = Load<std::uint32_t>(header + 12);
    const std::size_t stored = Load<std::uint32_t>(header + 16);
    if (stored_.size() < stored) stored_.resize(stored);
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < stored;) {
      const std::size_t piece = std::min(kReadBytes, stored - at);
      if (file_.Read(stored_.data() + at, piece, offset_) != piece) Die("cut chunk");
      const auto* bytes = reinterpret_cast<const unsigned char*>(stored_.data() + at);
      crc = crc32_gzip_refl(crc, bytes, piece);
      at += piece;
      offset_ += piece;
    }
    if (crc != Load<std::uint32_t>(header + 8)) Die("bad checksum");
    return {stored_.data(), stored};
  }
  std::uint32_t records() const { return records_; }
  bool snappy() const { return compressor_ == 1; }

 private:
  const OpenedFile file_;
  std::uint64_t offset_ = 0;
  std::uint32_t records_ = 0;
  std::uint32_t compressor_ = 0;
  std::vector<std::byte> stored_;
};

// Snappy's blocks after "snappy\0": flag, u16 length and u32 checksum, big-endian.
std::span<const std::byte> Uncompress(std::span<const std::byte> stored,
                                      std::vector<std::byte>* payload) {
  constexpr std::size_t kStreamBytes = 7;
  constexpr std::size_t kBlockHeaderBytes = 7;
  constexpr std::size_t kBlockBytes = 32768;
  std::size_t size = 0;
  for (std::size_t at = kStreamBytes; at < stored.size();) {
    const std::byte* const block = stored.data() + at;
    const std::size_t length =
        std::to_integer<std::size_t>(block[1]) << 8 | std::to_integer<std::size_t>(block[2]);
    const char* const from = reinterpret_cast<const char*>(block) + kBlockHeaderBytes;
    if (payload->size() < size + kBlockBytes) payload->resize(2 * (size + kBlockBytes));
    char* const to = reinterpret_cast<char*>(payload->data()) + size;
    std::size_t bytes = length;
    if (block[0] == std::byte{0}) {
      std::memcpy(to, from, length);
    } else if (!snappy::GetUncompressedLength(from, length, &bytes) || bytes > kBlockBytes ||
               !snappy::RawUncompress(from, length, to)) {
      Die("bad snappy");
    }
    size += bytes;
    at += kBlockHeaderBytes + length;
  }
  return {payload->data(), size};
}

// --- gzip --------------------------------------------------------------------------------------

// The content of a gzip file, in order.
class InflatedFile {
 public:
  explicit InflatedFile(const std::string& path) : file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr || gzbuffer(file_, kReadBytes) != 0) Die("open failed");
  }
  ~InflatedFile() { gzclose(file_); }
  InflatedFile(const InflatedFile&) = delete;
  InflatedFile& operator=(const InflatedFile&) = delete;

  std::size_t Read(std::byte* to, std::size_t bytes, std::uint64_t /*offset*/) const {
    const int got = gzread(file_, to, static_cast<unsigned>(bytes));
    if (got < 0) Die("bad gzip file");
    return static_cast<std::size_t>(got);
  }

 private:
  gzFile const file_;
};

// --- OFRecord ----------------------------------------------------------------------------------

// A message's bytes after a tag and a length below 128, which are all that these records have.
std::span<const std::byte> Enter(const std::byte** at, int tag) {
  if (**at != static_cast<std::byte>(tag)) Die("unexpected tag");
  const auto bytes = std::to_integer<std::size_t>((*at)[1]);
  if (bytes >= 128) Die("a long length");
  const std::span<const std::byte> inside{*at + 2, bytes};
  *at += 2 + bytes;
  return inside;
}

constexpr std::size_t kFloats = 16;

// One record into the current row: entries in any order, each a key and a list.
void WriteOfRecord(const std::byte* at, std::size_t bytes, FixedBatches* batches) {
  constexpr int kEntry = 0x0a;
  constexpr int kKey = 0x0a;
  constexpr int kFeature = 0x12;
  constexpr int kFloatList = 0x12;
  constexpr int kInt32List = 0x22;
  constexpr int kValues = 0x0a;
  const std::byte* const end = at + bytes;
  int found = 0;
  while (at < end) {
    const std::byte* entry = Enter(&at, kEntry).data();
    const std::span<const std::byte> key = Enter(&entry, kKey);
    const std::byte* feature = Enter(&entry, kFeature).data();
    const std::string_view name(reinterpret_cast<const char*>(key.data()), key.size());
    if (name == "x") {
      const std::byte* list = Enter(&feature, kFloatList).data();
      const std::span<const std::byte> values = Enter(&list, kValues);
      if (values.size() != kFloats * 4) Die("bad floats");
      StreamWords(batches->at(0), values.data(), values.size());
      ++found;
    } else if (name == "label") {
      const std::byte* list = Enter(&feature, kInt32List).data();
      std::uint32_t value = 0;
      unsigned shift = 0;
      for (const std::byte byte : Enter(&list, kValues)) {
        value |= (std::to_integer<std::uint32_t>(byte) & 0x7f) << shift;
        shift += 7;
      }
      Stream32(batches->at(1), value);
      ++found;
    }
  }
  if (found != 2) Die("a feature is missing");
}

}  // namespace

LoopResult BareChunkLoop(const Paths& files, const LoopOptions& options) {
  std::vector<std::byte> uncompressed;
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    for (const std::string& path : files) {
      ChunkFile file(path);
      for (std::span<const std::byte> chunk = file.Next(); !chunk.empty(); chunk = file.Next()) {
        if (file.snappy()) chunk = Uncompress(chunk, &uncompressed);
        const std::byte* at = chunk.data();
        for (std::uint32_t record = 0; record < file.records(); ++record) {
          const std::size_t bytes = Load<std::uint32_t>(at);
          if (options.digest) digest->Add({at + 4, bytes});
          at += 4 + bytes;
          result->bytes += bytes;
        }
        if (at != chunk.data() + chunk.size()) Die("bad chunk");
        result->records += file.records();
      }
    }
  });
}

LoopResult BareZlibLoop(const Paths& files, const LoopOptions& options) {
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    ForEachBlock<InflatedFile>(files, [&](std::span<const std::byte> block) {
      return TakeTfRecords(block, [&](const std::byte* payload, std::size_t bytes) {
        if (options.digest) digest->Add({payload, bytes});
        ++result->records;
        result->bytes += bytes;
      });
    });
  });
}

LoopResult BareLineLoop(const Paths& files, const LoopOptions& options) {
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    ForEachBlock(files, [&](std::span<const std::byte> bytes) {
      std::size_t at = 0;
      while (const void* end = std::memchr(bytes.data() + at, '\n', bytes.size() - at)) {
        const auto line =
            static_cast<std::size_t>(static_cast<const std::byte*>(end) - (bytes.data() + at));
        if (options.digest) digest->Add({bytes.data() + at, line});
        ++result->records;
        result->bytes += line;
        at += line + 1;
      }
      return at;
    });
  });
}

LoopResult BareTarLoop(const Paths& files, const LoopOptions& options) {
  constexpr std::size_t kBlock = 512;
  constexpr std::size_t kSizeAt = 124;
  constexpr std::size_t kSizeDigits = 11;
  ByteBatches batches(options);
  return Timed([&](LoopResult* result, BatchDigest* digest) {
    ForEachBlock(files, [&](std::span<const std::byte> bytes) {
      std::size_t at = 0;
      while (bytes.size() - at >= kBlock && bytes[at] != std::byte{0}) {
        std::size_t size = 0;
        for (std::size_t i = 0; i < kSizeDigits; ++i) {
          size = size * 8 + (std::to_integer<std::size_t>(bytes[at + kSizeAt + i]) - '0');
        }
        const std::size_t whole = kBlock + (size + kBlock - 1) / kBlock * kBlock;
        if (whole > bytes.size() - at) break;
        batches.Add(bytes.subspan(at, whole));
        if (batches.full()) batches.Finish(digest);
        ++result->records;
        result->bytes += whole;
        at += whole;
      }
      return at;
    });
    batches.Finish(digest);
  });
}

LoopResult BareCsvLoop(const Paths& files, const LoopOptions& options) {
  return FillColumns({8, 8}, options, [&](auto* result, auto* batches) {
    ForEachBlock(files, [&](std::span<const std::byte> bytes) {
      const char* const begin = reinterpret_cast<const char*>(bytes.data());
      const char* line = begin;
      const char* const last = begin + bytes.size();
      while (const auto* end = static_cast<const char*>(
                 std::memchr(line, '\n', static_cast<std::size_t>(last - line)))) {
        for (std::size_t column = 0; column < 2; ++column) {
          double value = 0;
          const auto read = fast_float::from_chars(line, end, value);
          if (read.ec != std::errc() || *read.ptr != (column == 0 ? ',' : '\n')) Die("bad number");
          Stream64(batches->at(column), std::bit_cast<std::uint64_t>(value));
          line = read.ptr + 1;
        }
        ++result->records;
        result->bytes += 16;
        batches->NextRow();
      }
      return static_cast<std::size_t>(line - begin);
    });
  });
}

LoopResult BareOfRecordLoop(const Paths& files, const LoopOptions& options) {
  return FillColumns({kFloats * 4, 4}, options, [&](auto* result, auto* batches) {
    ForEachBlock(files, [&](std::span<const std::byte> block) {
      return TakeOfRecords(block, [&](const std::byte* record, std::size_t bytes) {
        WriteOfRecord(record, bytes, batches);
        ++result->records;
        result->bytes += bytes;
        batches->NextRow();
      });
    });
  });
}

}  // namespace ringfeed::bench
