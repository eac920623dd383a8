#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/little_endian.h"
#include "base/memory/arena_advice.h"
#include "readers/formats/litdata/chunk.h"
#include "readers/formats/litdata/flat_buffer.h"
#include "readers/formats/samples/sample_framer.h"

namespace ringfeed {
namespace {

constexpr std::string_view kFileMagic = "ARROW1";
constexpr std::uint64_t kMostMetadata = std::uint64_t{1} << 26;
constexpr std::size_t kMostFields = 1 << 16;
constexpr std::size_t kMostFieldDepth = 32;
constexpr std::size_t kBlockBytes = 24;   // i64 place, i32 of its metadata, i64 of its body
constexpr std::size_t kPairBytes = 16;    // two i64: a node, a buffer
constexpr std::uint8_t kRecordBatch = 3;  // of a message's header
/// Of a block: what is in front of its metadata (0xFFFFFFFF and their bytes).
constexpr std::size_t kPrefixBytes = 8;

// Numbers of the union Type (Schema.fbs).
enum class ArrowType : std::uint8_t {
  kNull = 1,
  kInt = 2,
  kFloat = 3,
  kBinary = 4,
  kUtf8 = 5,
  kBool = 6,
  kList = 12,
  kStruct = 13,
  kLargeBinary = 19,
  kLargeUtf8 = 20,
  kLargeList = 21
};

/// A column, or one inside of it, as the schema has it.
struct ArrowField {
  std::string name;
  ArrowType type = ArrowType::kNull;
  bool wide = false;  ///< offsets of 64 bits
  std::vector<ArrowField> children;
};

/// The same in a batch: the bytes of its buffers.
struct ArrowColumn {
  const ArrowField* field = nullptr;
  std::uint64_t length = 0;
  std::span<const std::byte> valid;  ///< empty: all are
  std::span<const std::byte> offsets;
  std::span<const std::byte> data;
  std::vector<ArrowColumn> children;

  bool IsNull(std::uint64_t row) const {
    if (field->type == ArrowType::kNull) return true;
    return !valid.empty() && (std::to_integer<unsigned>(valid[row / 8]) >> row % 8 & 1) == 0;
  }
  std::uint64_t OffsetAt(std::uint64_t number) const {
    return field->wide ? LoadLe<std::uint64_t>(offsets.data() + number * 8)
                       : LoadLe<std::uint32_t>(offsets.data() + number * 4);
  }
  /// Where a row's bytes, or elements, begin and end; false if they lie elsewhere.
  bool Range(std::uint64_t row, std::uint64_t* begin, std::uint64_t* end) const {
    *begin = OffsetAt(row);
    *end = OffsetAt(row + 1);
    return *begin <= *end && *end <= (children.empty() ? data.size() : children[0].length);
  }
  bool IsTrue(std::uint64_t row) const {
    return (std::to_integer<unsigned>(data[row / 8]) >> row % 8 & 1) != 0;
  }
};

// Sets *why to what is not read.
bool ReadField(const FlatTable& table, std::size_t depth, std::size_t* left, ArrowField* field,
               std::string* why) {
  field->name = table.Text(0);
  field->type = static_cast<ArrowType>(table.Scalar<std::uint8_t>(2));
  const FlatTable type = table.Table(3);
  bool known = !table.Table(4).exists() && depth<kMostFieldDepth&& * left> 0;
  std::size_t children = 0;
  switch (field->type) {
    case ArrowType::kInt:
      known = known && type.Scalar<std::int32_t>(0) == 64 && type.Scalar<std::uint8_t>(1) != 0;
      break;
    case ArrowType::kFloat:
      known = known && type.Scalar<std::int16_t>(0) == 2;
      break;
    case ArrowType::kLargeBinary:
    case ArrowType::kLargeUtf8:
    case ArrowType::kLargeList:
      field->wide = true;
      children = field->type == ArrowType::kLargeList ? 1 : 0;
      break;
    case ArrowType::kList:
      children = 1;
      break;
    case ArrowType::kStruct:
      children = table.Tables(5);
      break;
    case ArrowType::kNull:
    case ArrowType::kBinary:
    case ArrowType::kUtf8:
    case ArrowType::kBool:
      break;
    default:
      known = false;
  }
  if (!known || children != table.Tables(5)) {
    *why = "its Arrow part has a column \"" + field->name + "\" of type " +
           std::to_string(static_cast<int>(field->type)) +
           ", which is not read: int64, double, bool, string, binary, lists and structs are";
    return false;
  }
  --*left;
  field->children.resize(children);
  for (std::size_t i = 0; i < children; ++i) {
    if (!ReadField(table.TableAt(5, i), depth + 1, left, &field->children[i], why)) return false;
  }
  return true;
}

/// Takes the nodes and buffers of a batch, column by column.
class BatchReader {
 public:
  BatchReader(const FlatTable& batch, std::span<const std::byte> body, const FrameInput& input,
              const FramerOptions& options)
      : nodes_(batch.Structs(1, kPairBytes)),
        buffers_(batch.Structs(2, kPairBytes)),
        compressed_(batch.Table(3).exists()),
        zstd_(batch.Table(3).Scalar<std::uint8_t>(0) == 1),
        body_(body),
        input_(input),
        options_(options) {}

  Status Read(const ArrowField& field, ArrowColumn* column);

 private:
  static Status Short(const ArrowField& field) {
    return Status(StatusCode::kDamaged, "its column \"" + field.name + "\" lacks bytes");
  }
  Status Buffer(std::span<const std::byte>* bytes);
  // `count` of so many bits each.
  static bool Has(std::span<const std::byte> bytes, std::uint64_t count, std::uint64_t bits) {
    return count / 8 * bits + (count % 8 * bits + 7) / 8 <= bytes.size();
  }

  std::span<const std::byte> nodes_;
  std::span<const std::byte> buffers_;
  const bool compressed_;
  const bool zstd_;
  const std::span<const std::byte> body_;
  const FrameInput& input_;
  const FramerOptions& options_;
};

// A compressed one begins with i64 bytes of its content, or -1: it is stored as it is.
Status BatchReader::Buffer(std::span<const std::byte>* bytes) {
  constexpr std::size_t kLengthBytes = 8;
  *bytes = {};
  if (buffers_.size() < kPairBytes) return Status(StatusCode::kDamaged, "it has too few buffers");
  const auto at = LoadLe<std::uint64_t>(buffers_.data());
  const auto length = LoadLe<std::uint64_t>(buffers_.data() + 8);
  buffers_ = buffers_.subspan(kPairBytes);
  if (at > body_.size() || length > body_.size() - at) {
    return Status(StatusCode::kDamaged, "a buffer reaches past its batch");
  }
  *bytes = body_.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(length));
  if (!compressed_ || length == 0) return {};
  if (length < kLengthBytes) return Status(StatusCode::kDamaged, "a buffer without its length");
  const auto told = LoadLe<std::int64_t>(bytes->data());
  *bytes = bytes->subspan(kLengthBytes);
  if (told == -1) return {};
  if (!zstd_) {
    return Status(StatusCode::kUnsupported,
                  "its buffers are compressed by lz4, which is not read: zstd is");
  }
  Status status = DecompressFrame(options_, *bytes, input_.memory, bytes);
  if (status.ok() && static_cast<std::int64_t>(bytes->size()) != told) {
    return Status(StatusCode::kDamaged, "a buffer has another length than it says");
  }
  return status;
}

Status BatchReader::Read(const ArrowField& field, ArrowColumn* column) {
  constexpr std::uint64_t kMostRows = std::uint64_t{1} << 40;
  column->field = &field;
  if (nodes_.size() < kPairBytes) return Status(StatusCode::kDamaged, "it has too few columns");
  column->length = LoadLe<std::uint64_t>(nodes_.data());
  const auto nulls = LoadLe<std::uint64_t>(nodes_.data() + 8);
  nodes_ = nodes_.subspan(kPairBytes);
  if (column->length > kMostRows) return Short(field);
  if (field.type == ArrowType::kNull) return {};
  Status status = Buffer(&column->valid);
  if (!status.ok()) return status;
  if (nulls == 0) column->valid = {};
  if (nulls != 0 && !Has(column->valid, column->length, 1)) return Short(field);
  const bool text = field.type == ArrowType::kBinary || field.type == ArrowType::kUtf8 ||
                    field.type == ArrowType::kLargeBinary || field.type == ArrowType::kLargeUtf8;
  const bool list = field.type == ArrowType::kList || field.type == ArrowType::kLargeList;
  if (text || list) {
    status = Buffer(&column->offsets);
    const bool has = Has(column->offsets, column->length + 1, field.wide ? 64 : 32);
    if (status.ok() && !has && column->length > 0) return Short(field);
  }
  if (status.ok() && !list && field.type != ArrowType::kStruct) status = Buffer(&column->data);
  const bool of_bits = field.type == ArrowType::kBool;
  if (status.ok() && !text && !list && field.type != ArrowType::kStruct &&
      !Has(column->data, column->length, of_bits ? 1 : 64)) {
    return Short(field);
  }
  column->children.resize(field.children.size());
  for (std::size_t i = 0; status.ok() && i < field.children.size(); ++i) {
    status = Read(field.children[i], &column->children[i]);
    if (status.ok() && !list && column->children[i].length < column->length) return Short(field);
  }
  return status;
}

/// Writes rows as items of a plain chunk.
class RowWriter {
 public:
  RowWriter(std::size_t most_bytes, std::vector<std::byte>* out)
      : most_bytes_(most_bytes), out_(out) {}

  /// Appends the value; false if it is null, or damaged.
  bool Append(const ArrowColumn& column, std::uint64_t row, bool as_json);
  bool full() const { return out_->size() > most_bytes_; }

 private:
  template <typename T>
  bool AppendNumber(T number) {
    std::array<std::byte, sizeof(T)> bytes;
    StoreLe(bytes.data(), number);
    return AppendBytes(bytes);
  }
  bool AppendBytes(std::span<const std::byte> bytes) {
    out_->insert(out_->end(), bytes.begin(), bytes.end());
    return !full();
  }
  bool AppendText(std::string_view text) { return AppendBytes(std::as_bytes(std::span(text))); }
  bool AppendJson(const ArrowColumn& column, std::uint64_t row);
  bool AppendDouble(double value);

  const std::size_t most_bytes_;
  std::vector<std::byte>* const out_;
};

bool RowWriter::Append(const ArrowColumn& column, std::uint64_t row, bool as_json) {
  if (as_json) return AppendJson(column, row);
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  if (column.IsNull(row)) return false;
  switch (column.field->type) {
    case ArrowType::kInt:
    case ArrowType::kFloat:
      return AppendBytes(column.data.subspan(static_cast<std::size_t>(row) * 8, 8));
    case ArrowType::kBool:
      return AppendNumber(static_cast<std::uint8_t>(column.IsTrue(row) ? 1 : 0));
    default:
      if (!column.Range(row, &begin, &end)) return false;
      return AppendBytes(column.data.subspan(static_cast<std::size_t>(begin),
                                             static_cast<std::size_t>(end - begin)));
  }
}

// As Python's json writes it.
bool RowWriter::AppendDouble(double value) {
  if (std::isnan(value)) return AppendText("NaN");
  if (std::isinf(value)) return AppendText(value < 0 ? "-Infinity" : "Infinity");
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  const std::string_view number(text.data(), static_cast<std::size_t>(written.ptr - text.data()));
  const bool whole = number.find_first_of(".e") == std::string_view::npos;
  return AppendText(number) && (!whole || AppendText(".0"));
}

bool RowWriter::AppendJson(const ArrowColumn& column, std::uint64_t row) {
  using Json = nlohmann::json;
  const ArrowField& field = *column.field;
  const auto quoted = [](std::string_view text) {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  if (column.IsNull(row)) return AppendText("null");
  switch (field.type) {
    case ArrowType::kInt:
      return AppendText(std::to_string(LoadLe<std::int64_t>(column.data.data() + row * 8)));
    case ArrowType::kFloat:
      return AppendDouble(LoadLe<double>(column.data.data() + row * 8));
    case ArrowType::kBool:
      return AppendText(column.IsTrue(row) ? "true" : "false");
    case ArrowType::kStruct: {
      bool fine = AppendText("{");
      for (std::size_t i = 0; fine && i < field.children.size(); ++i) {
        fine = AppendText((i > 0 ? ", " : "") + quoted(field.children[i].name) + ": ") &&
               AppendJson(column.children[i], row);
      }
      return fine && AppendText("}");
    }
    case ArrowType::kList:
    case ArrowType::kLargeList: {
      bool fine = column.Range(row, &begin, &end) && AppendText("[");
      for (std::uint64_t i = begin; fine && i < end; ++i) {
        fine = (i == begin || AppendText(", ")) && AppendJson(column.children[0], i);
      }
      return fine && AppendText("]");
    }
    default:
      return column.Range(row, &begin, &end) &&
             AppendText(quoted({reinterpret_cast<const char*>(column.data.data()) + begin,
                                static_cast<std::size_t>(end - begin)}));
  }
}

/// LDARW01: an Arrow IPC file behind an empty table of items.
class ArrowChunk final : public LitDataChunk {
 public:
  explicit ArrowChunk(const LitDataIndex& index) : leaves_(index.leaves) { layout_ = index.layout; }

  Status Read(const ReadChunkAt& read, std::uint64_t begin, std::uint64_t bytes,
              std::uint64_t items);

 private:
  /// A leaf of items: where it is found among the columns, and whether it is JSON.
  struct Leaf {
    std::vector<std::size_t> path;
    bool json = false;
  };

  Status DecodeUnit(const Unit& unit, const FrameInput& input, const FramerOptions& options,
                    std::vector<RecordSpan>* records) const override;
  void ReadFooter(std::span<const std::byte> footer);
  void ReadBatches(const ReadChunkAt& read, const FlatTable& footer, std::uint64_t begin,
                   std::uint64_t bytes, std::uint64_t items);
  bool FindLeaf(const LitDataIndex::Leaf& leaf);
  bool AppendRow(const std::vector<ArrowColumn>& columns, std::uint64_t row, RowWriter* writer,
                 std::vector<std::byte>* out) const;

  const std::vector<LitDataIndex::Leaf> leaves_;
  std::vector<Leaf> found_;
  std::vector<ArrowField> fields_;
};

// The batch of a message, whose bytes a block holds behind its prefix.
FlatTable BatchOf(std::span<const std::byte> metadata) {
  if (metadata.size() < kPrefixBytes) return {};
  const FlatTable message(metadata.subspan(kPrefixBytes));
  return message.Scalar<std::uint8_t>(1) == kRecordBatch ? message.Table(2) : FlatTable();
}

bool ArrowChunk::FindLeaf(const LitDataIndex::Leaf& leaf) {
  const std::vector<ArrowField>* among = &fields_;
  const ArrowField* at = nullptr;
  Leaf found{{}, leaf.encoding == "json"};
  for (const std::string& part : leaf.path) {
    const auto child = std::find_if(among->begin(), among->end(),
                                    [&](const ArrowField& one) { return one.name == part; });
    if (child == among->end()) return false;
    found.path.push_back(static_cast<std::size_t>(child - among->begin()));
    at = &*child;
    among = &child->children;
    if (&part != &leaf.path.back() && at->type != ArrowType::kStruct) return false;
  }
  if (at == nullptr) return false;
  const SampleEncoding encoding = EncodingOf(SampleFamily::kLitData, leaf.encoding);
  const bool nested = at->type == ArrowType::kList || at->type == ArrowType::kLargeList ||
                      at->type == ArrowType::kStruct;
  const bool number =
      at->type == ArrowType::kInt || at->type == ArrowType::kFloat || at->type == ArrowType::kBool;
  const auto type = at->type == ArrowType::kInt     ? DType::kInt64
                    : at->type == ArrowType::kFloat ? DType::kFloat64
                                                    : DType::kBool;
  const bool fits = at->type == ArrowType::kNull || found.json ||
                    (number ? encoding.dtype == type && !encoding.variable()
                            : !nested && encoding.kind == SampleEncoding::Kind::kBytes);
  found_.push_back(std::move(found));
  return fits;
}

void ArrowChunk::ReadFooter(std::span<const std::byte> bytes) {
  const FlatTable schema = FlatTable(bytes).Table(1);
  std::size_t left = kMostFields;
  std::string why;
  const std::size_t columns = schema.Tables(1);
  if (columns > kMostFields || !schema.exists()) why = "its Arrow part has no columns";
  for (std::size_t i = 0; why.empty() && i < columns; ++i) {
    fields_.emplace_back();
    if (!ReadField(schema.TableAt(1, i), 0, &left, &fields_.back(), &why)) break;
  }
  for (std::size_t i = 0; why.empty() && i < leaves_.size(); ++i) {
    if (FindLeaf(leaves_[i])) continue;
    why = "its Arrow part has no column for the leaf " + std::to_string(i) +
          " of its items, or one of another type than \"" + leaves_[i].encoding + "\"";
  }
  if (!why.empty()) hopeless_ = Status(StatusCode::kUnsupported, std::move(why));
}

void ArrowChunk::ReadBatches(const ReadChunkAt& read, const FlatTable& footer, std::uint64_t begin,
                             std::uint64_t bytes, std::uint64_t items) {
  const std::span<const std::byte> blocks = footer.Structs(3, kBlockBytes);
  std::uint64_t known = 0;
  std::size_t unknown = 0;
  std::vector<std::optional<std::uint32_t>> rows;
  for (std::size_t at = 0; at < blocks.size(); at += kBlockBytes) {
    const auto offset = LoadLe<std::uint64_t>(blocks.data() + at);
    const auto size = LoadLe<std::uint32_t>(blocks.data() + at + 8);
    std::vector<std::byte> metadata(
        size <= kMostMetadata && offset <= bytes && size <= bytes - offset ? size : 0);
    const bool is_read = !metadata.empty() && read(begin + offset, metadata).ok();
    const auto length = is_read ? BatchOf(metadata).Scalar<std::int64_t>(0) : 0;
    const bool fits = length > 0 && static_cast<std::uint64_t>(length) <= items - known;
    rows.push_back(fits ? std::optional(static_cast<std::uint32_t>(length)) : std::nullopt);
    known += rows.back().value_or(0);
    unknown += fits ? 0 : 1;
  }
  const std::uint64_t left = items - known;
  if (left != 0 && unknown != 1) {
    hopeless_ = Status(StatusCode::kDamaged, "its Arrow part has " + std::to_string(known) +
                                                 " rows, the chunk " + std::to_string(items));
    return;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::byte* const block = blocks.data() + i * kBlockBytes;
    const auto offset = LoadLe<std::uint64_t>(block);
    const std::uint64_t size = LoadLe<std::uint32_t>(block + 8);
    const auto body = LoadLe<std::uint64_t>(block + 16);
    const bool fits = offset <= bytes && body <= bytes && size + body <= bytes - offset;
    if (i == 0) head_bytes_ = begin;
    if (!rows[i] && left == 0) continue;
    AddUnit(fits ? begin + offset : begin + bytes, fits ? size + body : 1,
            rows[i].value_or(static_cast<std::uint32_t>(left)), begin + bytes,
            rows[i] ? "" : "the head of a batch of Arrow is none");
  }
}

Status ArrowChunk::Read(const ReadChunkAt& read, std::uint64_t begin, std::uint64_t bytes,
                        std::uint64_t items) {
  constexpr std::size_t kEnd = sizeof(std::uint32_t) + kFileMagic.size();
  std::array<std::byte, kFileMagic.size()> magic;
  std::array<std::byte, kEnd> end;
  if (bytes < kEnd + magic.size() || items > std::numeric_limits<std::uint32_t>::max() ||
      SampleTable::TableEnd(items) > begin) {
    hopeless_ = Status(StatusCode::kDamaged,
                       "its Arrow part has too few bytes, or stands where its items should");
    return {};
  }
  Status status = read(begin, magic);
  if (status.ok()) status = read(begin + bytes - kEnd, end);
  if (!status.ok()) return status;
  const auto is_magic = [](std::span<const std::byte> at) {
    return std::memcmp(at.data(), kFileMagic.data(), kFileMagic.size()) == 0;
  };
  const std::uint64_t footer_bytes = LoadLe<std::uint32_t>(end.data());
  if (!is_magic(std::span(end).subspan(sizeof(std::uint32_t))) ||
      footer_bytes > std::min(kMostMetadata, bytes - kEnd - magic.size())) {
    const bool stream = !is_magic(magic);
    hopeless_ = stream ? Status(StatusCode::kUnsupported,
                                "its Arrow part is a stream, as an early release wrote it: write "
                                "the data set anew")
                       : Status(StatusCode::kDamaged, "its Arrow part does not end as a file");
    return {};
  }
  std::vector<std::byte> footer(static_cast<std::size_t>(footer_bytes));
  status = read(begin + bytes - kEnd - footer_bytes, footer);
  if (!status.ok()) return status;
  ReadFooter(footer);
  if (hopeless_.ok()) ReadBatches(read, FlatTable(footer), begin, bytes, items);
  return {};
}

// The sizes of the columns, u32, then their bytes.
bool ArrowChunk::AppendRow(const std::vector<ArrowColumn>& columns, std::uint64_t row,
                           RowWriter* writer, std::vector<std::byte>* out) const {
  const std::size_t begin = out->size();
  out->resize(begin + sizeof(std::uint32_t) * found_.size());
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const Leaf& leaf = found_[i];
    const ArrowColumn* column = &columns[leaf.path[0]];
    for (std::size_t part = 1; part < leaf.path.size(); ++part) {
      if (column->IsNull(row)) return false;
      column = &column->children[leaf.path[part]];
    }
    const std::size_t before = out->size();
    if (!writer->Append(*column, row, leaf.json)) return false;
    StoreLe(out->data() + begin + i * sizeof(std::uint32_t),
            static_cast<std::uint32_t>(out->size() - before));
  }
  return true;
}

Status ArrowChunk::DecodeUnit(const Unit& unit, const FrameInput& input,
                              const FramerOptions& options,
                              std::vector<RecordSpan>* records) const {
  const auto no_batch = [] { return Status(StatusCode::kDamaged, "it is no batch of Arrow"); };
  if (input.bytes.size() < kPrefixBytes) return no_batch();
  const std::size_t metadata = LoadLe<std::uint32_t>(input.bytes.data() + 4);
  if (metadata > input.bytes.size() - kPrefixBytes) return no_batch();
  const FlatTable batch = BatchOf(input.bytes.first(kPrefixBytes + metadata));
  if (batch.Scalar<std::int64_t>(0) != unit.items) return no_batch();
  BatchReader reader(batch, input.bytes.subspan(kPrefixBytes + metadata), input, options);
  std::vector<ArrowColumn> columns(fields_.size());
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    Status status = reader.Read(fields_[i], &columns[i]);
    if (status.ok() && columns[i].length != unit.items) status = no_batch();
    if (!status.ok()) return status;
  }
  std::vector<std::byte> rows;
  std::vector<std::size_t> ends;
  RowWriter writer(options.max_record_bytes, &rows);
  std::vector<bool> whole;
  for (std::uint64_t row = 0; row < unit.items; ++row) {
    const std::size_t before = rows.size();
    whole.push_back(AppendRow(columns, row, &writer, &rows));
    if (writer.full()) return Status(StatusCode::kDamaged, "its rows exceed max_record_bytes");
    if (!whole.back()) rows.resize(before);
    ends.push_back(rows.size());
  }
  std::byte* const to = input.memory->Allocate(std::max<std::size_t>(1, rows.size()));
  if (to == nullptr) {
    return Status(StatusCode::kResourceExhausted,
                  NoMemoryFor("rows of " + std::to_string(rows.size()) + " bytes"));
  }
  if (!rows.empty()) std::memcpy(to, rows.data(), rows.size());
  for (std::size_t row = 0; row < ends.size(); ++row) {
    const std::size_t begin = row == 0 ? 0 : ends[row - 1];
    records->push_back(whole[row] ? RecordSpan{to + begin, ends[row] - begin} : RecordSpan());
  }
  return {};
}

}  // namespace

Status ReadArrowChunk(const ReadChunkAt& read, std::uint64_t begin, std::uint64_t bytes,
                      const LitDataIndex& index, std::uint64_t items,
                      std::shared_ptr<const LitDataChunk>* chunk) {
  auto arrow = std::make_shared<ArrowChunk>(index);
  Status status = arrow->Read(read, begin, bytes, items);
  *chunk = std::move(arrow);
  return status;
}

}  // namespace ringfeed
