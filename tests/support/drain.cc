#include "tests/support/drain.h"

#include "tests/support/record_data.h"

namespace ringfeed {

void AddPayload(std::span<const std::byte> payload, Drained* drained) {
  const auto id = IdOfPayload(payload);
  if (id) {
    drained->ids.push_back(*id);
  } else {
    ++drained->strange;
  }
}

void AddInstance(const Instance& instance, Drained* drained) {
  const Tensor& tensor = instance.front();
  const std::span<const std::byte> bytes{tensor.data, tensor.bytes};
  if (tensor.lod.empty() && tensor.shape.size() < 2) {
    drained->rows.push_back(1);
    AddPayload(bytes, drained);
  } else if (tensor.lod.empty()) {
    const auto rows = static_cast<std::size_t>(tensor.shape[0]);
    drained->rows.push_back(rows);
    const std::size_t unit = rows == 0 ? 0 : bytes.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      AddPayload(bytes.subspan(row * unit, unit), drained);
    }
  } else {
    const auto offsets = tensor.lod[0];
    drained->rows.push_back(offsets.size() - 1);
    for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
      const auto begin = static_cast<std::size_t>(offsets[row]);
      const auto end = static_cast<std::size_t>(offsets[row + 1]);
      AddPayload(bytes.subspan(begin, end - begin), drained);
    }
  }
}

Drained Drain(Reader reader, std::size_t most) {
  Drained drained;
  Instance instance;
  for (std::size_t count = 0; count < most; ++count) {
    drained.end = reader.TryReadNext(&instance);
    if (drained.end != ReadResult::kRecord) break;
    AddInstance(instance, &drained);
  }
  if (drained.end == ReadResult::kFailed) drained.status = reader.status();
  return drained;
}

Drained DrainBlocks(Reader reader) {
  Drained drained;
  RecordBlock block;
  while ((drained.end = reader.TryReadBlock(&block)) == ReadResult::kRecord) {
    for (const RecordSpan& record : block.records()) {
      if (!record.damaged()) AddPayload(record.bytes(), &drained);
    }
  }
  if (drained.end == ReadResult::kFailed) drained.status = reader.status();
  return drained;
}

}  // namespace ringfeed
