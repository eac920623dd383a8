#include "tools/delivered_order.h"

#include <algorithm>
#include <numeric>

#include "ringfeed/status.h"

namespace ringfeed::tools {
namespace {

Error Refuse(const std::string& why) { return Error(Status(StatusCode::kInvalidArgument, why)); }

}  // namespace

DeliveredOrder::DeliveredOrder(const FeedPlan& plan, const std::string& label)
    : reader_(BuildChain(plan)), labelled_(!label.empty()) {
  if (!labelled_) return;
  const std::vector<FieldSpec> fields = reader_.fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const FieldSpec& spec) { return spec.name == label; });
  if (field == fields.end()) throw Refuse("--parse gives no field " + label + " to be the label");
  label_field_ = static_cast<std::size_t>(field - fields.begin());
}

void DeliveredOrder::Read() {
  Instance batch;
  BatchOrigin origin;
  ReadResult result;
  while ((result = reader_.TryReadNext(&batch, {.origin = &origin})) == ReadResult::kRecord) {
    Add(batch, origin);
  }
  batch.clear();
  const Status status = reader_.status();
  if (result == ReadResult::kFailed && status.code() != StatusCode::kCancelled) {
    throw Error(status);
  }
}

void DeliveredOrder::Add(const Instance& batch, const BatchOrigin& origin) {
  std::uint64_t rows = 0;
  for (const RecordRange& range : origin.records) {
    rows += range.count;
    const bool goes_on = !ranges_.empty() && ranges_.back().file == range.file &&
                         ranges_.back().first + ranges_.back().count == range.first;
    if (goes_on) {
      ranges_.back().count += range.count;
    } else {
      ranges_.push_back(range);
    }
  }
  if (!labelled_ || rows == 0) return;
  const Tensor& field = batch[label_field_];
  if (!field.lod.empty() || field.shape.empty() ||
      field.shape[0] != static_cast<std::int64_t>(rows)) {
    throw Refuse("a label is one value of fixed size per record");
  }
  const std::size_t bytes = field.bytes / rows;
  for (std::uint64_t i = 0; i < rows; ++i) {
    const auto* const value = reinterpret_cast<const char*>(field.data + i * bytes);
    const auto next = static_cast<std::uint32_t>(label_ids_.size());
    labels_.push_back(label_ids_.emplace(std::string(value, bytes), next).first->second);
  }
}

// By what was delivered: files behind the last record of which there are more count as shorter.
std::vector<std::uint64_t> DeliveredOrder::FirstRows() const {
  std::vector<std::uint64_t> ends;
  for (const RecordRange& range : ranges_) {
    if (range.file >= ends.size()) ends.resize(range.file + std::size_t{1});
    ends[range.file] = std::max(ends[range.file], range.first + range.count);
  }
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), std::uint64_t{0});
  return ends;
}

std::vector<std::uint64_t> DeliveredOrder::Rows() const {
  const std::vector<std::uint64_t> first = FirstRows();
  std::vector<std::uint64_t> rows;
  for (const RecordRange& range : ranges_) {
    for (std::uint64_t i = 0; i < range.count; ++i) {
      rows.push_back(first[range.file] + range.first + i);
    }
  }
  return rows;
}

std::vector<std::uint32_t> DeliveredOrder::Labels(std::uint64_t classes) const {
  if (labelled_) return labels_;
  std::vector<std::uint32_t> labels;
  if (classes == 0) {
    for (const RecordRange& range : ranges_) labels.insert(labels.end(), range.count, range.file);
    return labels;
  }
  const std::vector<std::uint64_t> rows = Rows();
  if (rows.empty()) return labels;
  const std::uint64_t end = *std::max_element(rows.begin(), rows.end()) + 1;
  for (const std::uint64_t row : rows) {
    const double part = static_cast<double>(row) / static_cast<double>(end);
    labels.push_back(static_cast<std::uint32_t>(part * static_cast<double>(classes)));
  }
  return labels;
}

}  // namespace ringfeed::tools
