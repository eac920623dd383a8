#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "io/data_file.h"
#include "io/file_mapping.h"
#include "readers/formats/tfrecord/tfrecord.h"
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

Status Refused(const std::string& why) { return Status(StatusCode::kDamaged, why); }

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

/// Compares lines with the headers in the file, in their order.
class HeaderCheck {
 public:
  explicit HeaderCheck(const IndexedFile& file)
      : descriptor_(open(file.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) status_ = StatusFromErrno(errno, "open");
  }
  ~HeaderCheck() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  HeaderCheck(const HeaderCheck&) = delete;
  HeaderCheck& operator=(const HeaderCheck&) = delete;

  Status Check(const Line& place) {
    std::span<const std::byte> header;
    if (!status_.ok()) return status_;
    Status status = Read(place, &header);
    if (!status.ok()) return status;
    const bool same =
        header.size() == TfRecordLayout::kHeaderBytes && TfRecordHeaderMatches(header) &&
        LoadLe<std::uint64_t>(header.data()) == place.bytes - TfRecordLayout::kFrameBytes;
    if (same) return {};
    return Refused("no record of " + std::to_string(place.bytes) + " bytes stands at " +
                   std::to_string(place.offset));
  }

 private:
  // Headers that are close to each other are read together.
  static constexpr std::size_t kWindowBytes = std::size_t{64} << 10;
  static constexpr std::uint64_t kCloseBytes = std::uint64_t{8} << 10;

  Status Read(const Line& place, std::span<const std::byte>* header) {
    constexpr std::size_t kHeader = TfRecordLayout::kHeaderBytes;
    const bool inside = place.offset >= begin_ && place.offset + kHeader <= begin_ + window_.size();
    if (!inside) {
      window_.resize(place.bytes < kCloseBytes ? kWindowBytes : kHeader);
      std::size_t got = 0;
      Status status = ReadWhole(descriptor_, place.offset, window_, &got);
      if (!status.ok()) return status;
      window_.resize(got);
      begin_ = place.offset;
    }
    *header = std::span(window_).subspan(static_cast<std::size_t>(place.offset - begin_));
    *header = header->first(std::min(header->size(), kHeader));
    return {};
  }

  const int descriptor_;
  Status status_;
  std::vector<std::byte> window_;
  std::uint64_t begin_ = 0;
};

Status ReadLines(std::string_view text, const IndexedFile& file, const std::stop_token& stop,
                 Lines* read) {
  HeaderCheck headers(file);
  std::uint64_t lines = 0;
  std::uint64_t end = 0;
  while (!text.empty()) {
    Line place;
    if (!TakeLine(&text, &place)) {
      return Refused("line " + std::to_string(lines + 1) + " is no offset and size");
    }
    const bool fits = place.offset == end && place.bytes >= TfRecordLayout::kFrameBytes &&
                      place.bytes <= file.bytes - end;
    if (!fits) {
      return Refused("line " + std::to_string(lines + 1) + " does not begin where the record " +
                     "before it ends, or ends beyond the file");
    }
    end += place.bytes;
    read->Add(place, lines, file);
    Status status = headers.Check(place);
    if (!status.ok()) return status;
    if (++lines % kLinesPerLook == 0 && stop.stop_requested()) {
      return Status(StatusCode::kCancelled, "reading the index was broken off");
    }
  }
  if (end == file.bytes) return {};
  return Refused("it ends at " + std::to_string(end) + " of the file's " +
                 std::to_string(file.bytes) + " bytes");
}

}  // namespace

Status ReadDaliIndex(const std::string& path, const IndexedFile& file, IndexImage* image,
                     const std::stop_token& stop) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return StatusFromErrno(errno, "open");
  struct stat facts {};
  Status status;
  std::shared_ptr<const FileMapping> mapping;
  if (fstat(descriptor, &facts) != 0) {
    status = StatusFromErrno(errno, "examine");
  } else if (!S_ISREG(facts.st_mode) || facts.st_size == 0) {
    status = Refused("it is empty, or no file");
  } else {
    mapping = FileMapping::Open(descriptor, facts, &status);
  }
  close(descriptor);
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
