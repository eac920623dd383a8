#include <algorithm>
#include <charconv>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "io/file_mapping.h"
#include "readers/formats/tfrecord/tfrecord.h"
#include "readers/index/foreign_index.h"
#include "readers/index/index_builder.h"

namespace ringfeed {
namespace {

// How many lines pass between checks for a request to stop.
constexpr std::uint64_t kLinesPerLook = 1024;

/// An offset and a size.
struct Line {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// What the lines say.
struct Lines {
  IndexBuilder builder;
  std::vector<IndexDamage> too_long;  ///< the first ones
  std::uint64_t damaged = 0;          ///< all of them
  std::uint64_t first_unlisted = 0;   ///< the first one that is not in too_long begins here

  void Add(const Line& place, std::uint64_t number, const IndexedFile& file);
};

void Lines::Add(const Line& place, std::uint64_t number, const IndexedFile& file) {
  const std::uint64_t end = place.offset + place.bytes;
  const std::uint64_t length = place.bytes - TfRecordLayout::kFrameBytes;
  const bool is_too_long = length > file.max_record_bytes;
  builder.Add({place.offset, end, 1, is_too_long});
  if (!is_too_long) return;
  if (too_long.size() < IndexBuilder::kMostRanges) {
    too_long.push_back({place.offset, end, number,
                        "a record of " + std::to_string(length) +
                            " bytes is longer than max_record_bytes (" +
                            std::to_string(file.max_record_bytes) + ")"});
  } else if (damaged == too_long.size()) {
    first_unlisted = place.offset;
  }
  ++damaged;
}

bool TakeNumber(std::string_view* text, std::uint64_t* value) {
  text->remove_prefix(std::min(text->find_first_not_of(" \t"), text->size()));
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  text->remove_prefix(static_cast<std::size_t>(end - text->data()));
  return error == std::errc();
}

// Takes one line from the front of `text`.
bool TakeLine(std::string_view* text, Line* place) {
  if (!TakeNumber(text, &place->offset) || !TakeNumber(text, &place->bytes)) return false;
  text->remove_prefix(std::min(text->find_first_not_of(" \t\r"), text->size()));
  if (text->empty()) return true;
  if (text->front() != '\n') return false;
  text->remove_prefix(1);
  return true;
}

// Compares a line with the header in the file.
Status CheckHeader(const Line& place, HeaderReader* headers) {
  constexpr std::size_t kHeader = TfRecordLayout::kHeaderBytes;
  std::span<const std::byte> header;
  Status status = headers->Read(place.offset, kHeader, place.bytes, &header);
  if (!status.ok()) return status;
  const bool same =
      header.size() == kHeader && TfRecordHeaderMatches(header) &&
      LoadLe<std::uint64_t>(header.data()) == place.bytes - TfRecordLayout::kFrameBytes;
  if (same) return {};
  return NotBelieved("no record of " + std::to_string(place.bytes) + " bytes stands at " +
                     std::to_string(place.offset));
}

Status ReadLines(std::string_view text, const IndexedFile& file, const std::stop_token& stop,
                 Lines* read) {
  HeaderReader headers(file.name);
  std::uint64_t lines = 0;
  std::uint64_t end = 0;
  while (!text.empty()) {
    Line place;
    if (!TakeLine(&text, &place)) {
      return NotBelieved("line " + std::to_string(lines + 1) + " is no offset and size");
    }
    const bool fits = place.offset == end && place.bytes >= TfRecordLayout::kFrameBytes &&
                      place.bytes <= file.bytes - end;
    if (!fits) {
      return NotBelieved("line " + std::to_string(lines + 1) + " does not begin where the record " +
                         "before it ends, or ends beyond the file");
    }
    end += place.bytes;
    read->Add(place, lines, file);
    Status status = CheckHeader(place, &headers);
    if (!status.ok()) return status;
    if (++lines % kLinesPerLook == 0 && stop.stop_requested()) {
      return Status(StatusCode::kCancelled, "reading the index was broken off");
    }
  }
  if (end == file.bytes) return {};
  return NotBelieved("it ends at " + std::to_string(end) + " of the file's " +
                     std::to_string(file.bytes) + " bytes");
}

}  // namespace

Status ReadDaliIndex(const std::string& path, const IndexedFile& file, IndexImage* image,
                     const std::stop_token& stop) {
  std::shared_ptr<const FileMapping> mapping;
  Status status = MapForeignIndex(path, &mapping);
  if (!status.ok()) return status;
  const std::span<const std::byte> bytes = mapping->bytes();
  Lines lines;
  status =
      ReadLines({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file, stop, &lines);
  if (!status.ok()) return status;
  *image = lines.builder.Finish(file.bytes);
  IndexHeader& header = image->header;
  header.max_record_bytes = file.max_record_bytes;
  header.damaged = lines.damaged;
  header.lost_ranges = lines.damaged - lines.too_long.size();
  header.first_lost = lines.first_unlisted;
  image->damage = std::move(lines.too_long);
  return {};
}

}  // namespace ringfeed
