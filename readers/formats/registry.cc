#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "readers/formats/csv.h"
#include "readers/formats/fixed_rows.h"
#include "readers/formats/format.h"
#include "readers/formats/lines.h"
#include "readers/formats/npy.h"
#include "readers/formats/ofrecord.h"
#include "readers/formats/raw_file.h"
#include "readers/formats/recordio.h"
#include "readers/formats/tar.h"
#include "readers/formats/tfrecord.h"
#include "readers/formats/tokens.h"

namespace ringfeed {
namespace {

// Formats of one name: some take parameters behind a colon.
struct Family {
  std::string_view name;
  std::string_view usage;
  FormatResult (*make)(std::string_view parameters);
};

template <std::shared_ptr<const Format> (*kMake)()>
FormatResult Plain(std::string_view parameters) {
  if (parameters.empty()) return {Status(), kMake()};
  return {Status(StatusCode::kInvalidArgument, "format \"" + std::string(kMake()->name()) +
                                                   "\" takes no parameters, not \"" +
                                                   std::string(parameters) + "\""),
          nullptr};
}

FormatResult RecordIo(std::string_view parameters) {
  RecordIoOptions options;
  Status status = ParseRecordIoOptions(parameters, &options);
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), RecordIoFormat(options)};
}

FormatResult Rows(std::string_view parameters) {
  FixedRowsLayout layout;
  Status status = ParseFixedRowsLayout(parameters, &layout);
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), FixedRowsFormat(layout)};
}

FormatResult Tar(std::string_view parameters) {
  TarOptions options;
  Status status = ParseTarOptions(parameters, &options);
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), TarFormat(options)};
}

FormatResult Tokens(std::string_view parameters) {
  TokensOptions options;
  Status status = ParseTokensOptions(parameters, &options);
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), TokensFormat(options)};
}

template <char kDelimiter>
FormatResult Csv(std::string_view parameters) {
  CsvLayout layout;
  layout.delimiter = kDelimiter;
  Status status = ParseCsvLayout(parameters, &layout);
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), CsvFormat(layout)};
}

constexpr Family kFamilies[] = {
    {"tfrecord", "tfrecord", Plain<TfRecordFormat>},
    {"recordio",
     "recordio[:fluid|go][,none|snappy|gzip] (PaddlePaddle's; what follows is for writing)",
     RecordIo},
    {"ofrecord", "ofrecord (OneFlow's)", Plain<OfRecordFormat>},
    {"rows", "rows:BYTES[,header=BYTES][,stride=BYTES] (rows of one size)", Rows},
    {"tar", "tar[:ext=NAME] (WebDataset samples; what follows is for writing)", Tar},
    {"npy", "npy (rows of a NumPy array)", Plain<NpyFormat>},
    {"tokens", "tokens[:u2|u4][,block=TOKENS][,tail=drop] (llm.c's, nanoGPT's)", Tokens},
    {"lines", "lines (of text)", Plain<LinesFormat>},
    {"jsonl", "jsonl (lines of JSON)", Plain<JsonLinesFormat>},
    {"csv", "csv[:delimiter=C][,header]", Csv<','>},
    {"tsv", "tsv[:header] (csv with tabs)", Csv<'\t'>},
    {"raw", "raw (each file is one record)", Plain<RawFileFormat>},
};

std::string Known() {
  std::string known;
  for (const Family& family : kFamilies) {
    known += (known.empty() ? "" : "; ") + std::string(family.usage);
  }
  return known;
}

// Formats that a name or first bytes can tell, in the order in which they are tried.
const std::vector<std::shared_ptr<const Format>>& Detectable() {
  static const std::vector<std::shared_ptr<const Format>> kFormats = {
      TfRecordFormat(),  RecordIoFormat({}),
      TarFormat({}),     NpyFormat(),
      TokensFormat({}),  OfRecordFormat(),
      JsonLinesFormat(), LinesFormat(),
      CsvFormat({}),     CsvFormat({.delimiter = '\t'})};
  return kFormats;
}

FormatResult Failure(StatusCode code, std::string message) {
  return {Status(code, std::move(message)), nullptr};
}

unsigned At(std::span<const std::byte> head, std::size_t index) {
  return std::to_integer<unsigned>(head[index]);
}

// Whether these bytes hold no control characters but those of text.
bool IsText(std::span<const std::byte> head) {
  return std::none_of(head.begin(), head.end(), [](std::byte byte) {
    const auto c = std::to_integer<unsigned>(byte);
    return c < 0x20 && c != '\t' && c != '\n' && c != '\r';
  });
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
  // The first bytes of a zlib stream are weak, so a length below 4 GiB is given the benefit, and so
  // is text: "80" would do.
  const unsigned upper_half = At(head, 4) | At(head, 5) | At(head, 6) | At(head, 7);
  const bool zlib = (At(head, 0) & 0x0f) == 8 && (At(head, 0) >> 4) < 8 &&
                    (At(head, 0) * 256 + At(head, 1)) % 31 == 0;
  return zlib && upper_half != 0 && !IsText(head) ? "zlib" : "";
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
  const std::size_t colon = std::min(name.find(':'), name.size());
  for (const Family& family : kFamilies) {
    if (name.substr(0, colon) != family.name) continue;
    return family.make(name.substr(std::min(colon + 1, name.size())));
  }
  return Failure(StatusCode::kInvalidArgument,
                 "format \"" + std::string(name) + "\" is unknown; there are: " + Known());
}

FormatResult DetectFormat(std::string_view file_name, std::span<const std::byte> head) {
  const std::string file(file_name);
  for (const auto& format : Detectable()) {
    if (format->MatchesBytes(head)) return {Status(), format};
  }
  const std::string_view compression = CompressionOf(head);
  if (!compression.empty()) {
    return Failure(StatusCode::kUnsupported,
                   file + " is compressed (" + std::string(compression) +
                       "): compressed TFRecord and other compressed files are not supported yet; "
                       "decompress it first");
  }
  for (const auto& format : Detectable()) {
    if (format->MatchesName(file_name)) return {Status(), format};
  }
  if (EndsAsCompressed(file_name)) {
    return Failure(StatusCode::kUnsupported,
                   file +
                       " is compressed, by its name: compressed TFRecord and other compressed "
                       "files are not supported yet; decompress it first");
  }
  return Failure(
      StatusCode::kInvalidArgument,
      "the format of " + file +
          " was not recognised: its name does not end in .tfrecord, .tfrecords, "
          "tfrecord…-00000-of-00010, .recordio, .ofrecord, .tar, .npy, .txt, .jsonl, .ndjson, "
          ".csv or .tsv, nor is it part-00000, and its first bytes are neither a TFRecord header "
          "nor RecordIO's magic number nor an OFRecord nor a tar header nor NumPy's or llm.c's "
          "magic number nor a line of JSON; name the format: " +
          Known());
}

}  // namespace ringfeed
