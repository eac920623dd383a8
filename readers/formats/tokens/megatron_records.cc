#include <algorithm>
#include <utility>
#include <vector>

#include "readers/formats/lost_units.h"
#include "readers/formats/tokens/megatron.h"

namespace ringfeed {
namespace {

class MegatronRecords final : public RecordIndex {
 public:
  MegatronRecords(std::shared_ptr<const MegatronIndex> index, const FramerOptions& options)
      : index_(std::move(index)), file_bytes_(static_cast<std::int64_t>(options.file_bytes)) {
    if (!IsWhole(options.max_record_bytes)) {
      damage_ = FindMegatronDamage(options, index_);
    }
  }

  std::uint64_t records() const override { return index_->sequences(); }

  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override {
    const std::vector<std::uint64_t>& lost = damage_.lost;
    for (std::size_t i = 0; i < records.size(); ++i) {
      RecordUnit& unit = units[i];
      unit = RecordUnit();
      unit.lost = std::binary_search(lost.begin(), lost.end(), records[i]);
      const std::int64_t at = std::clamp<std::int64_t>(index_->begin(records[i]), 0, file_bytes_);
      unit.offset = static_cast<std::uint64_t>(at);
      if (!unit.lost) unit.bytes = static_cast<std::uint64_t>(index_->bytes(records[i]));
      unit.first_record = records[i];
    }
    return WhyNotBelieved();
  }

  std::span<const IndexDamage> damage() const override { return damage_.ranges; }

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
    return WhyNotBelieved();
  }

 private:
  /// Of all numbers that were read of the index before.
  Status WhyNotBelieved() const {
    return index_->shrunk() ? Status(StatusCode::kTruncated, MegatronIndex::kShrunk) : Status();
  }
  // Whether each sequence begins where the one before ends, from the file's start to its end. An
  // index of all tokens that there are is gone over in less than a second.
  bool IsWhole(std::uint64_t most_bytes) const {
    std::int64_t end = 0;
    bool whole = true;
    for (std::uint64_t i = 0; i < records() && whole; ++i) {
      const std::int64_t bytes = index_->bytes(i);
      whole = index_->begin(i) == end && bytes >= 0 && bytes <= file_bytes_ - end &&
              static_cast<std::uint64_t>(bytes) <= most_bytes;
      end += whole ? bytes : 0;
    }
    return whole && end == file_bytes_;
  }

  const std::shared_ptr<const MegatronIndex> index_;
  const std::int64_t file_bytes_;
  MegatronDamage damage_;
};

class MegatronUnitFramer final : public UnitFramer {
 public:
  explicit MegatronUnitFramer(const FramerOptions& options) : lost_(options) {}

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    static constexpr std::byte kNothing{};
    if (records != 1) return lost_.Lose(unit, records, {}, output);
    const std::byte* const data = unit.bytes.empty() ? &kNothing : unit.bytes.data();
    output->records.push_back({data, unit.bytes.size()});
    return {};
  }

 private:
  const LostUnits lost_;
};

}  // namespace

std::unique_ptr<UnitFramer> NewMegatronUnitFramer(const FramerOptions& options) {
  return std::make_unique<MegatronUnitFramer>(options);
}

std::shared_ptr<const RecordIndex> NewMegatronRecords(std::shared_ptr<const MegatronIndex> index,
                                                      const FramerOptions& options) {
  return std::make_shared<const MegatronRecords>(std::move(index), options);
}

}  // namespace ringfeed
