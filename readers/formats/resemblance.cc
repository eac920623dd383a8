#include "readers/formats/resemblance.h"

#include <algorithm>
#include <string_view>

#include "base/little_endian.h"
#include "readers/formats/tfrecord/tfrecord.h"

namespace ringfeed {
namespace {

using namespace std::string_view_literals;

/// First bytes of files that people have beside their records, from the formats' own documents.
struct Stranger {
  std::string_view magic;
  std::string_view name;
};
constexpr Stranger kStrangers[] = {
    {"PAR1"sv, "Parquet"},
    {"ARROW1"sv, "Arrow IPC (Feather)"},
    {"\xff\xff\xff\xff"sv, "an Arrow IPC stream"},
    {"^ONEREC$"sv, "OneFlow's OneRec"},
    {"\x0a\x23\xd7\xce"sv, "MXNet's RecordIO"},
    {"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f"sv, "Riegeli (ArrayRecord)"},
    {"PK\x03\x04"sv, "zip (also .npz and PyTorch's .pt)"},
    {"\x89HDF\r\n\x1a\n"sv, "HDF5"},
    {"ORC"sv, "ORC"},
    {"Obj\x01"sv, "Avro"},
    {"SQLite format 3"sv, "SQLite"},
    {"\xff\xd8\xff"sv, "a JPEG image (read as it is by the format raw)"},
    {"\x89PNG"sv, "a PNG image (read as it is by the format raw)"},
    {"\xfd\x37zXZ"sv, "xz"},
    {"BZh"sv, "bzip2"},
    {"\x04\x22\x4d\x18"sv, "lz4"},
    {"\xff\x06\x00\x00sNaPpY"sv, "a snappy stream"},
    {"snappy\0"sv, "a snappy stream"},
    {"\x80\x04\x95"sv, "a pickle"},
};

bool IsText(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || c == '\n' || c == '\r' || c == '\t';
  });
}

// Records start with a length that is small beside its eight bytes, and most hold messages, which
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
    return "nearest is ofrecord: " + what + ", behind which stands no OFRecord";
  }
  return {};
}

}  // namespace

std::string Resemblance(std::span<const std::byte> bytes) {
  constexpr std::size_t kTarMagicAt = 257;
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (head.empty()) return "the file is empty: any format that is named gives no records";
  for (const Stranger& stranger : kStrangers) {
    if (head.starts_with(stranger.magic)) {
      return "it begins as " + std::string(stranger.name) + " does, which is not read here";
    }
  }
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

}  // namespace ringfeed
