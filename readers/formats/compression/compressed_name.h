#pragma once

#include <string_view>

#include "readers/formats/compression/decompressor.h"

namespace ringfeed {

/// How a file of that name would be compressed, by its ending (".gz", ".gzip", ".zlib", ".zz",
/// ".zst", ".zstd"), which is taken off the name.
Compression TakeCompressedEnding(std::string_view* file_name);
/// The ending that is written, ".gz"; empty for kNone.
std::string_view CompressedEnding(Compression compression);

/// How a format's name says that its files are compressed ("tfrecord+gzip"), which is taken off it.
Compression TakeCompression(std::string_view* format_name);

}  // namespace ringfeed
