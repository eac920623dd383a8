#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/arrays/npy.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

// Version 1: magic, version, u16 bytes of the dict. NumPy ends the header at a multiple of 64.
constexpr std::string_view kStart("\x93NUMPY\x01\x00", 8);
constexpr std::size_t kDictBegin = 10;
constexpr std::size_t kHeaderMultiple = 64;
constexpr std::size_t kMostDimensions = 16;
constexpr std::size_t kMostRowBytes = std::size_t{1} << 40;

struct ElementName {
  std::string_view name;
  std::string_view descr;
  std::size_t bytes;
};
constexpr ElementName kElements[] = {{"b1", "|b1", 1}, {"u1", "|u1", 1}, {"i1", "|i1", 1},
                                     {"u2", "<u2", 2}, {"i2", "<i2", 2}, {"u4", "<u4", 4},
                                     {"i4", "<i4", 4}, {"u8", "<u8", 8}, {"i8", "<i8", 8},
                                     {"f2", "<f2", 2}, {"f4", "<f4", 4}, {"f8", "<f8", 8}};

class NpyWriter final : public FileRecordWriter {
 public:
  NpyWriter(std::unique_ptr<OutputFile> file, NpyRow row)
      : FileRecordWriter(std::move(file)), row_(std::move(row)) {}

 private:
  // The header's size does not depend on the number: its place is filled up with blanks.
  std::string Header(std::uint64_t rows) const {
    constexpr std::size_t kDigits = 20;
    std::string dict = "{'descr': '" + row_.descr + "', 'fortran_order': False, 'shape': (";
    const std::string count = std::to_string(rows);
    dict += count + ",";
    for (const std::uint64_t dimension : row_.shape) dict += " " + std::to_string(dimension) + ",";
    dict += "), }" + std::string(kDigits - count.size(), ' ');
    const std::size_t bytes = kDictBegin + dict.size() + 1;
    dict.append((kHeaderMultiple - bytes % kHeaderMultiple) % kHeaderMultiple, ' ');
    dict += '\n';
    std::array<std::byte, 2> size;
    StoreLe(size.data(), static_cast<std::uint16_t>(dict.size()));
    return std::string(kStart) + std::string(reinterpret_cast<const char*>(size.data()), 2) + dict;
  }

  Status Append(std::span<const std::byte> record) override {
    if (record.size() != row_.bytes) {
      return Status(StatusCode::kInvalidArgument,
                    "a row of " + std::to_string(record.size()) +
                        " bytes was written to an array whose rows have " +
                        std::to_string(row_.bytes));
    }
    if (rows_ == 0) {
      const std::string header = Header(0);
      Status status = file().Append(std::as_bytes(std::span(header)));
      if (!status.ok()) return status;
    }
    ++rows_;
    return file().Append(record);
  }

  Status Finish() override {
    const std::string header = Header(rows_);
    const auto bytes = std::as_bytes(std::span(header));
    return rows_ == 0 ? file().Append(bytes) : file().Rewrite(0, bytes);
  }

  const NpyRow row_;
  std::uint64_t rows_ = 0;
};

bool ReadDimensions(std::string_view text, NpyRow* row) {
  if (text.empty()) return true;
  if (!text.starts_with('[') || !text.ends_with(']')) return false;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    std::uint64_t dimension = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, dimension);
    if (error != std::errc() || dimension == 0 || dimension > kMostRowBytes / row->bytes ||
        row->shape.size() == kMostDimensions) {
      return false;
    }
    row->bytes *= static_cast<std::size_t>(dimension);
    row->shape.push_back(dimension);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return true;
    if (!text.starts_with(',') || text.size() == 1) return false;
    text.remove_prefix(1);
  }
  return true;
}

}  // namespace

Status ParseNpyRow(std::string_view text, NpyRow* row) {
  *row = {};
  if (text.empty()) return {};
  for (const ElementName& element : kElements) {
    if (!text.starts_with(element.name)) continue;
    row->descr = element.descr;
    row->bytes = element.bytes;
    if (ReadDimensions(text.substr(element.name.size()), row)) return {};
  }
  return Status(StatusCode::kInvalidArgument,
                "format \"npy:" + std::string(text) +
                    "\": expected the type of an element, b1, u1 to u8, i1 to i8 or f2 to f8, and "
                    "the dimensions of a row behind it if it has any, like npy:f4[3,2]");
}

RecordWriterResult NewNpyWriter(std::unique_ptr<OutputFile> file, const NpyRow& row) {
  if (row.bytes == 0) {
    return {Status(StatusCode::kInvalidArgument,
                   "to write an array the row's type must be named, like npy:f4[3,2]"),
            nullptr};
  }
  return {Status(), std::make_unique<NpyWriter>(std::move(file), row)};
}

}  // namespace ringfeed
