#include "readers/formats/format.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "base/little_endian.h"
#include "io/remote/address.h"
#include "readers/formats/array_record/array_record.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/compression/decompressed_reader.h"
#include "readers/formats/litdata/litdata.h"
#include "readers/formats/mds/mds.h"
#include "readers/formats/mds/shard.h"
#include "readers/formats/ofrecord/ofrecord.h"
#include "readers/formats/recordio/recordio.h"
#include "readers/formats/registered_format.h"
#include "readers/formats/stranger.h"
#include "readers/formats/tar/tar.h"
#include "readers/formats/text/text_formats.h"
#include "readers/formats/text/text_start.h"
#include "readers/formats/tfrecord/tfrecord.h"
#include "readers/formats/tokens/megatron.h"
#include "readers/formats/tokens/megatron_windows.h"
#include "readers/formats/tokens/tokens.h"

namespace ringfeed {
namespace {

using namespace std::string_view_literals;

bool IsText(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

// Whether they begin with a line of text. Then no format fits that starts with a length of eight
// bytes: it would be too large.
bool HasLine(std::span<const std::byte> bytes) {
  constexpr std::size_t kLengthBytes = 8;
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return head.size() >= kLengthBytes && head.find('\n') != std::string_view::npos && IsText(head) &&
         FindStranger(bytes) == nullptr;
}

// Records start with a length that is small for its eight bytes, and most hold messages, which
// start with a tag of field 1.
std::string OfLengths(std::string_view head) {
  constexpr std::size_t kTfRecordBegin = TfRecordLayout::kHeaderBytes;
  constexpr std::size_t kOfRecordBegin = 8;
  constexpr char kTag = 0x0a;
  if (head.size() <= kTfRecordBegin) return {};
  const auto length = LoadLe<std::uint64_t>(reinterpret_cast<const std::byte*>(head.data()));
  if (length == 0 || length > (std::uint64_t{1} << 31)) return {};
  const std::string what = "its first bytes could be a length of " + std::to_string(length);
  if (head[kTfRecordBegin] == kTag) {
    return "nearest is tfrecord: " + what + ", whose checksum does not match";
  }
  if (head[kOfRecordBegin] == kTag) {
    return "nearest is ofrecord: " + what + ", after which stands no OFRecord";
  }
  return {};
}

/// What a file of no known format resembles most, by its first bytes, in a sentence for an error: a
/// known format whose first record is damaged, or text. Empty if it resembles nothing. Thread safe.
std::string Resemblance(std::span<const std::byte> bytes) {
  constexpr std::size_t kTarMagicAt = 257;
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (head.empty()) return "the file is empty: any format that is named gives no records";
  if (head.substr(std::min(kTarMagicAt, head.size())).starts_with("ustar")) {
    return "nearest is tar: its magic word is in place, the first header's checksum is wrong";
  }
  const std::size_t magic = head.find("\x04\x03\x02\x01"sv);
  if (magic != std::string_view::npos) {
    return "nearest is recordio: its magic number stands at byte " + std::to_string(magic);
  }
  if (head.find_first_not_of('\0') == std::string_view::npos) return "its first bytes are zeros";
  if (std::string lengths = OfLengths(head); !lengths.empty()) return lengths;
  if (IsText(head)) return "nearest is lines: it is text";
  return {};
}

constexpr std::string_view kFormatsPage = "docs/FORMATS.md";
// The options that name a format.
constexpr std::string_view kFormatOption =
    "(format=, in C++ OpenOptions::format, for the command --format)";

// Formats of one name: some take parameters after a colon.
struct Family {
  std::string_view name;
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

// Formats whose parameters ParseX reads into what XFormat takes.
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

// The type of what is written, or the windows that are read.
FormatResult MegatronFamily(std::string_view text) {
  if (text.find('=') == std::string_view::npos) {
    return With<MegatronElement, ParseMegatronElement, MegatronFormat>(text);
  }
  return With<MegatronWindows, ParseMegatronWindows, MegatronWindowsFormat>(text);
}

constexpr Family kFamilies[] = {
    {"tfrecord", Plain<TfRecordFormat>},
    {"recordio", With<RecordIoOptions, ParseRecordIoOptions, RecordIoFormat>},
    {"ofrecord", Plain<OfRecordFormat>},
    {"rows", With<FixedRowsLayout, ParseFixedRowsLayout, FixedRowsFormat>},
    {"tar", With<TarOptions, ParseTarOptions, TarFormat>},
    {"npy", With<NpyRow, ParseNpyRow, NpyFormat>},
    {"tokens", With<TokensOptions, ParseTokensOptions, TokensFormat>},
    {"megatron", MegatronFamily},
    {"mds", With<SampleLayout, ParseMdsLayout, MdsFormat>},
    {"litdata", With<TokensOptions, ParseLitDataOptions, LitDataFormat>},
    {"arrayrecord", Plain<ArrayRecordFormat>},
    {"lines", Plain<LinesFormat>},
    {"jsonl", Plain<JsonLinesFormat>},
    {"csv", Csv<','>},
    {"tsv", Csv<'\t'>},
    {"raw", Plain<RawFileFormat>},
};

std::string UnknownFormat(std::string_view name) {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  const std::size_t more = std::min(name.find_first_of(":+"), name.size());
  const std::string_view family = name.substr(0, more);
  const bool known_family = std::find(names.begin(), names.end(), family) != names.end();
  const std::string meant =
      known_family
          ? DidYouMean(name.substr(more), std::array<std::string, 3>{"+gzip", "+zlib", "+zstd"})
          : DidYouMean(family, names);
  return "format \"" + std::string(name) + "\" is unknown" + meant +
         "\nthere are: " + KnownFormats();
}

// The message for a file of a known kind that no format reads.
std::string StrangersWords(const Stranger& stranger) {
  const std::string name(stranger.name);
  if (stranger.kind == Stranger::Kind::kWhole) {
    return "the file begins as " + name + " does\nname the format \"raw\" " +
           std::string(kFormatOption) + ": each file is one record";
  }
  return "the file begins as " + name + " does, which is not read here\n" +
         std::string(stranger.way) + "\nif it only begins so, name its format " +
         std::string(kFormatOption) + ": " + std::string(kFormatsPage);
}

// The three formats that a file most likely has, the one that `like` names first.
std::string LikelyFormats(std::string_view head, std::string_view like) {
  constexpr std::string_view kNearest = "nearest is ";
  std::vector<std::string> likely;
  if (like.starts_with(kNearest)) {
    like.remove_prefix(kNearest.size());
    likely.emplace_back(like.substr(0, like.find(':')));
  }
  const auto others = IsText(head) ? std::array{"lines", "csv:header", "jsonl"}
                                   : std::array{"rows:BYTES", "tokens:u2", "raw"};
  std::copy_if(others.begin(), others.end(), std::back_inserter(likely),
               [&](std::string_view other) { return likely.empty() || other != likely.front(); });
  return "\"" + likely[0] + "\", \"" + likely[1] + "\" or \"" + likely[2] + "\"";
}

// Formats that a name or first bytes can tell, in the order in which they are tried.
const std::vector<std::shared_ptr<const Format>>& Detectable() {
  static const std::vector<std::shared_ptr<const Format>> kFormats = {
      TfRecordFormat(),    RecordIoFormat({}),
      TarFormat({}),       NpyFormat({}),
      TokensFormat({}),    MegatronFormat({}),
      MdsFormat(),         LitDataFormat({}),
      ArrayRecordFormat(), OfRecordFormat(),
      JsonLinesFormat(),   LinesFormat(),
      CsvFormat({}),       CsvFormat({.delimiter = '\t'})};
  return kFormats;
}

FormatResult Failure(StatusCode code, std::string message) {
  return {Status(code, std::move(message)), nullptr};
}

std::shared_ptr<const Format> FindByBytes(std::span<const std::byte> head) {
  if (auto registered = FindRegisteredByBytes(head)) return registered;
  const auto& formats = Detectable();
  const auto found = std::find_if(formats.begin(), formats.end(),
                                  [&](const auto& format) { return format->MatchesBytes(head); });
  return found == formats.end() ? nullptr : *found;
}

std::shared_ptr<const Format> FindByName(std::string_view file_name) {
  TakeCompressedEnding(&file_name);
  if (auto registered = FindRegisteredByName(file_name)) return registered;
  const auto& formats = Detectable();
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const auto& format) {
    return format->MatchesName(file_name);
  });
  return found == formats.end() ? nullptr : *found;
}

// Data compressed in a way that is not read are no text, even if the caller says so.
Status RefuseCompressed(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const Stranger* const stranger = FindStranger(head);
  if (stranger == nullptr || stranger->kind != Stranger::Kind::kCompression || IsText(text)) {
    return {};
  }
  return Status(StatusCode::kUnsupported, "the file begins as " + std::string(stranger->name) +
                                              " does, which is not read here\n" +
                                              std::string(stranger->way));
}

// If the first line is an object of JSON, that says less than a name. Many kinds of files have
// names like part-00000.
bool IsBelievedBefore(const Format& by_name, const Format& by_bytes) {
  return by_bytes.name() == JsonLinesFormat()->name() && by_name.name() != OfRecordFormat()->name();
}

// By the first bytes, else by the name; null if neither tells.
std::shared_ptr<const Format> FindByBytesOrName(std::string_view file_name,
                                                std::span<const std::byte> head) {
  auto by_bytes = FindByBytes(head);
  auto by_name = FindByName(file_name);
  const bool name_counts =
      by_bytes == nullptr || (by_name != nullptr && IsBelievedBefore(*by_name, *by_bytes));
  return name_counts ? by_name : by_bytes;
}

FormatResult DetectContent(std::string_view file_name, std::span<const std::byte> head) {
  auto found = FindByBytesOrName(file_name, head);
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const Stranger* const stranger = FindStranger(head);
  const Stranger* const ending = FindStrangeEnding(file_name);
  // A file named as text need not be text.
  if (stranger != nullptr && ending == nullptr &&
      (found == nullptr || (IsTextFormat(found->name()) && !IsText(text)))) {
    return Failure(StatusCode::kInvalidArgument, StrangersWords(*stranger));
  }
  if (found != nullptr) return {Status(), std::move(found)};
  if (ending != nullptr) {
    return Failure(StatusCode::kUnsupported, "by its name it is " + std::string(ending->name) +
                                                 ", which is not read here\n" +
                                                 std::string(ending->way));
  }
  TextStart start = LookAtTextStart(head, true);
  if (!start.other.empty()) return Failure(StatusCode::kUnsupported, std::move(start.other));
  const std::string like = Resemblance(head);
  return Failure(StatusCode::kInvalidArgument,
                 "the format of " + std::string(file_name) +
                     " was not recognised by its name or its first bytes" +
                     (like.empty() ? "" : " (" + like + ")") + "\nname it " +
                     std::string(kFormatOption) + ": most likely " + LikelyFormats(text, like) +
                     "; all: " + std::string(kFormatsPage));
}

}  // namespace

std::uint64_t Format::Stripes(std::uint64_t file_bytes, std::uint64_t stripe_bytes) const {
  return file_bytes / stripe_bytes + (file_bytes % stripe_bytes != 0 ? 1 : 0);
}

std::size_t HeadBytesOf(std::span<const std::byte> head) {
  if (StartsAsMdsShard(head)) return std::max(kHeadBytes, MdsHeadBytes(head));
  return FirstBlockBytes(DetectCompression(head), head) + kHeadBytes;
}

std::vector<std::byte> HeadOfContent(Compression compression, std::span<const std::byte> head,
                                     std::size_t most, Status* failure) {
  DecompressedReader content(compression, [&head](std::span<std::byte> buffer, std::size_t* got) {
    *got = std::min(buffer.size(), head.size());
    std::copy_n(head.begin(), *got, buffer.begin());
    head = head.subspan(*got);
    return Status();
  });
  std::vector<std::byte> found(most);
  std::size_t filled = 0;
  std::size_t got = 1;
  while (got > 0 && filled < found.size()) {
    *failure = content.Read(std::span(found).subspan(filled), &got);
    filled += got;
  }
  found.resize(filled);
  return found;
}

std::string KnownFormats() {
  std::string known;
  for (const Family& family : kFamilies) {
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  return known +
         "; some take more (rows:BYTES), most +gzip, +zlib, +zstd, +bzip2, +xz, +lz4 or +brotli: " +
         std::string(kFormatsPage);
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
  if (auto registered = FindRegistered(name)) {
    return {Status(), std::move(registered), compression};
  }
  return Failure(StatusCode::kInvalidArgument, UnknownFormat(name));
}

Status CheckPairs(std::string_view asked, std::span<const std::string> names) {
  if (asked.empty()) return {};
  const FormatResult found = FindFormat(asked);
  if (!found.status.ok()) return found.status;
  std::unordered_map<std::string, std::string> named;  // by the file that has the data
  for (const std::string& name : names) {
    const std::vector<std::string> files = found.format->FilesOf(name);
    if (files.size() == 1) break;
    const std::string& first = named.emplace(files.back(), name).first->second;
    if (first == name) continue;
    return Status(StatusCode::kInvalidArgument,
                  "\"" + first + "\" and \"" + name +
                      "\" are the two files of one data set, which would be read twice: name one "
                      "of them, as \"DIR/*.idx\" does");
  }
  return {};
}

FormatResult DetectFormat(std::string_view file_name, std::span<const std::byte> head) {
  const bool plain = FindByBytes(head) != nullptr;
  const Compression compression = plain ? Compression::kNone : DetectCompression(head, file_name);
  if (compression == Compression::kNone) return DetectContent(file_name, head);
  Status failure;
  const std::vector<std::byte> content = HeadOfContent(compression, head, kHeadBytes, &failure);
  FormatResult found = DetectContent(file_name, content);
  const bool is_cut = failure.code() == StatusCode::kTruncated && head.size() >= kHeadBytes;
  if (!found.status.ok() && content.empty() && !failure.ok() && !is_cut) {
    return {std::move(failure), nullptr};  // that is why the format is unknown
  }
  found.compression = compression;
  return found;
}

bool IsFormatTold(std::string_view asked, std::string_view file_name,
                  std::span<const std::byte> head) {
  // So many bytes tell a compressed stream from others.
  constexpr std::size_t kMagicBytes = 4;
  if (head.empty()) return false;
  std::string_view stem = file_name;
  const bool named = TakeCompressedEnding(&stem) != Compression::kNone;
  if (!asked.empty()) {
    const FormatResult found = FindFormat(asked);
    const bool is_fixed = !found.status.ok() || found.compression != Compression::kNone ||
                          !found.format->decompresses() || found.format->MatchesBytes(head);
    if (is_fixed || (named && head.size() < kMagicBytes)) return is_fixed;
    return DetectCompression(head, file_name) != Compression::kNone ||
           (!named && !MayBeCompressed(head));
  }
  if (head.size() < kMagicBytes) return false;
  if (FindByBytes(head) != nullptr) return true;
  const Compression compression = DetectCompression(head, file_name);
  const bool by_name = FindByName(file_name) != nullptr;
  if (compression == Compression::kNone) {
    return by_name && !named && !MayBeCompressed(head) && HasLine(head);
  }
  Status failure;
  const std::vector<std::byte> content = HeadOfContent(compression, head, kHeadBytes, &failure);
  return FindByBytes(content) != nullptr || (by_name && HasLine(content));
}

FormatResult ChooseFormat(std::string_view asked, std::string_view file_name,
                          std::span<const std::byte> head) {
  FormatResult found = asked.empty() ? DetectFormat(file_name, head) : FindFormat(asked);
  if (!found.status.ok()) return found;
  const bool open = !asked.empty() && found.compression == Compression::kNone;
  if (open && found.format->decompresses() && !found.format->MatchesBytes(head)) {
    found.compression = DetectCompression(head, file_name);
  }
  if (open && found.compression == Compression::kNone && IsTextFormat(found.format->name())) {
    Status refused = RefuseCompressed(head);
    if (!refused.ok()) return {std::move(refused), nullptr};
  }
  CompanionResult companion = found.format->FindCompanion(std::string(file_name));
  if (!companion.status.ok()) return {std::move(companion.status), nullptr};
  if (!companion.data_file.empty()) {
    found.format = std::move(companion.format);
    found.data_file = std::move(companion.data_file);
    found.source = std::move(companion.source);
  }
  return found;
}

RecordWriterResult Format::NewWriter(std::unique_ptr<OutputFile>) const {
  return {Status(StatusCode::kUnsupported,
                 "format \"" + std::string(name()) + "\" can be read, not written"),
          nullptr};
}

RowEncoderResult Format::NewRowEncoder(const std::vector<FieldSpec>& /*fields*/) const {
  return {Status(StatusCode::kUnsupported,
                 "format \"" + std::string(name()) +
                     "\" takes no rows: they are written as tfrecord, recordio, tar or mds"),
          nullptr};
}

RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format,
                                    const OutputRules& rules) {
  FormatResult found = FindFormat(format);
  if (!found.status.ok()) return {std::move(found.status), nullptr};
  if (found.compression != Compression::kNone && !IsWritten(found.compression)) {
    return {Status(StatusCode::kUnsupported,
                   "format \"" + format + "\": " + CompressionName(found.compression) +
                       " is read, not written: take +gzip, +zlib or +zstd"),
            nullptr};
  }
  if (found.compression != Compression::kNone && !found.format->writes_in_order()) {
    return {Status(StatusCode::kUnsupported,
                   "format \"" + format +
                       "\": its header is written last, which a compressed file "
                       "does not allow; compress the file afterwards"),
            nullptr};
  }
  if (IsRemote(path) && !found.format->writes_in_order()) {
    return {Status(StatusCode::kUnsupported,
                   "format \"" + format +
                       "\": its header is written last, which a store does not allow; write to a "
                       "disk, and upload that"),
            nullptr};
  }
  auto file = std::make_unique<OutputFile>(path, found.compression);
  if (rules.replaces_link) file->ReplaceLink();
  if (rules.keeps_object) file->KeepObject();
  Status status = file->Open();
  if (!status.ok()) return {std::move(status), nullptr};
  return found.format->NewWriter(std::move(file));
}

RecordWriterResult OpenRecordWriter(const std::string& path, const std::string& format) {
  return OpenRecordWriter(path, format, OutputRules());
}

RecordWriterResult OpenRecordStreamWriter(int descriptor, const std::string& name,
                                          const std::string& format) {
  FormatResult found = FindFormat(format);
  if (!found.status.ok()) return {std::move(found.status), nullptr};
  if (!found.format->writes_in_order()) {
    return {Status(StatusCode::kUnsupported,
                   "format \"" + format +
                       "\": its header is written last, which a stream does not allow; write a "
                       "file"),
            nullptr};
  }
  return found.format->NewWriter(std::make_unique<OutputFile>(descriptor, name, found.compression));
}

void AppendHoles(std::uint32_t records, FrameOutput* output) {
  constexpr std::uint32_t kMostListed = 1024;
  output->records.resize(output->records.size() + std::min(records, kMostListed));
  output->rest_lost = records > kMostListed;
}

Status UnitFramer::Lose(const FrameInput& unit, std::uint32_t records, std::string_view problem,
                        FrameOutput* output) const {
  const std::string reason(problem.empty() ? "it has another number of records than the index says"
                                           : problem);
  if (options_.on_damage == OnDamage::kFail) {
    return Status(StatusCode::kDamaged, reason,
                  {options_.file, static_cast<std::int64_t>(unit.offset), -1});
  }
  AppendHoles(records, output);
  output->damage.push_back({options_.file, unit.offset, unit.offset + unit.bytes.size(), reason});
  return {};
}

}  // namespace ringfeed
