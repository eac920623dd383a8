#include <array>
#include <limits>

#include "base/stream_copy.h"
#include "readers/parsers/column_stager.h"
#include "readers/parsers/parser.h"
#include "ringfeed/parsers.h"

namespace ringfeed {
namespace {

constexpr std::size_t kStageBytes = 8192;

struct alignas(ColumnStager::kLine) RawScratch final : Parser::Scratch {
  std::array<std::byte, kStageBytes + ColumnStager::kLine> stage;
};

class RawBytesParser final : public Parser {
 public:
  RawBytesParser() {
    fields_ = {{"bytes", DType::kUInt8, {-1}}};
    two_phase_ = true;
  }

  std::string name() const override { return "raw"; }
  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<RawScratch>(); }

  void Locate(std::span<const RecordSpan> rows, FieldLocation* locations, Scratch*,
              std::vector<RowFailure>* failures) const override {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::size_t size = rows[row].size;
      if (size > std::numeric_limits<std::uint32_t>::max()) {
        failures->push_back(
            {row, Status(StatusCode::kUnsupported, "a field of 4 GiB and more is not supported")});
        continue;
      }
      const auto bytes = static_cast<std::uint32_t>(size);
      locations[row] = {rows[row].data, bytes, bytes, 0};
    }
  }

  void Write(std::span<const RecordSpan> rows, const FieldLocation* locations,
             std::span<const ColumnTarget> targets, Scratch* scratch,
             std::vector<RowFailure>*) const override {
    if (rows.empty()) return;
    auto* own = static_cast<RawScratch*>(scratch);
    ColumnStager stager(own->stage.data(), kStageBytes);
    const ColumnTarget& target = targets[0];
    stager.Start(target.data + target.offsets[0]);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      target.offsets[row + 1] = target.offsets[row] + locations[row].units;
      stager.Append(locations[row].data, locations[row].bytes);
    }
    stager.Finish();
    StreamFence();
  }
};

}  // namespace

std::shared_ptr<const Parser> RawParser() {
  static const auto kParser = std::make_shared<const RawBytesParser>();
  return kParser;
}

}  // namespace ringfeed
