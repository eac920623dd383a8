#include "tests/readers/parsers/lod_records.h"

#include <cstring>
#include <ostream>

namespace ringfeed {
namespace {

template <typename T>
std::string Le(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string Varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string RandomBytes(std::size_t bytes, std::mt19937_64* random) {
  std::string found;
  for (std::size_t i = 0; i < bytes; ++i) found += static_cast<char>((*random)());
  return found;
}

// A level over `sequences` sequences; every third is empty.
std::vector<std::int64_t> RandomLevel(std::size_t sequences, std::mt19937_64* random) {
  std::vector<std::int64_t> level = {0};
  for (std::size_t i = 0; i < sequences; ++i) {
    const std::uint64_t draw = (*random)();
    const auto length = static_cast<std::int64_t>(draw % 3 == 0 ? 0 : draw / 3 % 5);
    level.push_back(level.back() + length);
  }
  return level;
}

LoDValue RandomValue(DType dtype, Shape shape, std::vector<std::vector<std::int64_t>> lod,
                     std::mt19937_64* random) {
  if (!lod.empty()) shape[0] = lod.back().back();
  const auto elements = static_cast<std::size_t>(ShapeElements(shape));
  return {dtype, shape, std::move(lod), RandomBytes(elements * DTypeBytes(dtype), random)};
}

}  // namespace

void PrintTo(const LoDValue& value, std::ostream* out) {
  *out << DTypeName(value.dtype) << ShapeToString(value.shape);
  for (const auto& level : value.lod) {
    *out << " level";
    for (const std::int64_t offset : level) *out << ' ' << offset;
  }
  *out << ", " << value.bytes.size() << " bytes";
}

std::uint32_t PaddleTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return 0;
    case DType::kInt16:
      return 1;
    case DType::kInt32:
      return 2;
    case DType::kInt64:
      return 3;
    case DType::kFloat16:
      return 4;
    case DType::kFloat32:
      return 5;
    case DType::kFloat64:
      return 6;
    case DType::kUInt64:
      return 19;
    case DType::kUInt8:
      return 20;
    case DType::kInt8:
      return 21;
    case DType::kBFloat16:
      return 22;
    default:
      return 99;
  }
}

std::string TensorDesc(std::uint64_t type, const std::vector<std::int64_t>& dims, bool packed) {
  std::string run;
  std::string fields;
  for (const std::int64_t dim : dims) {
    run += Varint(static_cast<std::uint64_t>(dim));
    fields += "\x10" + Varint(static_cast<std::uint64_t>(dim));
  }
  if (packed) fields = "\x12" + Varint(run.size()) + run;
  return "\x08" + Varint(type) + fields;
}

std::string TensorStream(const std::vector<std::vector<std::int64_t>>& lod,
                         const std::string& description, const std::string& bytes) {
  std::string stream = Le<std::uint32_t>(0) + Le<std::uint64_t>(lod.size());
  for (const auto& level : lod) {
    stream += Le<std::uint64_t>(8 * level.size());
    for (const std::int64_t offset : level) stream += Le(offset);
  }
  const auto size = static_cast<std::int32_t>(description.size());
  return stream + Le<std::uint32_t>(0) + Le(size) + description + bytes;
}

std::string EncodedRecord(const LoDRecord& record, bool packed) {
  std::string bytes = Le(static_cast<std::uint32_t>(record.size()));
  for (const LoDValue& value : record) {
    const std::string description = TensorDesc(PaddleTypeOf(value.dtype), value.shape, packed);
    bytes += TensorStream(value.lod, description, value.bytes);
  }
  return bytes;
}

LoDRecord MergedAsPaddle(const std::vector<LoDRecord>& records) {
  LoDRecord merged = records.front();
  for (std::size_t r = 1; r < records.size(); ++r) {
    for (std::size_t t = 0; t < merged.size(); ++t) {
      const LoDValue& next = records[r][t];
      merged[t].shape[0] += next.shape[0];
      merged[t].bytes += next.bytes;
      for (std::size_t level = 0; level < next.lod.size(); ++level) {
        const std::int64_t last = merged[t].lod[level].back();
        for (std::size_t k = 1; k < next.lod[level].size(); ++k) {
          merged[t].lod[level].push_back(next.lod[level][k] + last);
        }
      }
    }
  }
  return merged;
}

LoDRecord RandomRecord(std::uint16_t number, std::mt19937_64* random) {
  const auto below = [&](std::uint64_t most) { return (*random)() % most; };
  LoDRecord record;
  record.push_back(
      RandomValue(DType::kFloat32, {static_cast<std::int64_t>(below(4)), 2, 3}, {}, random));
  record.push_back(RandomValue(DType::kInt64, {0, 1}, {RandomLevel(below(6), random)}, random));
  const std::vector<std::int64_t> top = RandomLevel(below(4), random);
  const std::vector<std::int64_t> low = RandomLevel(static_cast<std::size_t>(top.back()), random);
  record.push_back(RandomValue(DType::kInt16, {0}, {top, low}, random));
  record.push_back(RandomValue(DType::kUInt8, {2}, {}, random));
  record.back().bytes = Le(number);
  return record;
}

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

LoDValue ValueOfTensor(const Tensor& tensor) {
  LoDValue value;
  value.dtype = tensor.dtype;
  value.shape = tensor.shape;
  for (const auto level : tensor.lod) value.lod.emplace_back(level.begin(), level.end());
  value.bytes.assign(reinterpret_cast<const char*>(tensor.data), tensor.bytes);
  return value;
}

LoDRecord RecordOf(const Instance& instance) {
  LoDRecord record;
  for (const Tensor& tensor : instance) record.push_back(ValueOfTensor(tensor));
  return record;
}

}  // namespace ringfeed
