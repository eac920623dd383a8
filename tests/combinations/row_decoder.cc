#include "tests/combinations/row_decoder.h"

#include <algorithm>
#include <cstring>

#include "tests/combinations/expected_delivery.h"
#include "tests/combinations/planned_delivery.h"

namespace ringfeed {

namespace {

std::span<const std::byte> BytesOf(const Tensor& tensor) { return {tensor.data, tensor.bytes}; }

/// The values of each row of a ragged field, or of the only row of one without a batch.
template <typename Function>
void ForEachRow(const Tensor& tensor, std::size_t unit, std::string* wrong, Function&& function) {
  if (tensor.lod.empty()) return function(BytesOf(tensor));
  const auto offsets = tensor.lod[0];
  if (offsets.empty() || static_cast<std::size_t>(offsets.back()) * unit != tensor.bytes) {
    *wrong = "the offsets of a field do not end where it ends";
    return;
  }
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    const auto begin = static_cast<std::size_t>(offsets[row]) * unit;
    const auto end = static_cast<std::size_t>(offsets[row + 1]) * unit;
    if (begin > end || end > tensor.bytes) {
      *wrong = "the offsets of a field do not ascend";
      return;
    }
    function(BytesOf(tensor).subspan(begin, end - begin));
  }
}

std::int64_t ValueAt(std::span<const std::byte> bytes, std::size_t index) {
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

/// A row of equal numbers; `first` is added to the record's own.
std::int64_t RecordOfValues(std::span<const std::byte> bytes, std::int64_t first,
                            std::string* wrong) {
  const std::size_t count = bytes.size() / sizeof(std::int64_t);
  if (count == 0) return kPadding;
  const std::int64_t value = ValueAt(bytes, 0);
  for (std::size_t i = 1; i < count; ++i) {
    if (ValueAt(bytes, i) == value) continue;
    *wrong = "value " + std::to_string(i) + " of record " + std::to_string(value - first) + " is " +
             std::to_string(ValueAt(bytes, i));
  }
  return value - first;
}

class Decoder {
 public:
  Decoder(const Configuration& c, const ChainData& data, std::string* wrong)
      : c_(c), data_(data), wrong_(wrong) {}

  Places Rows(std::span<const Tensor> instance) {
    const Tensor& first = instance[0];
    if (c_.IsAnyOf(Option::kGather, "pack first best")) {
      Packed(instance);
    } else if (c_.Is(Option::kSource, "examples")) {
      ForEachRow(first, sizeof(std::int64_t), wrong_,
                 [this](std::span<const std::byte> bytes) { AddExample(bytes); });
    } else if (HasMap() && c_.IsAnyOf(Option::kRow, "map throw refuse")) {
      const std::size_t rows = first.bytes / sizeof(std::int64_t);
      for (std::size_t row = 0; row < rows; ++row) rows_.push_back(ValueAt(BytesOf(first), row));
    } else if (HasMap() && c_.IsAnyOf(Option::kRow, "map_ragged throw_ragged refuse_ragged")) {
      ForEachRow(first, sizeof(std::int64_t), wrong_,
                 [this](std::span<const std::byte> bytes) { AddRepeated(bytes); });
    } else {
      ForEachRow(first, 1, wrong_, [this](std::span<const std::byte> bytes) {
        rows_.push_back(bytes.empty() ? kPadding : RecordOf(c_, data_, bytes, wrong_));
      });
    }
    if (c_.Is(Option::kRest, "repeat")) ForgetMasked(instance.back());
    if (c_.IsAnyOf(Option::kRest, "pad repeat")) Mask(instance.back());
    return std::move(rows_);
  }

 private:
  bool HasMap() const { return !c_.IsAnyOf(Option::kSource, "instances queue examples"); }

  void AddExample(std::span<const std::byte> bytes) {
    const std::int64_t record = RecordOfValues(bytes, kFirstValue, wrong_);
    const std::size_t values = ExampleValues(record, c_.Get(Option::kRecords));
    if (record >= 0 && bytes.size() != values * sizeof(std::int64_t)) {
      *wrong_ = "record " + std::to_string(record) + " has " + std::to_string(bytes.size() / 8) +
                " values";
    }
    rows_.push_back(record);
  }

  void AddRepeated(std::span<const std::byte> bytes) {
    const std::int64_t record = RecordOfValues(bytes, 0, wrong_);
    const auto count = static_cast<std::int64_t>(bytes.size() / sizeof(std::int64_t));
    if (record >= 0 && count != 1 + record % 5) {
      *wrong_ =
          "row of record " + std::to_string(record) + " has " + std::to_string(count) + " values";
    }
    rows_.push_back(record);
  }

  void Mask(const Tensor& mask) {
    if (c_.IsAnyOf(Option::kGather, "first best")) return MaskPacked(mask);
    // Rows that are not there add nothing to what their slots join.
    if (c_.Is(Option::kSource, "queue") && mask.bytes > rows_.size()) {
      rows_.resize(mask.bytes, kPadding);
    }
    if (mask.bytes != rows_.size()) {
      *wrong_ = "a mask of " + std::to_string(mask.bytes) + " for " + std::to_string(rows_.size()) +
                " rows";
      return;
    }
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (mask.data[row] == std::byte{0}) rows_[row] = kPadding;
    }
  }

  /// Packed rows of repeated shares count as rows without a record.
  void ForgetMasked(const Tensor& mask) {
    if (!c_.IsAnyOf(Option::kGather, "first best")) return;
    Places kept;
    std::size_t row = 0;
    for (const std::int64_t each : rows_) {
      const bool counts = row >= mask.bytes || mask.data[row] != std::byte{0};
      if (counts || each == kEndOfPacked) kept.push_back(each);
      row += each == kEndOfPacked ? 1 : 0;
    }
    rows_ = std::move(kept);
  }

  /// Packed rows without a record are not there.
  void MaskPacked(const Tensor& mask) {
    std::size_t row = 0;
    bool any = false;
    for (const std::int64_t each : rows_) {
      any = any || each >= 0;
      if (each != kEndOfPacked) continue;
      if (row >= mask.bytes || (mask.data[row] != std::byte{0}) != any) break;
      ++row;
      any = false;
    }
    const auto rows = std::count(rows_.begin(), rows_.end(), kEndOfPacked);
    if (row == mask.bytes && static_cast<std::ptrdiff_t>(row) == rows) return;
    *wrong_ = "a mask says of packed row " + std::to_string(row) + " of " + std::to_string(rows) +
              " what is not so";
  }

  void Packed(std::span<const Tensor> instance) {
    const Tensor& field = instance[0];
    const auto rows = static_cast<std::size_t>(field.shape[0]);
    const std::size_t unit = DTypeBytes(field.dtype);
    const std::size_t length = PackLength(c_, data_);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto* const segments = instance[1].Values<std::int32_t>().data() + row * length;
      std::int32_t records = 0;  // of the row
      std::size_t at = 0;
      while (at < length) {
        // Where a planned record is lost, or has fewer units than it takes, nothing stands.
        if (segments[at] == 0 && !IsPlanned(c_)) break;
        if (segments[at] == 0) {
          ++at;
          continue;
        }
        std::size_t end = at + 1;
        while (end < length && segments[end] == segments[at]) ++end;
        while (++records < segments[at]) rows_.push_back(kHole);
        AddPiece(BytesOf(field).subspan((row * length + at) * unit, (end - at) * unit));
        at = end;
      }
      rows_.push_back(kEndOfPacked);
    }
  }

  void AddPiece(std::span<const std::byte> bytes) {
    if (c_.Is(Option::kSource, "examples")) {
      rows_.push_back(RecordOfValues(bytes, kFirstValue, wrong_));
      const std::size_t values = ExampleValues(rows_.back(), c_.Get(Option::kRecords));
      if (bytes.size() != std::min<std::size_t>(values, PackLength(c_, data_)) * 8) {
        *wrong_ = "a packed record has " + std::to_string(bytes.size() / 8) + " values";
      }
      return;
    }
    const std::int64_t record = NumberOfPayload(bytes);
    if (c_.Is(Option::kSource, "lines") && c_.Is(Option::kChange, "cut")) {
      rows_.push_back(record < 0 ? kHole : record);
      return;
    }
    const auto payload = data_.Payload(record);
    const std::size_t length = std::min<std::size_t>(payload.size(), PackLength(c_, data_));
    if (bytes.size() != length || !std::equal(bytes.begin(), bytes.end(), payload.begin())) {
      *wrong_ = "a packed piece is no record's beginning";
    }
    rows_.push_back(record);
  }

  const Configuration& c_;
  const ChainData& data_;
  std::string* const wrong_;
  Places rows_;
};

}  // namespace

std::int64_t RecordOf(const Configuration& configuration, const ChainData& data,
                      std::span<const std::byte> payload, std::string* wrong) {
  const std::int64_t record = NumberOfPayload(payload);
  const auto expected = data.Payload(record);
  if (configuration.Is(Option::kSource, "lines") && configuration.Is(Option::kChange, "cut")) {
    // Where a text ends, a line ends.
    if (record < 0) return kHole;
    if (payload.size() < expected.size() &&
        std::equal(payload.begin(), payload.end(), expected.begin())) {
      return record;
    }
  }
  if (record >= 0 && expected.size() == payload.size() &&
      std::equal(payload.begin(), payload.end(), expected.begin())) {
    return record;
  }
  *wrong = "a row of " + std::to_string(payload.size()) +
           " bytes is not what was written (number " + std::to_string(record) + ")";
  return kHole;
}

Places RowsOf(const Configuration& configuration, const ChainData& data,
              std::span<const Tensor> instance, std::string* wrong) {
  return Decoder(configuration, data, wrong).Rows(instance);
}

std::uint64_t DigestOf(std::span<const Tensor> instance) {
  std::uint64_t sum = 0;
  const auto add = [&sum](std::uint64_t word) {
    sum = (sum ^ word) * 0x9E3779B97F4A7C15;
    sum ^= sum >> 32;
  };
  for (const Tensor& tensor : instance) {
    std::size_t at = 0;
    for (; at + 8 <= tensor.bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, tensor.data + at, sizeof(word));
      add(word);
    }
    for (; at < tensor.bytes; ++at) add(std::to_integer<std::uint64_t>(tensor.data[at]));
    for (const auto& level : tensor.lod) {
      for (const std::int64_t offset : level) add(static_cast<std::uint64_t>(offset));
    }
  }
  return sum;
}

}  // namespace ringfeed
