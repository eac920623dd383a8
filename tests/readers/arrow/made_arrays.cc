#include "tests/readers/arrow/made_arrays.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace ringfeed {
namespace {

/// The target of private_data, and all that is pointed to.
template <typename Structure>
struct Exported {
  MadeColumn column;
  std::vector<std::unique_ptr<char[]>> memory;
  std::vector<const void*> buffers;
  std::vector<Structure> children;
  std::vector<Structure*> pointers;
  Structure dictionary{};
  MadeCounts* counts = nullptr;
};

template <typename Structure>
void Release(Structure* self) {
  auto* const own = static_cast<Exported<Structure>*>(self->private_data);
  for (Structure& child : own->children) {
    if (child.release != nullptr) child.release(&child);
  }
  if (own->dictionary.release != nullptr) own->dictionary.release(&own->dictionary);
  if (own->counts != nullptr) ++own->counts->released;
  self->release = nullptr;
  delete own;
}

template <typename Structure, typename Make>
Structure Export(const MadeColumn& column, MadeCounts* counts, Make make) {
  auto* const own = new Exported<Structure>{column, {}, {}, {}, {}, {}, counts};
  Structure made{};
  for (const MadeColumn& child : column.children) own->children.push_back(make(child));
  for (Structure& child : own->children) own->pointers.push_back(&child);
  made.n_children = static_cast<std::int64_t>(own->pointers.size());
  made.children = own->pointers.data();
  if (!column.dictionary.empty()) {
    own->dictionary = make(column.dictionary[0]);
    made.dictionary = &own->dictionary;
  }
  made.private_data = own;
  made.release = &Release<Structure>;
  if (counts != nullptr) ++counts->made;
  return made;
}

std::string RandomBytes(std::size_t bytes, std::mt19937_64* random) {
  std::string made(bytes, '\0');
  for (char& byte : made) byte = static_cast<char>((*random)());
  return made;
}

std::int64_t Below(std::int64_t end, std::mt19937_64* random) {
  return static_cast<std::int64_t>((*random)() % static_cast<std::uint64_t>(end));
}

template <typename Number>
void Put(Number number, std::string* to) {
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void SetBit(std::string* bits, std::int64_t at, bool value) {
  char& byte = (*bits)[static_cast<std::size_t>(at / 8)];
  const auto mask = static_cast<unsigned>(1U << (at % 8));
  byte = static_cast<char>(value ? static_cast<unsigned char>(byte) | mask
                                 : static_cast<unsigned char>(byte) & ~mask);
}

/// Makes the rows of one column.
class RowMaker {
 public:
  RowMaker(std::int64_t rows, bool nulls, bool null_elements, std::mt19937_64* random)
      : rows_(rows),
        random_(random),
        offset_(Below(20, random)),
        nulls_(nulls),
        null_elements_(null_elements) {
    made_.column.length = rows;
    made_.column.offset = offset_;
    made_.values.resize(static_cast<std::size_t>(rows));
    made_.column.buffers = {std::nullopt};
    if (!nulls) return;
    std::string bits = RandomBytes(static_cast<std::size_t>(end() / 8 + 1), random);
    for (std::int64_t row = 0; row < rows; ++row) {
      is_null_.push_back(Below(8, random) == 0);
      SetBit(&bits, offset_ + row, !is_null_.back());
    }
    made_.column.null_count =
        Below(2, random) == 0 ? -1 : std::count(is_null_.begin(), is_null_.end(), true);
    if (made_.column.null_count == 0) made_.column.null_count = -1;
    made_.column.buffers[0] = std::move(bits);
  }

  MadeRows Make(const std::string& kind);

 private:
  std::int64_t end() const { return offset_ + rows_; }
  bool IsNull(std::int64_t row) const { return nulls_ && is_null_[static_cast<std::size_t>(row)]; }
  MadeValue& value(std::int64_t row) { return made_.values[static_cast<std::size_t>(row)]; }
  std::string& Buffer() { return made_.column.buffers.emplace_back("").value(); }
  MadeRows Elements(const std::string& kind, std::int64_t rows) {
    MadeRows child = MakeRows(kind, rows, null_elements_, random_, null_elements_);
    child.column.name = "item";
    return child;
  }
  MadeRows Child(const std::string& kind, std::int64_t rows) {
    MadeRows child =
        MakeRows(kind, rows, nulls_ && Below(2, random_) == 0, random_, null_elements_);
    child.column.name = "item";
    return child;
  }
  void Numbers(std::size_t width);
  void Bits();
  void Decimals(std::size_t width);
  void Bytes(bool wide);
  void Views();
  void FixedLists(std::int64_t size, const std::string& kind);
  void Lists(bool wide, const std::string& kind);
  void ListViews(bool wide, const std::string& kind);
  void Dictionary(const std::string& kind);
  void Struct(const std::string& kind);
  /// The joined values of a list's elements.
  static MadeValue Join(const MadeRows& child, std::int64_t first, std::int64_t count);

  const std::int64_t rows_;
  std::mt19937_64* const random_;
  const std::int64_t offset_;
  const bool nulls_;
  const bool null_elements_;
  std::vector<bool> is_null_;
  MadeRows made_;
};

MadeValue RowMaker::Join(const MadeRows& child, std::int64_t first, std::int64_t count) {
  std::string joined;
  for (std::int64_t i = first; i < first + count; ++i) {
    const MadeValue& value = child.values.at(static_cast<std::size_t>(i));
    joined += value.value_or(std::string(child.row_bytes, '\0'));
  }
  return joined;
}

void RowMaker::Numbers(std::size_t width) {
  made_.row_bytes = width;
  const std::string bytes = RandomBytes(width * static_cast<std::size_t>(end()), random_);
  Buffer() = bytes;
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (!IsNull(row))
      value(row) = bytes.substr(static_cast<std::size_t>(offset_ + row) * width, width);
  }
}

void RowMaker::Bits() {
  made_.row_bytes = 1;
  std::string bits = RandomBytes(static_cast<std::size_t>((end() + 7) / 8), random_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const bool is_set = Below(2, random_) == 1;
    SetBit(&bits, offset_ + row, is_set);
    if (!IsNull(row)) value(row) = std::string(1, is_set ? '\1' : '\0');
  }
  Buffer() = bits;
}

void RowMaker::Decimals(std::size_t width) {
  made_.row_bytes = sizeof(std::int64_t);
  std::string bytes = RandomBytes(width * static_cast<std::size_t>(offset_), random_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    auto number = static_cast<std::int64_t>((*random_)());
    if (width == 4) number = static_cast<std::int32_t>(number);
    std::string value_bytes;
    Put(number, &value_bytes);
    if (!IsNull(row)) value(row) = value_bytes;
    value_bytes.resize(std::max<std::size_t>(width, 8), number < 0 ? '\xFF' : '\0');
    bytes += value_bytes.substr(0, width);
  }
  Buffer() = bytes;
}

void RowMaker::Bytes(bool wide) {
  std::string offsets;
  std::string data = RandomBytes(static_cast<std::size_t>(Below(9, random_)), random_);
  const auto put = [&] {
    if (wide) {
      Put(static_cast<std::int64_t>(data.size()), &offsets);
    } else {
      Put(static_cast<std::int32_t>(data.size()), &offsets);
    }
  };
  for (std::int64_t at = 0; at < offset_; ++at) put();
  put();
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::string text = RandomBytes(static_cast<std::size_t>(Below(20, random_)), random_);
    if (!IsNull(row)) value(row) = text;
    data += text;
    put();
  }
  Buffer() = offsets;
  Buffer() = data;
}

void RowMaker::Views() {
  std::string views = RandomBytes(16 * static_cast<std::size_t>(offset_), random_);
  std::vector<std::string> data(1 + static_cast<std::size_t>(Below(3, random_)));
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::string text = RandomBytes(static_cast<std::size_t>(Below(30, random_)), random_);
    if (IsNull(row)) {
      views += RandomBytes(16, random_);
      continue;
    }
    value(row) = text;
    std::string view;
    Put(static_cast<std::int32_t>(text.size()), &view);
    if (text.size() <= 12) {
      view += text;
      view.resize(16);
    } else {
      const auto buffer =
          static_cast<std::size_t>(Below(static_cast<std::int64_t>(data.size()), random_));
      view += text.substr(0, 4);
      Put(static_cast<std::int32_t>(buffer), &view);
      Put(static_cast<std::int32_t>(data[buffer].size()), &view);
      data[buffer] += text;
    }
    views += view;
  }
  Buffer() = views;
  std::string lengths;
  for (const std::string& each : data) {
    Put(static_cast<std::int64_t>(each.size()), &lengths);
    Buffer() = each;
  }
  Buffer() = lengths;
}

void RowMaker::FixedLists(std::int64_t size, const std::string& kind) {
  MadeRows child = Elements(kind, end() * size);
  made_.row_bytes = child.row_bytes * static_cast<std::size_t>(size);
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (!IsNull(row)) value(row) = Join(child, (offset_ + row) * size, size);
  }
  made_.column.children = {std::move(child.column)};
}

void RowMaker::Lists(bool wide, const std::string& kind) {
  const std::int64_t elements = rows_ * 3 + 5;
  MadeRows child = Elements(kind, elements);
  std::string offsets;
  std::int64_t at = Below(4, random_);
  const auto put = [&] {
    if (wide) {
      Put(at, &offsets);
    } else {
      Put(static_cast<std::int32_t>(at), &offsets);
    }
  };
  for (std::int64_t i = 0; i < offset_; ++i) put();
  put();
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t count = std::min(Below(5, random_), elements - at);
    if (!IsNull(row)) value(row) = Join(child, at, count);
    at += count;
    put();
  }
  Buffer() = offsets;
  made_.column.children = {std::move(child.column)};
}

void RowMaker::ListViews(bool wide, const std::string& kind) {
  const std::int64_t elements = 20;
  MadeRows child = Elements(kind, elements);
  std::string offsets;
  std::string sizes;
  for (std::int64_t i = 0; i < end(); ++i) {
    const std::int64_t first = Below(elements, random_);
    const std::int64_t count = Below(elements - first + 1, random_);
    if (i >= offset_ && !IsNull(i - offset_)) value(i - offset_) = Join(child, first, count);
    for (const auto& [number, to] : {std::pair(first, &offsets), std::pair(count, &sizes)}) {
      if (wide) {
        Put(number, to);
      } else {
        Put(static_cast<std::int32_t>(number), to);
      }
    }
  }
  Buffer() = offsets;
  Buffer() = sizes;
  made_.column.children = {std::move(child.column)};
}

void RowMaker::Dictionary(const std::string& kind) {
  const std::int64_t count = 1 + Below(6, random_);
  MadeRows values = Child(kind, count);
  std::string indices = RandomBytes(static_cast<std::size_t>(offset_), random_);
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::int64_t index = Below(count, random_);
    if (!IsNull(row)) value(row) = values.values[static_cast<std::size_t>(index)];
    indices += static_cast<char>(IsNull(row) ? 200 : index);
  }
  Buffer() = indices;
  made_.column.format = "C";
  made_.column.dictionary = {std::move(values.column)};
}

void RowMaker::Struct(const std::string& kind) {
  MadeRows member = Child(kind, end());
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (!IsNull(row)) value(row) = member.values[static_cast<std::size_t>(offset_ + row)];
  }
  made_.column.children = {std::move(member.column)};
  made_.column.format = "+s";
}

MadeRows RowMaker::Make(const std::string& kind) {
  const std::string format = kind.substr(0, kind.find(' '));
  const std::string rest = kind.size() > format.size() ? kind.substr(format.size() + 1) : "";
  made_.column.format = format;
  const auto width = [&]() -> std::size_t {
    if (format.starts_with("w:")) return static_cast<std::size_t>(std::stoll(format.substr(2)));
    if (format == "tdD" || format == "tts" || format == "ttm") return 4;
    const std::string widths = "cCsSiIlLefg";
    const std::size_t at = widths.find(format[0]);
    return at == std::string::npos ? 8
                                   : std::vector<std::size_t>{1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8}[at];
  };
  if (format == "b") {
    Bits();
  } else if (format.starts_with("d:")) {
    const std::size_t comma = format.rfind(',');
    const std::string bits =
        std::count(format.begin(), format.end(), ',') == 2 ? format.substr(comma + 1) : "128";
    Decimals(static_cast<std::size_t>(std::stoll(bits)) / 8);
  } else if (format == "u" || format == "z" || format == "U" || format == "Z") {
    Bytes(format == "U" || format == "Z");
  } else if (format == "vu" || format == "vz") {
    Views();
  } else if (format.starts_with("+w:")) {
    FixedLists(std::stoll(format.substr(3)), rest);
  } else if (format == "+l" || format == "+L") {
    Lists(format == "+L", rest);
  } else if (format == "+vl" || format == "+vL") {
    ListViews(format == "+vL", rest);
  } else if (format == "dictionary") {
    Dictionary(rest);
  } else if (format == "struct") {
    Struct(rest);
  } else {
    Numbers(width());
  }
  return std::move(made_);
}

/// The target of a stream's private_data.
struct MadeStream {
  std::vector<MadeColumn> arrays;
  std::string failure;
  MadeCounts* counts = nullptr;
  std::size_t at = 0;

  static MadeStream* Of(ArrowArrayStream* stream) {
    return static_cast<MadeStream*>(stream->private_data);
  }
};

}  // namespace

ArrowSchema MakeSchema(const MadeColumn& column) {
  ArrowSchema made = Export<ArrowSchema>(column, nullptr, MakeSchema);
  const MadeColumn& own = static_cast<Exported<ArrowSchema>*>(made.private_data)->column;
  made.format = own.format.c_str();
  made.name = own.name.c_str();
  made.flags = ARROW_FLAG_NULLABLE;
  return made;
}

ArrowArray MakeArray(const MadeColumn& column, MadeCounts* counts) {
  ArrowArray made = Export<ArrowArray>(
      column, counts, [&](const MadeColumn& child) { return MakeArray(child, counts); });
  auto* const own = static_cast<Exported<ArrowArray>*>(made.private_data);
  for (const auto& buffer : column.buffers) {
    if (!buffer) {
      own->buffers.push_back(nullptr);
      continue;
    }
    own->memory.emplace_back(new char[buffer->size()]);
    std::memcpy(own->memory.back().get(), buffer->data(), buffer->size());
    own->buffers.push_back(own->memory.back().get());
  }
  made.length = column.length;
  made.offset = column.offset;
  made.null_count = column.null_count;
  made.n_buffers = static_cast<std::int64_t>(own->buffers.size());
  made.buffers = own->buffers.data();
  return made;
}

MadeRows MakeRows(const std::string& kind, std::int64_t rows, bool nulls, std::mt19937_64* random,
                  bool null_elements) {
  return RowMaker(rows, nulls, null_elements, random).Make(kind);
}

MadeColumn StructOf(std::vector<MadeColumn> members, std::int64_t rows) {
  MadeColumn made;
  made.format = "+s";
  made.length = rows;
  made.buffers = {std::nullopt};
  made.children = std::move(members);
  return made;
}

ArrowArrayStream MakeStream(std::vector<MadeColumn> arrays, std::string failure,
                            MadeCounts* counts) {
  ArrowArrayStream stream{};
  stream.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
    *out = MakeSchema(MadeStream::Of(self)->arrays.at(0));
    return 0;
  };
  stream.get_next = [](ArrowArrayStream* self, ArrowArray* out) {
    MadeStream& own = *MadeStream::Of(self);
    if (own.at == own.arrays.size()) {
      *out = {};
      return own.failure.empty() ? 0 : EIO;
    }
    *out = MakeArray(own.arrays[own.at++], own.counts);
    return 0;
  };
  stream.get_last_error = [](ArrowArrayStream* self) {
    return MadeStream::Of(self)->failure.c_str();
  };
  stream.release = [](ArrowArrayStream* self) {
    MadeStream* const own = MadeStream::Of(self);
    if (own->counts != nullptr) ++own->counts->released;
    delete own;
    self->release = nullptr;
  };
  if (counts != nullptr) ++counts->made;
  stream.private_data = new MadeStream{std::move(arrays), std::move(failure), counts};
  return stream;
}

}  // namespace ringfeed
