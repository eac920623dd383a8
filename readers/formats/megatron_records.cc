#include <algorithm>
#include <string>
#include <utility>

#include "readers/formats/lost_units.h"
#include "readers/formats/megatron.h"

namespace ringfeed {
namespace {

class MegatronRecords final : public RecordIndex {
 public:
  MegatronRecords(std::shared_ptr<const MegatronIndex> index, std::uint64_t file_bytes,
                  std::size_t max_record_bytes)
      : index_(std::move(index)),
        file_bytes_(static_cast<std::int64_t>(file_bytes)),
        most_(static_cast<std::int64_t>(max_record_bytes)) {}

  std::uint64_t records() const override { return index_->sequences(); }

  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override {
    for (std::size_t i = 0; i < records.size(); ++i) {
      const std::int64_t begin = index_->begin(records[i]);
      const bool believed = Believed(records[i]);
      const std::int64_t bytes = believed ? index_->bytes(records[i]) : 0;
      const std::int64_t at = std::clamp<std::int64_t>(begin, 0, file_bytes_);
      units[i] = {static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(bytes), records[i], 1};
    }
    return {};
  }

  // Of a damaged index, of which begins do not ascend, some record around there.
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override {
    std::uint64_t low = 0;
    std::uint64_t high = records();
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (index_->begin(middle) < static_cast<std::int64_t>(offset)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    *record = low;
    return {};
  }

 private:
  // As MegatronFramer believes a sequence, as far as its neighbours tell it.
  bool Believed(std::uint64_t i) const {
    const std::int64_t begin = index_->begin(i);
    const std::int64_t bytes = index_->bytes(i);
    if (bytes < 0 || begin < 0 || begin > file_bytes_ || bytes > file_bytes_ - begin) return false;
    if (bytes > most_) return false;
    const bool follows = i == 0 ? begin == 0 : index_->begin(i - 1) + index_->bytes(i - 1) == begin;
    if (i + 1 == records()) return follows || begin + bytes == file_bytes_;
    return index_->begin(i + 1) == begin + bytes;
  }

  const std::shared_ptr<const MegatronIndex> index_;
  const std::int64_t file_bytes_;
  const std::int64_t most_;
};

class MegatronUnitFramer final : public UnitFramer {
 public:
  MegatronUnitFramer(const FramerOptions& options, std::shared_ptr<const MegatronIndex> index)
      : lost_(options), index_(std::move(index)) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    static constexpr std::byte kNothing{};
    if (records != 1 || (unit.bytes.empty() && !IsEmptySequence(unit.offset))) {
      return lost_.Lose(unit, records, "the index is damaged where it says where this stands",
                        output);
    }
    const std::byte* const data = unit.bytes.empty() ? &kNothing : unit.bytes.data();
    output->records.push_back({data, unit.bytes.size()});
    return {};
  }

 private:
  // Whether a sequence of the index at that place is meant to be empty.
  bool IsEmptySequence(std::uint64_t offset) const {
    std::uint64_t low = 0;
    std::uint64_t high = index_->sequences();
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (index_->begin(middle) < static_cast<std::int64_t>(offset)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < index_->sequences() && index_->bytes(low) == 0 &&
           index_->begin(low) == static_cast<std::int64_t>(offset);
  }

  const LostUnits lost_;
  const std::shared_ptr<const MegatronIndex> index_;
};

}  // namespace

std::unique_ptr<UnitFramer> NewMegatronUnitFramer(const FramerOptions& options,
                                                  std::shared_ptr<const MegatronIndex> index) {
  return std::make_unique<MegatronUnitFramer>(options, std::move(index));
}

std::shared_ptr<const RecordIndex> NewMegatronRecords(std::shared_ptr<const MegatronIndex> index,
                                                      const FramerOptions& options) {
  return std::make_shared<const MegatronRecords>(std::move(index), options.file_bytes,
                                                 options.max_record_bytes);
}

}  // namespace ringfeed
