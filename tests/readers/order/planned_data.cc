#include "tests/readers/order/planned_data.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "readers/formats/format.h"
#include "tests/support/record_data.h"

namespace ringfeed {

namespace {

constexpr std::size_t kHeader = 8;      // length and checksum
constexpr std::size_t kRowPadding = 5;  // between fixed rows
constexpr std::size_t kChunkRecords = 7;
constexpr unsigned char kKeyBits = 0x5A;  // chunks are stored with every byte turned by it
constexpr std::byte kKey{kKeyBits};

void AppendNumber(std::uint32_t number, std::vector<std::byte>* bytes) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&number);
  bytes->insert(bytes->end(), begin, begin + sizeof(number));
}

std::uint32_t NumberAt(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

/// Units of one record after another: length, checksum, payload; in chunks turned by the key.
class RecordUnits final : public UnitFramer {
 public:
  RecordUnits(const FramerOptions& options, bool turned) : UnitFramer(options), turned_(turned) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    std::span<const std::byte> left = unit.bytes;
    for (std::uint32_t i = 0; i < records; ++i) {
      const bool has_header = left.size() >= kHeader;
      const std::size_t length = has_header ? NumberAt(left, 0) : 0;
      const bool whole = has_header && length <= left.size() - kHeader;
      const auto payload = whole ? left.subspan(kHeader, length) : std::span<const std::byte>();
      if (whole && Crc32c(payload) == NumberAt(left, 4)) {
        const std::byte* const data = turned_ ? Turn(payload, unit.memory) : payload.data();
        if (data == nullptr) return Status(StatusCode::kResourceExhausted, "no memory");
        output->records.push_back({data, length});
      } else {
        const auto at = static_cast<std::uint64_t>(left.data() - unit.bytes.data()) + unit.offset;
        if (options_.on_damage == OnDamage::kFail) {
          return Status(StatusCode::kDamaged, "checksum",
                        {options_.file, static_cast<std::int64_t>(at), -1});
        }
        output->records.emplace_back();
        output->damage.push_back({options_.file, at, at + kHeader + length, "checksum"});
      }
      if (whole) left = left.subspan(kHeader + length);
    }
    return {};
  }

 private:
  static const std::byte* Turn(std::span<const std::byte> payload, FrameMemory* memory) {
    std::byte* const data = memory->Allocate(payload.size());
    if (data == nullptr) return nullptr;
    // (No iterators, no std::byte: this is most of a test, and is not optimised.)
    const auto* from = reinterpret_cast<const unsigned char*>(payload.data());
    auto* to = reinterpret_cast<unsigned char*>(data);
    for (std::size_t i = 0, end = payload.size(); i < end; ++i) to[i] = from[i] ^ kKeyBits;
    return data;
  }

  const bool turned_;
};

class TestFormat final : public Format {
 public:
  explicit TestFormat(PlannedFormat format) : format_(format) {}
  std::string_view name() const override { return "of a test"; }
  bool MatchesName(std::string_view) const override { return false; }
  bool MatchesBytes(std::span<const std::byte>) const override { return false; }
  std::unique_ptr<Framer> NewFramer(const FramerOptions&) const override { return nullptr; }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    if (format_ == PlannedFormat::kRows) return nullptr;  // nobody needs one
    return std::make_unique<RecordUnits>(options, format_ == PlannedFormat::kChunks);
  }

 private:
  const PlannedFormat format_;
};

class ListedUnits final : public RecordIndex {
 public:
  ListedUnits(std::vector<RecordUnit> units, std::uint64_t records, std::optional<FixedUnits> fixed)
      : units_(std::move(units)), records_(records), fixed_(fixed) {}
  std::uint64_t records() const override { return records_; }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override {
    for (std::size_t i = 0; i < records.size(); ++i) {
      const auto behind = std::upper_bound(
          units_.begin(), units_.end(), records[i],
          [](std::uint64_t record, const RecordUnit& unit) { return record < unit.first_record; });
      units[i] = *(behind - 1);
    }
    return {};
  }
  Status FirstFrom(std::uint64_t, std::uint64_t*) const override {
    return Status(StatusCode::kInternal, "a lane asks for no stripes");
  }
  std::optional<FixedUnits> fixed() const override { return fixed_; }

 private:
  const std::vector<RecordUnit> units_;
  const std::uint64_t records_;
  const std::optional<FixedUnits> fixed_;
};

}  // namespace

Status ListedRows::Next(std::span<RowNumber> rows, std::size_t* count) {
  *count = std::min<std::size_t>(rows.size(), rows_.size() - place_);
  std::copy_n(rows_.begin() + static_cast<std::ptrdiff_t>(place_), *count, rows.begin());
  place_ += *count;
  return {};
}

void PlannedData::AddFile(const std::string& path, std::span<const std::size_t> sizes) {
  std::vector<std::byte> bytes(3, std::byte{0xFF});  // a header that is no record
  std::vector<RecordUnit> units;
  std::optional<FixedUnits> fixed;
  if (format_ == PlannedFormat::kRows && !sizes.empty()) {
    fixed = FixedUnits{bytes.size(), sizes[0], sizes[0] + kRowPadding};
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t size = fixed ? sizes[0] : sizes[i];
    std::vector<std::byte> payload = RecordPayload(first_rows_.back() + i, size);
    if (format_ != PlannedFormat::kChunks || i % kChunkRecords == 0) {
      units.push_back({bytes.size(), 0, i, 0});
      ++unit_count_;
    }
    ++units.back().records;
    if (format_ == PlannedFormat::kChunks)
      for (std::byte& b : payload) b ^= kKey;
    if (!fixed) {
      AppendNumber(static_cast<std::uint32_t>(size), &bytes);
      AppendNumber(Crc32c(payload), &bytes);
    }
    offsets_.push_back(bytes.size());
    sizes_.push_back(size);
    units_.push_back(unit_count_);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    units.back().bytes = bytes.size() - units.back().offset;
    if (fixed) bytes.insert(bytes.end(), kRowPadding, std::byte{0xFF});
  }
  DataFile file;
  file.name = path;
  file.bytes = bytes.size();
  if (path.empty()) {
    file.source = std::make_shared<MemorySource>("a source", bytes);
    file.name = "a source";
  } else {
    WriteBytes(path, bytes);
  }
  file.format = std::make_shared<TestFormat>(format_);
  file.index = std::make_shared<ListedUnits>(std::move(units), sizes.size(), fixed);
  files_.push_back(std::move(file));
  first_rows_.push_back(first_rows_.back() + sizes.size());
}

}  // namespace ringfeed
