#include "readers/formats/compression/compressor.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <string>

namespace ringfeed {
namespace {

constexpr std::size_t kRoomBytes = 64 * 1024;

class Deflater final : public Compressor {
 public:
  explicit Deflater(Compression compression) {
    constexpr int kWindowBits = 15;
    constexpr int kGzip = 16;  // zlib.h: added, it asks for gzip
    constexpr int kMemoryLevel = 8;
    const int bits = compression == Compression::kGzip ? kWindowBits + kGzip : kWindowBits;
    const int made = deflateInit2(&zlib_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, kMemoryLevel,
                                  Z_DEFAULT_STRATEGY);
    if (made != Z_OK) throw std::bad_alloc();  // with these parameters nothing else goes wrong
  }
  ~Deflater() override { deflateEnd(&zlib_); }

  void Add(std::span<const std::byte> data, std::vector<std::byte>* out) override {
    constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // zlib counts in 32 bits
    while (!data.empty()) {
      const std::size_t some = std::min(data.size(), kMostAtOnce);
      zlib_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));  // only read
      zlib_.avail_in = static_cast<uInt>(some);
      while (zlib_.avail_in > 0) Step(Z_NO_FLUSH, out);
      data = data.subspan(some);
    }
  }

  void Finish(std::vector<std::byte>* out) override {
    while (Step(Z_FINISH, out) != Z_STREAM_END) {
    }
  }

 private:
  int Step(int flush, std::vector<std::byte>* out) {
    const std::size_t base = out->size();
    out->resize(base + kRoomBytes);
    zlib_.next_out = reinterpret_cast<Bytef*>(out->data() + base);
    zlib_.avail_out = static_cast<uInt>(kRoomBytes);
    const int code = deflate(&zlib_, flush);
    out->resize(base + kRoomBytes - zlib_.avail_out);
    return code;
  }

  z_stream zlib_{};
};

class ZstdCompressor final : public Compressor {
 public:
  ZstdCompressor() : zstd_(ZSTD_createCCtx()) {
    if (zstd_ == nullptr) throw std::bad_alloc();
    ZSTD_CCtx_setParameter(zstd_, ZSTD_c_checksumFlag, 1);
  }
  ~ZstdCompressor() override { ZSTD_freeCCtx(zstd_); }

  void Add(std::span<const std::byte> data, std::vector<std::byte>* out) override {
    ZSTD_inBuffer in{data.data(), data.size(), 0};
    while (in.pos < in.size) Step(ZSTD_e_continue, &in, out);
  }

  void Finish(std::vector<std::byte>* out) override {
    ZSTD_inBuffer in{nullptr, 0, 0};
    while (Step(ZSTD_e_end, &in, out) != 0) {
    }
  }

 private:
  std::size_t Step(ZSTD_EndDirective what, ZSTD_inBuffer* in, std::vector<std::byte>* out) {
    const std::size_t base = out->size();
    out->resize(base + kRoomBytes);
    ZSTD_outBuffer room{out->data() + base, kRoomBytes, 0};
    const std::size_t left = ZSTD_compressStream2(zstd_, &room, in, what);
    if (ZSTD_isError(left) != 0) throw std::bad_alloc();  // its only failure with such parameters
    out->resize(base + room.pos);
    return left;
  }

  ZSTD_CCtx* const zstd_;
};

}  // namespace

std::unique_ptr<Compressor> MakeCompressor(Compression compression) {
  assert(compression != Compression::kNone);
  if (compression == Compression::kZstd) return std::make_unique<ZstdCompressor>();
  return std::make_unique<Deflater>(compression);
}

void AppendGzipMember(std::span<const std::byte> data, std::vector<std::byte>* stream) {
  Deflater gzip(Compression::kGzip);
  gzip.Add(data, stream);
  gzip.Finish(stream);
}

}  // namespace ringfeed
