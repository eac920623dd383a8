#include "ringfeed/data_balance.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/refuse.h"
#include "ringfeed/status.h"

namespace ringfeed {
namespace {

using Offsets = std::vector<std::int64_t>;

std::size_t StepBytes(const Tensor& tensor) {
  const Shape inner(tensor.shape.begin() + 1, tensor.shape.end());
  return static_cast<std::size_t>(ShapeElements(inner)) * DTypeBytes(tensor.dtype);
}

Tensor SliceTensor(const Tensor& whole, std::int64_t begin, std::int64_t end) {
  struct Slice {
    std::vector<Offsets> levels;
    std::shared_ptr<const void> owner;
  };
  auto slice = std::make_shared<Slice>();
  slice->owner = whole.owner;
  Tensor tensor = whole;
  tensor.lod.clear();
  slice->levels.reserve(whole.lod.size());
  for (const auto level : whole.lod) {
    const std::int64_t start = level[static_cast<std::size_t>(begin)];
    Offsets& own = slice->levels.emplace_back(level.begin() + begin, level.begin() + end + 1);
    for (std::int64_t& offset : own) offset -= start;
    tensor.lod.emplace_back(own);
    begin = start;
    end = level[static_cast<std::size_t>(end)];
  }
  tensor.shape[0] = end - begin;
  tensor.data += static_cast<std::size_t>(begin) * StepBytes(whole);
  tensor.bytes = static_cast<std::size_t>(end - begin) * StepBytes(whole);
  if (!slice->levels.empty()) tensor.owner = std::move(slice);
  return tensor;
}

/// A tensor that is joined of rows of others.
class Joined {
 public:
  explicit Joined(const Tensor& like) : tensor_(like), memory_(std::make_shared<Memory>()) {
    memory_->levels.assign(like.lod.size(), Offsets(1));
    tensor_.shape[0] = 0;
  }

  void Append(const Tensor& from, std::int64_t begin, std::int64_t end) {
    for (std::size_t level = 0; level < from.lod.size(); ++level) {
      const auto offsets = from.lod[level];
      Offsets& own = memory_->levels[level];
      const std::int64_t shift = own.back() - offsets[static_cast<std::size_t>(begin)];
      for (std::int64_t i = begin + 1; i <= end; ++i) {
        own.push_back(offsets[static_cast<std::size_t>(i)] + shift);
      }
      begin = offsets[static_cast<std::size_t>(begin)];
      end = offsets[static_cast<std::size_t>(end)];
    }
    const std::size_t step = StepBytes(from);
    const std::byte* const data = from.data + static_cast<std::size_t>(begin) * step;
    memory_->values.insert(memory_->values.end(), data,
                           data + static_cast<std::size_t>(end - begin) * step);
    tensor_.shape[0] += end - begin;
  }

  Tensor Finish() && {
    memory_->values.reserve(1);  // memory, even if there are no rows
    tensor_.data = memory_->values.data();
    tensor_.bytes = memory_->values.size();
    tensor_.lod.assign(memory_->levels.begin(), memory_->levels.end());
    tensor_.owner = std::move(memory_);
    return std::move(tensor_);
  }

 private:
  struct Memory {
    std::vector<std::byte> values;
    std::vector<Offsets> levels;
  };

  Tensor tensor_;
  std::shared_ptr<Memory> memory_;
};

/// Takes rows from one instance after another.
class RowCursor {
 public:
  explicit RowCursor(const std::vector<Instance>& instances) : instances_(instances) {}

  Instance Take(std::int64_t rows) {
    std::vector<Joined> joined(instances_.front().begin(), instances_.front().end());
    while (rows > 0) {
      const Instance& from = instances_[at_];
      const std::int64_t some = std::min(rows, RowsOf(from) - row_);
      for (std::size_t t = 0; t < joined.size(); ++t) joined[t].Append(from[t], row_, row_ + some);
      rows -= some;
      row_ += some;
      if (row_ < RowsOf(from)) continue;
      ++at_;
      row_ = 0;
    }
    Instance instance;
    instance.set_names(instances_.front().names());
    for (Joined& tensor : joined) instance.push_back(std::move(tensor).Finish());
    return instance;
  }

 private:
  const std::vector<Instance>& instances_;
  std::size_t at_ = 0;
  std::int64_t row_ = 0;
};

}  // namespace

std::int64_t RowsOf(const Tensor& tensor) {
  if (!tensor.lod.empty()) return static_cast<std::int64_t>(tensor.lod[0].size()) - 1;
  return tensor.shape.empty() ? 0 : tensor.shape[0];
}

std::int64_t RowsOf(const Instance& instance) {
  const std::int64_t rows = instance.empty() ? 0 : RowsOf(instance.front());
  for (const Tensor& tensor : instance) {
    if (RowsOf(tensor) == rows) continue;
    Refuse("rows cannot be spread over devices: a tensor has " + std::to_string(RowsOf(tensor)) +
           " rows, another one " + std::to_string(rows));
  }
  return rows;
}

Instance SliceRows(const Instance& instance, std::int64_t begin, std::int64_t end) {
  Instance slice;
  slice.set_names(instance.names());
  for (const Tensor& tensor : instance) slice.push_back(SliceTensor(tensor, begin, end));
  return slice;
}

std::vector<Instance> SpreadRows(const std::vector<Instance>& instances, std::size_t devices) {
  std::int64_t rows = 0;
  for (const Instance& instance : instances) rows += RowsOf(instance);
  const auto share = rows / static_cast<std::int64_t>(devices);
  const auto more = static_cast<std::size_t>(rows) % devices;
  std::vector<Instance> spread;
  RowCursor cursor(instances);
  for (std::size_t device = 0; device < devices; ++device) {
    spread.push_back(cursor.Take(share + (device < more ? 1 : 0)));
  }
  return spread;
}

DeviceBatches::DeviceBatches(Reader batches, std::size_t devices)
    : batches_(std::move(batches)), devices_(devices) {
  if (devices_ == 0) Refuse("batches for no devices were asked for");
  batches_.ReserveBatches(devices_);
}

ReadResult DeviceBatches::ReadNext(std::vector<Instance>* per_device) {
  per_device->clear();
  while (per_device->size() < devices_) {
    Instance instance;
    const ReadResult result = batches_.TryReadNext(&instance);
    if (result != ReadResult::kRecord) {
      // The next call returns the failure again.
      if (per_device->empty()) return result;
      *per_device = SpreadRows(*per_device, devices_);
      break;
    }
    per_device->push_back(std::move(instance));
  }
  return ReadResult::kRecord;
}

}  // namespace ringfeed
