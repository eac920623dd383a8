#include "tests/fuzz/index_run.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "readers/index/open_index.h"
#include "ringfeed/source.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringfeed {
namespace {

class SpanSource final : public Source {
 public:
  explicit SpanSource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::string name() const override { return "file"; }
  std::uint64_t Size() const override { return bytes_.size(); }
  Status ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                std::size_t* bytes_read) override {
    const auto at = static_cast<std::size_t>(std::min<std::uint64_t>(offset, bytes_.size()));
    *bytes_read = std::min(buffer.size(), bytes_.size() - at);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at), *bytes_read, buffer.begin());
    return {};
  }

 private:
  const std::span<const std::byte> bytes_;
};

// Each by its number, as one call of the unit's framer gives it.
FrameRun RunByIndex(const IndexedFile& indexed, std::span<const std::byte> file,
                    const RecordIndex& index) {
  FrameRun run;
  const auto framer = indexed.format->NewUnitFramer(
      {"file", file.size(), OnDamage::kSkip, indexed.max_record_bytes, false});
  for (std::uint64_t number = 0; number < index.records(); ++number) {
    RecordUnit unit;
    FuzzExpect(index.Find({&number, 1}, {&unit, 1}).ok(), "an index has a place for each record");
    FuzzExpect(unit.offset <= file.size() && unit.bytes <= file.size() - unit.offset &&
                   number - unit.first_record < unit.records,
               "units are inside of the file, and have their records");
    const ExactCopy bytes(
        file.subspan(static_cast<std::size_t>(unit.offset), static_cast<std::size_t>(unit.bytes)));
    FrameOutput output;
    HeapFrameMemory memory;
    const Status status =
        framer->Frame({bytes.bytes(), unit.offset, 0, false, &memory}, unit.records, &output);
    FuzzExpect(status.ok() && output.records.size() == unit.records,
               "a unit gives as many records as the index says", [&] { return status.ToString(); });
    const RecordSpan& record = output.records[number - unit.first_record];
    run.records.push_back({record.damaged() ? FrameRun::kDamaged : record.size, 0});
    if (record.size != 0) {
      run.payload.append(reinterpret_cast<const char*>(record.data), record.size);
    }
  }
  return run;
}

}  // namespace

void ExpectSameByIndex(const std::shared_ptr<const Format>& format, std::span<const std::byte> file,
                       const FrameControl& control, const FrameRun& in_order) {
  if (!in_order.status.ok() || file.empty()) return;
  IndexedFile indexed;
  indexed.name = "file";
  indexed.source = std::make_shared<SpanSource>(file);
  indexed.bytes = file.size();
  indexed.format = format;
  indexed.max_record_bytes = control.max_record_bytes;
  const OpenedIndex opened = OpenRecordIndex(indexed);
  FuzzExpect(opened.status.ok() || opened.status.code() == StatusCode::kUnsupported,
             "what is framed in order has an index, or cannot have one",
             [&] { return opened.status.ToString(); });
  if (!opened.status.ok()) return;
  const FrameRun by_index = RunByIndex(indexed, file, *opened.index);
  const bool same = by_index.payload == in_order.payload &&
                    std::equal(by_index.records.begin(), by_index.records.end(),
                               in_order.records.begin(), in_order.records.end(),
                               [](const auto& a, const auto& b) { return a.bytes == b.bytes; });
  FuzzExpect(same, "records by their numbers are those in order", [&] {
    return "By index:" + Described(by_index) + "\nin order:" + Described(in_order);
  });
}

}  // namespace ringfeed
