#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/little_endian.h"
#include "readers/formats/arrays/arrays.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kVersionEnd = 8;
// A limit for the dict; NumPy itself writes some hundred bytes.
constexpr std::uint64_t kMostHeaderBytes = 64 * 1024;
constexpr std::size_t kMostDimensions = 64;  // NumPy's own limit
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

// What the dict says.
struct Facts {
  std::optional<std::string> type;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::uint64_t>> shape;
  bool structured = false;
};

// Reads the one kind of Python literal that the format allows.
class DictScanner {
 public:
  explicit DictScanner(std::string_view text) : text_(text) {}

  /// Returns false if the text is no such dict.
  bool Read(Facts* facts);

 private:
  bool Take(char c);
  bool String(std::string* value);
  bool Entry(Facts* facts);
  bool Shape(std::vector<std::uint64_t>* shape);

  std::string_view text_;
};

bool DictScanner::Take(char c) {
  text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size()));
  if (!text_.starts_with(c)) return false;
  text_.remove_prefix(1);
  return true;
}

bool DictScanner::String(std::string* value) {
  const char quote = Take('\'') ? '\'' : '"';
  if (quote == '"' && !Take('"')) return false;
  const std::size_t end = text_.find(quote);
  if (end == std::string_view::npos) return false;
  *value = text_.substr(0, end);
  text_.remove_prefix(end + 1);
  return value->find('\\') == std::string::npos;
}

bool DictScanner::Shape(std::vector<std::uint64_t>* shape) {
  if (!Take('(')) return false;
  while (!Take(')')) {
    Take(' ');  // moves the text to the next thing that is no space
    std::uint64_t dimension = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), dimension);
    const bool padded = text_.size() > 1 && text_[0] == '0' && end != text_.data() + 1;
    if (error != std::errc() || padded || shape->size() == kMostDimensions) return false;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    Take('L');  // Python 2 wrote long numbers so
    shape->push_back(dimension);
    if (Take(',')) continue;
    return Take(')');
  }
  return true;
}

bool DictScanner::Entry(Facts* facts) {
  std::string key;
  if (!String(&key) || !Take(':')) return false;
  if (key == "descr") {
    if (Take('[')) {
      facts->structured = true;
      return true;
    }
    std::string type;
    if (!String(&type)) return false;
    facts->type = std::move(type);
    return true;
  }
  if (key == "fortran_order") {
    Take(' ');
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      facts->fortran_order = value;
      return true;
    }
    return false;
  }
  std::vector<std::uint64_t> shape;
  if (key != "shape" || !Shape(&shape)) return false;
  facts->shape = std::move(shape);
  return true;
}

bool DictScanner::Read(Facts* facts) {
  if (!Take('{')) return false;
  while (!Take('}')) {
    if (!Entry(facts)) return false;
    if (facts->structured) return true;  // it cannot be used, whatever follows
    if (Take(',')) continue;
    if (!Take('}')) return false;
    break;
  }
  Take(' ');
  return text_.empty() && facts->type && facts->fortran_order && facts->shape;
}

// Bytes of one element of a type like "<f4", "|b1", "<U5", "<M8[ns]"; 0 if it is no such type.
std::uint64_t ItemBytes(std::string_view type) {
  if (type.size() < 3 || std::string_view("<>|=").find(type[0]) == std::string_view::npos) return 0;
  const char kind = type[1];
  if (std::string_view("?biufcSaUVmM").find(kind) == std::string_view::npos) return 0;
  std::uint64_t bytes = 0;
  const char* const last = type.data() + type.size();
  const auto [end, error] = std::from_chars(type.data() + 2, last, bytes);
  const bool dated = (kind == 'm' || kind == 'M') && end != last && *end == '[';
  if (error != std::errc() || (end != last && !dated) || bytes > kMostBytes / 4) return 0;
  return kind == 'U' ? 4 * bytes : bytes;
}

// The types of elements that are stored as they are; none for texts and the like.
std::optional<FileElements> ElementsOf(const std::string& type) {
  struct Known {
    std::string_view type;
    std::vector<DType> is;
  };
  static const Known kKnown[] = {
      {"b1", {DType::kBool, DType::kUInt8}},
      {"u1", {DType::kUInt8}},
      {"i1", {DType::kInt8}},
      {"u2", {DType::kUInt16}},
      {"i2", {DType::kInt16}},
      {"u4", {DType::kUInt32}},
      {"i4", {DType::kInt32}},
      {"u8", {DType::kUInt64}},
      {"i8", {DType::kInt64}},
      {"f2", {DType::kFloat16}},
      {"f4", {DType::kFloat32}},
      {"f8", {DType::kFloat64}},
      {"c8", {DType::kFloat32}},   // the real and the imaginary part
      {"c16", {DType::kFloat64}},  // also the two parts
  };
  const std::string_view kind = std::string_view(type).substr(1);
  if (std::string_view("biufc").find(kind[0]) == std::string_view::npos) return std::nullopt;
  FileElements elements{type, {}};
  const bool swapped = type[0] == '>' && kind.substr(1) != "1";
  for (const Known& known : kKnown) {
    if (!swapped && known.type == kind) elements.types = known.is;
  }
  return elements;
}

Status LayOut(const Facts& facts, ArrayLayout* layout) {
  const std::vector<std::uint64_t>& shape = *facts.shape;
  const std::uint64_t item = ItemBytes(*facts.type);
  if (item == 0) {
    return Status(StatusCode::kUnsupported,
                  "elements of type \"" + *facts.type +
                      "\" are not supported: only numbers, texts and times of a fixed size are");
  }
  // Looks for dimensions of zero first: if there is one, there is no row, or none with bytes.
  const std::uint64_t rows = shape.empty() ? 1 : shape[0];
  std::uint64_t row_bytes = item;
  for (std::size_t i = 1; i < shape.size() && row_bytes != 0; ++i) {
    if (shape[i] > kMostBytes / row_bytes) {
      return Status(StatusCode::kDamaged, "the shape is out of bounds");
    }
    row_bytes *= shape[i];
  }
  if (rows != 0 && row_bytes == 0) {
    return Status(StatusCode::kUnsupported, "rows without any bytes are not supported");
  }
  if (row_bytes != 0 && rows > kMostBytes / row_bytes) {
    return Status(StatusCode::kDamaged, "the shape is out of bounds");
  }
  layout->item_bytes = item;
  layout->row_bytes = std::max<std::uint64_t>(row_bytes, 1);
  layout->data_bytes = rows * row_bytes;
  if (*facts.fortran_order && shape.size() > 1 && layout->data_bytes != 0) {
    layout->column_major = shape;
  }
  return {};
}

// Version 1: magic, version, u16 bytes of the dict. NumPy ends the header at a multiple of 64.
constexpr std::string_view kStart("\x93NUMPY\x01\x00", 8);
constexpr std::size_t kDictBegin = 10;
constexpr std::size_t kHeaderMultiple = 64;
constexpr std::size_t kMostRowDimensions = 16;
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

// A header whose dict is followed by so many blanks, at least.
std::string HeaderText(std::string_view descr, std::string_view shape, std::size_t blanks) {
  std::string dict = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (" +
                     std::string(shape) + "), }" + std::string(blanks, ' ');
  const std::size_t bytes = kDictBegin + dict.size() + 1;
  dict.append((kHeaderMultiple - bytes % kHeaderMultiple) % kHeaderMultiple, ' ');
  dict += '\n';
  std::array<std::byte, 2> size;
  StoreLe(size.data(), static_cast<std::uint16_t>(dict.size()));
  return std::string(kStart) + std::string(reinterpret_cast<const char*>(size.data()), 2) + dict;
}

class NpyWriter final : public FileRecordWriter {
 public:
  NpyWriter(std::unique_ptr<OutputFile> file, NpyRow row)
      : FileRecordWriter(std::move(file)), row_(std::move(row)) {}

 private:
  // The header's size does not depend on the number: its place is filled up with blanks.
  std::string Header(std::uint64_t rows) const {
    constexpr std::size_t kDigits = 20;
    const std::string count = std::to_string(rows);
    std::string shape = count + ",";
    for (const std::uint64_t dimension : row_.shape) shape += " " + std::to_string(dimension) + ",";
    return HeaderText(row_.descr, shape, kDigits - count.size());
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
        row->shape.size() == kMostRowDimensions) {
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

class Npy final : public ArrayFormat {
 public:
  explicit Npy(const NpyRow& row) : ArrayFormat(ReadNpyHeader), row_(row) {}

  std::string_view name() const override { return "npy"; }
  bool has_fixed_places() const override { return true; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(".npy");
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return head.size() >= kMagic.size() &&
           std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0;
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    if (row_.bytes == 0) {
      return {Status(StatusCode::kInvalidArgument,
                     "to write an array the row's type must be named, like npy:f4[3,2]"),
              nullptr};
    }
    return {Status(), std::make_unique<NpyWriter>(std::move(file), row_)};
  }
  bool writes_in_order() const override { return false; }

 private:
  const NpyRow row_;
};

}  // namespace

ArrayHeader ReadNpyHeader(std::span<const std::byte> head) {
  ArrayHeader header;
  header.need_bytes = kVersionEnd + 4;
  if (head.size() < header.need_bytes) return header;
  if (std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0) {
    header.status = Status(StatusCode::kDamaged, "the magic number is not that of NumPy");
    return header;
  }
  const auto version = Settled(std::to_integer<unsigned>(head[kMagic.size()]));
  if (version < 1 || version > 3 || head[kMagic.size() + 1] != std::byte{0}) {
    header.status = Status(StatusCode::kUnsupported, "version " + std::to_string(version) +
                                                         " of the format is none of 1, 2, 3");
    return header;
  }
  const std::byte* const length = head.data() + kVersionEnd;
  const std::uint64_t bytes =
      version == 1 ? LoadOnceLe<std::uint16_t>(length) : LoadOnceLe<std::uint32_t>(length);
  const std::uint64_t begin = kVersionEnd + (version == 1 ? 2 : 4);
  if (bytes > kMostHeaderBytes) {
    header.status = Status(StatusCode::kDamaged,
                           "a header of " + std::to_string(bytes) + " bytes is out of bounds");
    return header;
  }
  header.need_bytes = static_cast<std::size_t>(begin + bytes);
  if (head.size() < header.need_bytes) return header;
  header.layout.header_bytes = begin + bytes;
  Facts facts;
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + begin,
                              static_cast<std::size_t>(bytes));
  if (!DictScanner(text).Read(&facts)) {
    header.status =
        Status(StatusCode::kDamaged, "the header is no dict of descr, fortran_order and shape");
  } else if (facts.structured) {
    header.status = Status(StatusCode::kUnsupported, "structured elements are not supported");
  } else {
    header.status = LayOut(facts, &header.layout);
    if (header.status.ok()) header.elements = ElementsOf(*facts.type);
    header.shape = std::move(*facts.shape);
    if (!header.elements) return header;
    Shape& row = header.elements->shape;
    row.assign(header.shape.begin() + (header.shape.empty() ? 0 : 1), header.shape.end());
    if ((*facts.type)[1] == 'c') row.push_back(2);
  }
  return header;
}

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
                    "the dimensions of a row after it if it has any, like npy:f4[3,2]");
}

std::string NpyHeaderOf(DType dtype, const Shape& shape) {
  constexpr std::array kTypes = {DType::kBool,  DType::kUInt8,   DType::kInt8,    DType::kUInt16,
                                 DType::kInt16, DType::kUInt32,  DType::kInt32,   DType::kUInt64,
                                 DType::kInt64, DType::kFloat16, DType::kFloat32, DType::kFloat64};
  static_assert(kTypes.size() == std::size(kElements));
  const auto* const found = std::ranges::find(kTypes, dtype);
  if (found == kTypes.end()) return {};
  std::string dimensions;
  for (const std::int64_t dimension : shape) dimensions += std::to_string(dimension) + ",";
  return HeaderText(kElements[found - kTypes.begin()].descr, dimensions, 0);
}

std::shared_ptr<const Format> NpyFormat(const NpyRow& row) {
  return std::make_shared<const Npy>(row);
}

}  // namespace ringfeed
