#include "readers/formats/arrays/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/little_endian.h"

namespace ringfeed {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kVersionEnd = 8;
// Of the dict; NumPy itself writes some hundred bytes.
constexpr std::uint64_t kMostHeaderBytes = 64 * 1024;
constexpr std::size_t kMostDimensions = 64;  // NumPy's own limit
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

class Npy final : public Format {
 public:
  explicit Npy(const NpyRow& row) : row_(row) {}

  std::string_view name() const override { return "npy"; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(".npy");
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return head.size() >= kMagic.size() &&
           std::memcmp(head.data(), kMagic.data(), kMagic.size()) == 0;
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewArrayFramer(options, ReadNpyHeader);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return NewArrayUnitFramer(options);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> head) const override {
    return ArrayIndex(options, head, ReadNpyHeader);
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return NewNpyWriter(std::move(file), row_);
  }
  bool writes_in_order() const override { return false; }

 private:
  const NpyRow row_;
};

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

  /// False where it is no such dict.
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
    Take(' ');  // leads the text to the next thing that is no space
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
    if (facts->structured) return true;  // whatever follows, it cannot be used
    if (Take(',')) continue;
    if (!Take('}')) return false;
    break;
  }
  Take(' ');
  return text_.empty() && facts->type && facts->fortran_order && facts->shape;
}

// Bytes of one element of a type like "<f4", "|b1", "<U5", "<M8[ns]"; 0 where it is none.
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

Status Refused(StatusCode code, std::string reason) { return Status(code, std::move(reason)); }

// Types that elements of the type stand for as they are; of texts and the like nothing is known.
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
      {"c16", {DType::kFloat64}},  // as well
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
    return Refused(StatusCode::kUnsupported,
                   "elements of type \"" + *facts.type +
                       "\" are not supported: only numbers, texts and times of a fixed size are");
  }
  // Dimensions of zero first: whatever the others are, there is no row, or none with bytes.
  const std::uint64_t rows = shape.empty() ? 1 : shape[0];
  std::uint64_t row_bytes = item;
  for (std::size_t i = 1; i < shape.size() && row_bytes != 0; ++i) {
    if (shape[i] > kMostBytes / row_bytes) {
      return Refused(StatusCode::kDamaged, "the shape is out of bounds");
    }
    row_bytes *= shape[i];
  }
  if (rows != 0 && row_bytes == 0) {
    return Refused(StatusCode::kUnsupported, "rows without any bytes are not supported");
  }
  if (row_bytes != 0 && rows > kMostBytes / row_bytes) {
    return Refused(StatusCode::kDamaged, "the shape is out of bounds");
  }
  layout->item_bytes = item;
  layout->row_bytes = std::max<std::uint64_t>(row_bytes, 1);
  layout->data_bytes = rows * row_bytes;
  if (*facts.fortran_order && shape.size() > 1 && layout->data_bytes != 0) {
    layout->column_major = shape;
  }
  return {};
}

}  // namespace

ArrayHeader ReadNpyHeader(std::span<const std::byte> head) {
  ArrayHeader header;
  header.need_bytes = kVersionEnd + 4;
  if (head.size() < header.need_bytes) return header;
  if (std::memcmp(head.data(), kMagic.data(), kMagic.size()) != 0) {
    header.status = Refused(StatusCode::kDamaged, "the magic number is not that of NumPy");
    return header;
  }
  const auto version = Settled(std::to_integer<unsigned>(head[kMagic.size()]));
  if (version < 1 || version > 3 || head[kMagic.size() + 1] != std::byte{0}) {
    header.status = Refused(StatusCode::kUnsupported, "version " + std::to_string(version) +
                                                          " of the format is none of 1, 2, 3");
    return header;
  }
  const std::byte* const length = head.data() + kVersionEnd;
  const std::uint64_t bytes =
      version == 1 ? LoadOnceLe<std::uint16_t>(length) : LoadOnceLe<std::uint32_t>(length);
  const std::uint64_t begin = kVersionEnd + (version == 1 ? 2 : 4);
  if (bytes > kMostHeaderBytes) {
    header.status = Refused(StatusCode::kDamaged,
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
        Refused(StatusCode::kDamaged, "the header is no dict of descr, fortran_order and shape");
  } else if (facts.structured) {
    header.status = Refused(StatusCode::kUnsupported, "structured elements are not supported");
  } else {
    header.status = LayOut(facts, &header.layout);
    if (header.status.ok()) header.elements = ElementsOf(*facts.type);
  }
  return header;
}

std::shared_ptr<const Format> NpyFormat(const NpyRow& row) {
  return std::make_shared<const Npy>(row);
}

}  // namespace ringfeed
