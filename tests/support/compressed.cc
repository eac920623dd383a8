#include "tests/support/compressed.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace ringfeed {
namespace {

constexpr std::size_t kPieceBytes = 4096;

void Expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

void Deflate(z_stream* zlib, std::span<const std::byte> piece, int flush,
             std::vector<std::byte>* out) {
  zlib->next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(piece.data()));  // only read
  zlib->avail_in = static_cast<uInt>(piece.size());
  do {
    const std::size_t before = out->size();
    out->resize(before + kPieceBytes);
    zlib->next_out = reinterpret_cast<Bytef*>(out->data() + before);
    zlib->avail_out = kPieceBytes;
    Expect(deflate(zlib, flush) != Z_STREAM_ERROR, "deflate");
    out->resize(before + kPieceBytes - zlib->avail_out);
  } while (zlib->avail_out == 0);
}

void AppendDeflated(std::span<const std::byte> content, const CompressedForm& form,
                    std::vector<std::byte>* out) {
  constexpr int kWindowBits = 15;
  constexpr int kGzip = 16;  // zlib.h: added to the window's bits
  z_stream zlib{};
  const int bits = form.kind == CompressedForm::Kind::kGzip ? kWindowBits + kGzip : kWindowBits;
  Expect(deflateInit2(&zlib, form.level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
  while (form.flush_every > 0 && content.size() > form.flush_every) {
    Deflate(&zlib, content.first(form.flush_every), Z_SYNC_FLUSH, out);
    content = content.subspan(form.flush_every);
  }
  Deflate(&zlib, content, Z_FINISH, out);
  deflateEnd(&zlib);
}

void ZstdStep(ZSTD_CStream* stream, std::span<const std::byte> piece, ZSTD_EndDirective end,
              std::vector<std::byte>* out) {
  ZSTD_inBuffer in{piece.data(), piece.size(), 0};
  std::size_t left = 1;
  while (left > 0 || in.pos < in.size) {
    const std::size_t before = out->size();
    out->resize(before + kPieceBytes);
    ZSTD_outBuffer room{out->data() + before, kPieceBytes, 0};
    left = ZSTD_compressStream2(stream, &room, &in, end);
    Expect(ZSTD_isError(left) == 0, "zstd");
    out->resize(before + room.pos);
  }
}

void AppendZstd(std::span<const std::byte> content, const CompressedForm& form,
                std::vector<std::byte>* out) {
  const std::unique_ptr<ZSTD_CStream, decltype(&ZSTD_freeCStream)> stream(ZSTD_createCStream(),
                                                                          &ZSTD_freeCStream);
  ZSTD_CCtx_setParameter(stream.get(), ZSTD_c_compressionLevel, form.level);
  ZSTD_CCtx_setParameter(stream.get(), ZSTD_c_checksumFlag, 1);
  while (form.flush_every > 0 && content.size() > form.flush_every) {
    ZstdStep(stream.get(), content.first(form.flush_every), ZSTD_e_flush, out);
    content = content.subspan(form.flush_every);
  }
  ZstdStep(stream.get(), content, ZSTD_e_end, out);
}

}  // namespace

std::vector<std::byte> Compress(std::span<const std::byte> content, const CompressedForm& form) {
  std::vector<std::byte> out;
  const std::size_t each = std::max<std::size_t>(1, content.size() / form.members);
  for (std::size_t i = 0; i < form.members; ++i) {
    const std::size_t bytes =
        i + 1 == form.members ? content.size() : std::min(each, content.size());
    if (form.kind == CompressedForm::Kind::kZstd) {
      AppendZstd(content.first(bytes), form, &out);
    } else {
      AppendDeflated(content.first(bytes), form, &out);
    }
    content = content.subspan(bytes);
  }
  return out;
}

}  // namespace ringfeed
