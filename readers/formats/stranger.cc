#include "readers/formats/stranger.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kTables =
    "hand it over in Python, ringfeed.table(pyarrow.dataset.dataset(PATH, format=…)), or write its "
    "rows as JSON lines, which the format jsonl reads";
constexpr std::string_view kParquet =
    "ringfeed.parquet reads it in Python, OpenParquet (ringfeed::arrow) in C++, and, if built with "
    "that, `ringfeed feed`, cat, info, verify and convert, which writes its rows as TFRecord";
constexpr std::string_view kArrow =
    "ringfeed.arrow_ipc reads it in Python, OpenArrowIpc (ringfeed::arrow) in C++, and, if built "
    "with that, `ringfeed feed`, cat, info, verify and convert, which writes its rows as TFRecord";
constexpr std::string_view kRows =
    "write its rows as JSON lines, which the format jsonl reads (pandas: "
    "to_json(orient=\"records\", lines=True))";
constexpr std::string_view kArrays =
    "write its arrays as .npy files (numpy.save), which are read as they are";
constexpr std::string_view kWeights =
    "it holds weights, not records: if its arrays are data, write them as .npy files (numpy.save)";
constexpr std::string_view kTorch =
    "load it (torch.load), and write its arrays as .npy files (numpy.save), or its samples as "
    "TFRecord";
constexpr std::string_view kRecords =
    "read it with its own library and write its records as TFRecord";
constexpr std::string_view kUnpack =
    "unpack it: the .npy files of an .npz are read as they are, other files as what they hold";
constexpr std::string_view kDecompress =
    "decompress it (snzip -d), or compress with gzip or zstd instead";

/// The first bytes of a kind of file, from its own documents, and where they stand.
struct Mark {
  std::string_view magic;
  Stranger stranger;
  std::size_t at = 0;
};
constexpr Mark kMarks[] = {
    {"PAR1"sv, {"Parquet", kParquet}},
    {"PARE"sv, {"Parquet with an encrypted footer", kTables}},
    {"ARROW1"sv, {"Arrow IPC (Feather)", kArrow}},
    {"\xff\xff\xff\xff"sv, {"an Arrow IPC stream", kArrow}},
    {"FEA1"sv, {"Feather of version 1", kRows}},
    {"ORC"sv, {"ORC", kTables}},
    {"Obj\x01"sv, {"Avro", kRows}},
    {"SQLite format 3"sv, {"SQLite", kRows}},
    {"^ONEREC$"sv, {"OneFlow's OneRec", kRecords}},
    {"\x0a\x23\xd7\xce"sv, {"MXNet's RecordIO", kRecords}},
    {"\xde\xc0\xef\xbe\x01\0\0\0"sv, {"LMDB", kRecords}, 16},
    {"\x89HDF\r\n\x1a\n"sv, {"HDF5", kArrays}},
    {"\x89HDF\r\n\x1a\n"sv, {"HDF5 (MATLAB 7.3)", kArrays}, 512},
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv,
     {"PyTorch's .pt (before 1.6)", kTorch}},
    {"\x80\x04\x95"sv, {"a pickle", kArrays}},
    {"\x80\x05\x95"sv, {"a pickle", kArrays}},
    {"GGUF"sv, {"GGUF", kWeights}},
    {"TFL3"sv, {"TensorFlow Lite", kWeights}, 4},
    {"TNTIDX\0\0"sv,
     {"fairseq's index",
      "make it anew by fairseq-preprocess --dataset-impl mmap: the format megatron reads that"}},
    {"PK\x03\x04"sv, {"zip", kUnpack}},
    {"PK\x05\x06"sv, {"an empty zip", kUnpack}},
    {"7z\xbc\xaf\x27\x1c"sv, {"7z", kUnpack}},
    {"Rar!"sv, {"RAR", kUnpack}},
    {"\xff\xd8\xff"sv, {"a JPEG image", {}, Stranger::Kind::kWhole}},
    {"\x89PNG"sv, {"a PNG image", {}, Stranger::Kind::kWhole}},
    {"GIF8"sv, {"a GIF image", {}, Stranger::Kind::kWhole}},
    {"II*\0"sv, {"a TIFF image", {}, Stranger::Kind::kWhole}},
    {"MM\0*"sv, {"a TIFF image", {}, Stranger::Kind::kWhole}},
    {"WEBP"sv, {"a WebP image", {}, Stranger::Kind::kWhole}, 8},
    {"WAVE"sv, {"WAV", {}, Stranger::Kind::kWhole}, 8},
    {"AVI "sv, {"AVI", {}, Stranger::Kind::kWhole}, 8},
    {"ftyp"sv, {"MP4 (or MOV, HEIC)", {}, Stranger::Kind::kWhole}, 4},
    {"\x1a\x45\xdf\xa3"sv, {"Matroska (or WebM)", {}, Stranger::Kind::kWhole}},
    {"fLaC"sv, {"FLAC", {}, Stranger::Kind::kWhole}},
    {"OggS"sv, {"Ogg", {}, Stranger::Kind::kWhole}},
    {"ID3"sv, {"MP3", {}, Stranger::Kind::kWhole}},
    {"\xff\x06\x00\x00sNaPpY"sv, {"a snappy stream", kDecompress, Stranger::Kind::kCompression}},
    {"snappy\0"sv, {"a snappy stream", kDecompress, Stranger::Kind::kCompression}},
};

constexpr Stranger kBitmap = {"a BMP image", {}, Stranger::Kind::kWhole};
constexpr Stranger kSafetensors = {"safetensors", kWeights};
constexpr Stranger kTorchZip = {"PyTorch's .pt", kTorch};
constexpr Stranger kNpz = {"NumPy's .npz", kUnpack};

constexpr std::string_view kNameFile =
    "name the file that it is of, without this ending: what it needs is found beside it";

constexpr Mark kEndings[] = {
    {".tar.index"sv, {"wids' index of a tar file, a pickle", kNameFile}},
    {".idx"sv, {"an index of other data (Energon's, DALI's, MXNet's, …)", kNameFile}},
    {".ldb"sv, {"LevelDB's table", kRecords}},
    {".lance"sv,
     {"Lance", "hand its folder over in Python: ringfeed.table(lance.dataset(PATH).to_table())"}}};

constexpr std::string_view kCurrentRows =
    "its files hold deleted and outdated rows, too: let its own library name the files, or hand "
    "its rows over in Python, by ringfeed.table";

/// A name in a folder that tells what the folder is.
constexpr Mark kFolders[] = {
    {"_delta_log"sv, {"Delta Lake", kCurrentRows}},
    {".hoodie"sv, {"Hudi", kCurrentRows}},
    {"metadata/version-hint.text"sv, {"Iceberg", kCurrentRows}},
    {"_versions"sv,
     {"Lance", "hand it over in Python: ringfeed.table(lance.dataset(PATH).to_table())"}},
    {"zarr.json"sv, {"Zarr", kArrays}},
    {".zarray"sv, {"Zarr", kArrays}},
    {".zgroup"sv, {"Zarr", kArrays}}};

// The name of an archive's first file.
std::string_view FirstName(std::string_view zip) {
  constexpr std::size_t kLengthAt = 26;
  constexpr std::size_t kNameAt = 30;
  if (zip.size() < kNameAt) return {};
  const auto* const length = reinterpret_cast<const std::byte*>(zip.data() + kLengthAt);
  return zip.substr(kNameAt, LoadLe<std::uint16_t>(length));
}

// Its header is JSON after a length.
bool IsSafetensors(std::string_view head) {
  constexpr std::size_t kLengthBytes = 8;
  constexpr std::uint64_t kMostHeader = 100'000'000;
  if (head.size() < kLengthBytes + 2 || head.substr(kLengthBytes, 2) != "{\"") return false;
  return LoadLe<std::uint64_t>(reinterpret_cast<const std::byte*>(head.data())) < kMostHeader;
}

// After its two letters and its size come four zeros, the place of the pixels, and the length of a
// header, which takes one byte.
bool IsBitmap(std::string_view head) {
  constexpr std::size_t kLengthEnd = 18;
  return head.size() >= kLengthEnd && head.starts_with("BM") && head.substr(6, 4) == "\0\0\0\0"sv &&
         head.substr(15, 3) == "\0\0\0"sv;
}

}  // namespace

const Stranger* FindStranger(std::span<const std::byte> bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (IsSafetensors(head)) return &kSafetensors;
  if (IsBitmap(head)) return &kBitmap;
  const bool has_zero = head.find('\0') != std::string_view::npos;
  const auto* const found =
      std::find_if(std::begin(kMarks), std::end(kMarks), [&](const Mark& mark) {
        // A line of text may have a word in the middle.
        if (mark.at > 0 && (head.size() < mark.at || !has_zero)) return false;
        return head.substr(mark.at).starts_with(mark.magic);
      });
  if (found == std::end(kMarks)) return nullptr;
  if (found->stranger.name != "zip") return &found->stranger;
  const std::string_view first = FirstName(head);
  if (first.ends_with("/data.pkl")) return &kTorchZip;
  return first.ends_with(".npy") ? &kNpz : &found->stranger;
}

const Stranger* FindStrangeEnding(std::string_view file_name) {
  const auto* const found =
      std::find_if(std::begin(kEndings), std::end(kEndings),
                   [&](const Mark& ending) { return file_name.ends_with(ending.magic); });
  return found == std::end(kEndings) ? nullptr : &found->stranger;
}

std::string StrangeFolder(const std::string& folder) {
  for (const auto& [name, stranger, at] : kFolders) {
    std::error_code missing;
    if (!std::filesystem::exists(std::filesystem::path(folder) / name, missing)) continue;
    return "the folder is a data set of " + std::string(stranger.name) +
           ", which is not read here\n" + std::string(stranger.way);
  }
  return {};
}

}  // namespace ringfeed
