#include "readers/compression/deflater.h"

#include <zlib.h>

#include <algorithm>
#include <new>

namespace ringfeed {
namespace {

// zlib counts what it is given in 32 bits.
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
constexpr int kGzipWindowBits = 15 + 16;  // zlib.h: 16 added asks for gzip
constexpr int kMemoryLevel = 8;

}  // namespace

void AppendGzipMember(std::span<const std::byte> data, std::vector<std::byte>* stream) {
  z_stream zlib{};
  const int made = deflateInit2(&zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindowBits,
                                kMemoryLevel, Z_DEFAULT_STRATEGY);
  if (made != Z_OK) throw std::bad_alloc();  // with these parameters nothing else goes wrong
  const std::size_t base = stream->size();
  stream->resize(base + deflateBound(&zlib, static_cast<uLong>(data.size())));
  std::size_t written = base;
  int code = Z_OK;
  while (code != Z_STREAM_END) {
    const std::size_t in = std::min(data.size(), kMostAtOnce);
    const std::size_t out = std::min(stream->size() - written, kMostAtOnce);
    zlib.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));  // only read
    zlib.avail_in = static_cast<uInt>(in);
    zlib.next_out = reinterpret_cast<Bytef*>(stream->data() + written);
    zlib.avail_out = static_cast<uInt>(out);
    code = deflate(&zlib, in == data.size() ? Z_FINISH : Z_NO_FLUSH);
    data = data.subspan(in - zlib.avail_in);
    written += out - zlib.avail_out;
  }
  deflateEnd(&zlib);
  stream->resize(written);
}

}  // namespace ringfeed
