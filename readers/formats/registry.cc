#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "readers/formats/arrays/fixed_rows.h"
#include "readers/formats/arrays/npy.h"
#include "readers/formats/arrays/raw_file.h"
#include "readers/formats/compression/compressed_name.h"
#include "readers/formats/compression/content_reader.h"
#include "readers/formats/format.h"
#include "readers/formats/ofrecord/ofrecord.h"
#include "readers/formats/recordio/recordio.h"
#include "readers/formats/resemblance.h"
#include "readers/formats/tar/tar.h"
#include "readers/formats/text/csv.h"
#include "readers/formats/text/lines.h"
#include "readers/formats/tfrecord/tfrecord.h"
#include "readers/formats/tokens/megatron.h"
#include "readers/formats/tokens/tokens.h"

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

// Those whose parameters ParseX reads into what XFormat takes.
template <typename Parameters, Status (*kParse)(std::string_view, Parameters*),
          std::shared_ptr<const Format> (*kMake)(const Parameters&)>
FormatResult With(std::string_view text) {
  Parameters parameters;
  Status status = kParse(text, &parameters);
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), kMake(parameters)};
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
     With<RecordIoOptions, ParseRecordIoOptions, RecordIoFormat>},
    {"ofrecord", "ofrecord (OneFlow's)", Plain<OfRecordFormat>},
    {"rows", "rows:BYTES[,header=BYTES][,stride=BYTES] (rows of one size)",
     With<FixedRowsLayout, ParseFixedRowsLayout, FixedRowsFormat>},
    {"tar", "tar[:ext=NAME] (WebDataset samples; what follows is for writing)",
     With<TarOptions, ParseTarOptions, TarFormat>},
    {"npy", "npy[:f4[3,2]] (rows of a NumPy array; what follows is for writing)",
     With<NpyRow, ParseNpyRow, NpyFormat>},
    {"tokens", "tokens[:u2|u4][,llmc][,block=TOKENS][,tail=drop] (llm.c's, nanoGPT's)",
     With<TokensOptions, ParseTokensOptions, TokensFormat>},
    {"megatron", "megatron[:u2] (Megatron-LM's .idx and .bin; what follows is for writing)",
     With<MegatronElement, ParseMegatronElement, MegatronFormat>},
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
  return known + ". Behind all but rows, megatron and raw also +gzip, +zlib or +zstd";
}

// Formats that a name or first bytes can tell, in the order in which they are tried.
const std::vector<std::shared_ptr<const Format>>& Detectable() {
  static const std::vector<std::shared_ptr<const Format>> kFormats = {
      TfRecordFormat(),
      RecordIoFormat({}),
      TarFormat({}),
      NpyFormat({}),
      TokensFormat({}),
      MegatronFormat({}),
      OfRecordFormat(),
      JsonLinesFormat(),
      LinesFormat(),
      CsvFormat({}),
      CsvFormat({.delimiter = '\t'})};
  return kFormats;
}

FormatResult Failure(StatusCode code, std::string message) {
  return {Status(code, std::move(message)), nullptr};
}

// The first bytes of a compressed file's content, as far as its own first bytes hold them.
std::vector<std::byte> HeadOfContent(Compression compression, std::span<const std::byte> head) {
  ContentReader content(compression, [&head](std::span<std::byte> buffer, std::size_t* got) {
    *got = std::min(buffer.size(), head.size());
    std::copy_n(head.begin(), *got, buffer.begin());
    head = head.subspan(*got);
    return Status();
  });
  std::vector<std::byte> found(kHeadBytes);
  std::size_t filled = 0;
  std::size_t got = 1;
  while (got > 0 && filled < found.size()) {
    // What ends it, the end of the head most of all, is met again when the file is read.
    (void)content.Read(std::span(found).subspan(filled), &got);
    filled += got;
  }
  found.resize(filled);
  return found;
}

FormatResult DetectContent(std::string_view file_name, std::span<const std::byte> head) {
  const auto& formats = Detectable();
  const auto by_bytes = std::find_if(formats.begin(), formats.end(), [&](const auto& format) {
    return format->MatchesBytes(head);
  });
  if (by_bytes != formats.end()) return {Status(), *by_bytes};
  std::string_view name = file_name;
  TakeCompressedEnding(&name);
  const auto by_name = std::find_if(formats.begin(), formats.end(),
                                    [&](const auto& format) { return format->MatchesName(name); });
  if (by_name != formats.end()) return {Status(), *by_name};
  const std::string like = Resemblance(head);
  return Failure(
      StatusCode::kInvalidArgument,
      "the format of " + std::string(file_name) + " was not recognised" +
          (like.empty() ? "" : " (" + like + ")") +
          ": its name does not end in .tfrecord, .tfrecords, "
          "tfrecord…-00000-of-00010, .recordio, .ofrecord, .tar, .npy, .txt, .jsonl, .ndjson, "
          ".csv or .tsv (with .gz, .zlib or .zst behind it or without), nor is it part-00000, and "
          "its first bytes are neither a TFRecord header nor RecordIO's magic number nor an "
          "OFRecord nor a tar header nor NumPy's, llm.c's or Megatron's magic number nor a line of "
          "JSON, nor "
          "any of these compressed by gzip, zlib or zstd; name the format: " +
          Known());
}

}  // namespace

std::uint64_t Format::Stripes(std::uint64_t file_bytes, std::uint64_t stripe_bytes) const {
  return file_bytes / stripe_bytes + (file_bytes % stripe_bytes != 0 ? 1 : 0);
}

std::size_t HeadBytesOf(std::span<const std::byte> head) {
  constexpr std::size_t kMostZstdBlock = 128 * 1024;
  return DetectCompression(head) == Compression::kZstd ? kMostZstdBlock + kHeadBytes : kHeadBytes;
}

FormatResult FindFormat(std::string_view name) {
  const Compression compression = TakeCompression(&name);
  const std::size_t colon = std::min(name.find(':'), name.size());
  for (const Family& family : kFamilies) {
    if (name.substr(0, colon) != family.name) continue;
    FormatResult found = family.make(name.substr(std::min(colon + 1, name.size())));
    if (found.status.ok() && compression != Compression::kNone && !found.format->decompresses()) {
      return Failure(StatusCode::kInvalidArgument,
                     "format \"" + std::string(family.name) + "\" does not go with compression");
    }
    found.compression = compression;
    return found;
  }
  return Failure(StatusCode::kInvalidArgument,
                 "format \"" + std::string(name) + "\" is unknown; there are: " + Known());
}

FormatResult DetectFormat(std::string_view file_name, std::span<const std::byte> head) {
  const auto& formats = Detectable();
  const bool plain = std::any_of(formats.begin(), formats.end(),
                                 [&](const auto& format) { return format->MatchesBytes(head); });
  const Compression compression = plain ? Compression::kNone : DetectCompression(head);
  if (compression == Compression::kNone) return DetectContent(file_name, head);
  FormatResult found = DetectContent(file_name, HeadOfContent(compression, head));
  found.compression = compression;
  return found;
}

FormatResult ChooseFormat(std::string_view asked, std::string_view file_name,
                          std::span<const std::byte> head) {
  FormatResult found = asked.empty() ? DetectFormat(file_name, head) : FindFormat(asked);
  if (!found.status.ok()) return found;
  const bool open = !asked.empty() && found.compression == Compression::kNone;
  if (open && found.format->decompresses() && !found.format->MatchesBytes(head)) {
    found.compression = DetectCompression(head);
  }
  CompanionResult companion = found.format->FindCompanion(std::string(file_name));
  if (!companion.status.ok()) return {std::move(companion.status), nullptr};
  if (!companion.data_file.empty()) {
    found.format = std::move(companion.format);
    found.data_file = std::move(companion.data_file);
  }
  return found;
}

}  // namespace ringfeed
