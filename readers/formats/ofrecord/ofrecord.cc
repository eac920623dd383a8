#include "readers/formats/ofrecord/ofrecord.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr unsigned kMostVarintBytes = 10;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// "part-0" or "part-00000", as OneFlow's reader looks for them and Spark writes them.
bool IsPart(std::string_view name) {
  constexpr std::string_view kPrefix = "part-";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) return false;
  const std::string_view number = name.substr(kPrefix.size());
  return std::all_of(number.begin(), number.end(), IsDigit);
}

// How many bytes of `head` from `at` are a varint; 0 where it does not end within the head, *broken
// where it cannot be one at all.
std::size_t ReadVarint(std::span<const std::byte> head, std::size_t at, std::uint64_t* value,
                       bool* broken) {
  *value = 0;
  for (unsigned i = 0; i < kMostVarintBytes; ++i) {
    if (at + i == head.size()) return 0;
    const auto byte = std::to_integer<std::uint64_t>(head[at + i]);
    *value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return i + 1;
  }
  *broken = true;
  return 0;
}

class OfRecord final : public Format {
 public:
  std::string_view name() const override { return "ofrecord"; }

  bool MatchesName(std::string_view file_name) const override {
    const std::string_view base = file_name.substr(file_name.rfind('/') + 1);
    return base.ends_with(".ofrecord") || IsPart(base);
  }
  bool MatchesBytes(std::span<const std::byte> head) const override;

  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewOfRecordFramer(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return NewOfRecordUnitFramer(options);
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), NewOfRecordWriter(std::move(file))};
  }
};

// A length that Protobuf allows, and entries that start with their key and end with the record; the
// same of the next record as far as the head shows it.
bool OfRecord::MatchesBytes(std::span<const std::byte> head) const {
  // Protobuf's own limit of a message.
  constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;
  // A TFRecord's header: where fewer bytes are there, that format could not be told yet.
  constexpr std::size_t kLeastHead = 12;
  if (head.size() < kLeastHead) return false;
  for (bool first = true; head.size() > OfRecordLayout::kLengthBytes; first = false) {
    const auto length = LoadLe<std::uint64_t>(head.data());
    if (length == 0 || length > kMostBytes) return false;
    head = head.subspan(OfRecordLayout::kLengthBytes);
    const std::size_t here = std::min<std::uint64_t>(length, head.size());
    if (!OfRecordEntriesChain(head.first(here), length)) return false;
    if (first) {
      std::uint64_t entry = 0;
      bool broken = false;
      const std::size_t varint = ReadVarint(head.first(here), 1, &entry, &broken);
      const std::size_t inside = 1 + varint;
      if (varint == 0 || inside >= here || head[inside] != OfRecordLayout::kEntryTag) return false;
    }
    head = head.subspan(here);
  }
  return true;
}

}  // namespace

bool OfRecordEntriesChain(std::span<const std::byte> head, std::uint64_t length) {
  std::uint64_t at = 0;
  while (at < length) {
    if (at >= head.size()) return true;
    if (head[static_cast<std::size_t>(at)] != OfRecordLayout::kEntryTag) return false;
    std::uint64_t entry = 0;
    bool broken = false;
    const std::size_t varint = ReadVarint(head, static_cast<std::size_t>(at) + 1, &entry, &broken);
    if (varint == 0) return !broken && head.size() < length;
    at += 1 + varint;
    if (entry > length - at) return false;
    at += entry;
  }
  return true;
}

std::shared_ptr<const Format> OfRecordFormat() {
  static const auto kFormat = std::make_shared<const OfRecord>();
  return kFormat;
}

}  // namespace ringfeed
