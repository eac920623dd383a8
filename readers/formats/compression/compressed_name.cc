#include "readers/formats/compression/compressed_name.h"

#include <string>

namespace ringfeed {
namespace {

struct Ending {
  Compression compression;
  std::string_view text;  // the first one of a compression is the one that is written
};
constexpr Ending kEndings[] = {{Compression::kGzip, ".gz"},   {Compression::kGzip, ".gzip"},
                               {Compression::kZlib, ".zlib"}, {Compression::kZlib, ".zz"},
                               {Compression::kZstd, ".zst"},  {Compression::kZstd, ".zstd"}};

}  // namespace

Compression TakeCompressedEnding(std::string_view* file_name) {
  for (const auto& [compression, text] : kEndings) {
    if (!file_name->ends_with(text)) continue;
    file_name->remove_suffix(text.size());
    return compression;
  }
  return Compression::kNone;
}

std::string_view CompressedEnding(Compression compression) {
  for (const Ending& ending : kEndings) {
    if (ending.compression == compression) return ending.text;
  }
  return {};
}

Compression TakeCompression(std::string_view* format_name) {
  for (const Compression compression :
       {Compression::kGzip, Compression::kZlib, Compression::kZstd}) {
    const std::string ending = std::string("+") + CompressionName(compression);
    if (!format_name->ends_with(ending)) continue;
    format_name->remove_suffix(ending.size());
    return compression;
  }
  return Compression::kNone;
}

}  // namespace ringfeed
