#include <string>

#include "readers/formats/fixed_rows.h"
#include "readers/formats/format.h"
#include "readers/formats/raw_file.h"
#include "readers/formats/tfrecord.h"

namespace ringfeed {
namespace {

constexpr std::string_view kKnown =
    "tfrecord, rows:BYTES[,header=BYTES][,stride=BYTES] (rows of one size), raw (each file is one "
    "record)";

FormatResult Failure(StatusCode code, std::string message) {
  return {Status(code, std::move(message)), nullptr};
}

unsigned At(std::span<const std::byte> head, std::size_t index) {
  return std::to_integer<unsigned>(head[index]);
}

// RFC 1950 (zlib) and 1952 (gzip); zstd's frame magic. Empty where it is none of them.
std::string_view CompressionOf(std::span<const std::byte> head) {
  if (head.size() < 8) return "";
  if (At(head, 0) == 0x1f && At(head, 1) == 0x8b && At(head, 2) == 8 && At(head, 3) < 0x20) {
    return "gzip";
  }
  if (At(head, 0) == 0x28 && At(head, 1) == 0xb5 && At(head, 2) == 0x2f && At(head, 3) == 0xfd) {
    return "zstd";
  }
  // The first bytes of a zlib stream are weak, so a length below 4 GiB is given the benefit.
  const unsigned upper_half = At(head, 4) | At(head, 5) | At(head, 6) | At(head, 7);
  const bool zlib = (At(head, 0) & 0x0f) == 8 && (At(head, 0) >> 4) < 8 &&
                    (At(head, 0) * 256 + At(head, 1)) % 31 == 0;
  return zlib && upper_half != 0 ? "zlib" : "";
}

bool EndsAsCompressed(std::string_view name) {
  for (const std::string_view ending : {".gz", ".gzip", ".zlib", ".zst", ".zz"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

}  // namespace

std::uint64_t Format::Stripes(std::uint64_t file_bytes, std::uint64_t stripe_bytes) const {
  return file_bytes / stripe_bytes + (file_bytes % stripe_bytes != 0 ? 1 : 0);
}

FormatResult FindFormat(std::string_view name) {
  if (name == "tfrecord") return {Status(), TfRecordFormat()};
  if (name == "raw") return {Status(), RawFileFormat()};
  if (name.starts_with("rows:")) {
    FixedRowsLayout layout;
    Status status = ParseFixedRowsLayout(name.substr(5), &layout);
    if (!status.ok()) return {std::move(status), nullptr};
    return {Status(), FixedRowsFormat(layout)};
  }
  return Failure(
      StatusCode::kInvalidArgument,
      "format \"" + std::string(name) + "\" is unknown; there are: " + std::string(kKnown));
}

FormatResult DetectFormat(std::string_view file_name, std::span<const std::byte> head) {
  const std::string file(file_name);
  const auto tfrecord = TfRecordFormat();
  if (tfrecord->MatchesBytes(head)) return {Status(), tfrecord};
  const std::string_view compression = CompressionOf(head);
  if (!compression.empty()) {
    return Failure(StatusCode::kUnsupported,
                   file + " is compressed (" + std::string(compression) +
                       "): compressed TFRecord and other compressed files are not supported yet; "
                       "decompress it first");
  }
  if (tfrecord->MatchesName(file_name)) return {Status(), tfrecord};
  if (EndsAsCompressed(file_name)) {
    return Failure(StatusCode::kUnsupported,
                   file +
                       " is compressed, by its name: compressed TFRecord and other compressed "
                       "files are not supported yet; decompress it first");
  }
  return Failure(StatusCode::kInvalidArgument,
                 "the format of " + file +
                     " was not recognised: its name does not end in .tfrecord, .tfrecords or "
                     "tfrecord…-00000-of-00010, and its first bytes are no TFRecord header; name "
                     "the format: " +
                     std::string(kKnown));
}

}  // namespace ringfeed
