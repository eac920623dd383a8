#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "readers/formats/compression/decompressor.h"

namespace ringfeed {

/// Compresses bytes into one member (a member of gzip without a name or a time, a stream of zlib, a
/// frame of zstd with its checksum), at the library's usual level. One thread at a time. Throws
/// std::bad_alloc if there is no memory.
class Compressor {
 public:
  virtual ~Compressor() = default;
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  /// Takes `data`, and appends to *out what is ready.
  virtual void Add(std::span<const std::byte> data, std::vector<std::byte>* out) = 0;
  /// Appends the member's rest. Nothing may be called afterwards.
  virtual void Finish(std::vector<std::byte>* out) = 0;

 protected:
  Compressor() = default;
};

/// Not for kNone.
std::unique_ptr<Compressor> MakeCompressor(Compression compression);

/// Appends `data` as one gzip member (RFC 1952).
void AppendGzipMember(std::span<const std::byte> data, std::vector<std::byte>* stream);

}  // namespace ringfeed
