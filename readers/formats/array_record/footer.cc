#include "readers/formats/array_record/footer.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "readers/formats/array_record/chunk.h"
#include "readers/formats/builders/wire_format.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kFileBlock = RiegeliLayout::kBlockBytes;
// Of a footer, stored or decoded: some 100 million chunks.
constexpr std::uint64_t kMostFooter = std::uint64_t{1} << 30;
// Each record takes memory, and a footer may lie.
constexpr std::uint64_t kMostChunkRecords = std::uint64_t{1} << 20;
// The postscript is in the first bytes of its block: a block's header, a chunk's, and three times
// two varints.
constexpr std::size_t kPostscriptBytes = 256;
// Field 2 of a postscript, 0x71930e704fdae05e as a varint.
constexpr std::array<unsigned char, 10> kMagic = {0x10, 0xde, 0xc0, 0xeb, 0xfe,
                                                  0x84, 0xce, 0xc3, 0xc9, 0x71};
constexpr unsigned char kOffsetTag = WireTag(1, WireType::kVarint);
constexpr std::size_t kMostOffsetBytes = 10;

std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The numbers and texts of a message's first fields; false if it is none.
struct Fields {
  std::array<std::uint64_t, 5> numbers{};
  std::array<std::span<const std::byte>, 5> texts{};
};
bool ReadFields(std::span<const std::byte> message, Fields* fields) {
  WireReader reader(message);
  while (!reader.done()) {
    std::uint32_t tag = 0;
    if (!reader.ReadTag(&tag)) return false;
    const std::uint32_t field = tag >> 3;
    const bool known = field < fields->numbers.size();
    if (known && tag == WireTag(field, WireType::kVarint)) {
      if (!reader.ReadVarint(&fields->numbers[field])) return false;
    } else if (known && tag == WireTag(field, WireType::kDelimited)) {
      if (!reader.ReadDelimited(&fields->texts[field])) return false;
    } else if (!reader.Skip(tag)) {
      return false;
    }
  }
  return true;
}

// All places of footers that copies of the postscript name.
std::vector<std::uint64_t> FootersIn(std::span<const std::byte> postscript) {
  const std::string_view text = TextOf(postscript);
  const std::string_view magic(reinterpret_cast<const char*>(kMagic.data()), kMagic.size());
  std::vector<std::uint64_t> places;
  for (std::size_t at = text.find(magic); at != text.npos; at = text.find(magic, at + 1)) {
    for (std::size_t bytes = 1; bytes <= kMostOffsetBytes && bytes < at; ++bytes) {
      WireReader reader(postscript.subspan(at - bytes, bytes));
      std::uint64_t place = 0;
      if (static_cast<unsigned char>(text[at - bytes - 1]) != kOffsetTag) continue;
      if (reader.ReadVarint(&place) && reader.done()) places.push_back(place);
    }
  }
  return places;
}

}  // namespace

/// Reads a footer into `made`.
class ArrayRecordFooter::Builder {
 public:
  Builder(const ReadPart& read, ArrayRecordFooter* made) : read_(read), made_(*made) {}

  /// Fails as ArrayRecordFooter::Read.
  Status Build();

 private:
  Status ReadExactly(std::uint64_t offset, std::uint64_t bytes, std::vector<std::byte>* to) const;
  /// `wrong` gets why there is no footer.
  Status BuildFrom(std::uint64_t place, std::string* wrong);
  Status Parse(const RiegeliRecords& records, std::uint64_t place, std::string* wrong);
  /// Takes what the footer says first of all, or of a chunk.
  Status TakeHead(std::span<const std::byte> message, std::string* wrong);
  void TakeChunk(std::span<const std::byte> message, std::uint64_t place, std::string* wrong);

  const ReadPart& read_;
  ArrayRecordFooter& made_;
  std::uint64_t promised_chunks_ = 0;
  std::uint64_t promised_records_ = 0;
};

Status ArrayRecordFooter::Builder::ReadExactly(std::uint64_t offset, std::uint64_t bytes,
                                               std::vector<std::byte>* to) const {
  std::size_t got = 0;
  to->resize(static_cast<std::size_t>(bytes));
  Status status = read_(offset, *to, &got);
  if (!status.ok() || got == to->size()) return status;
  return Status(StatusCode::kTruncated, "the file shrank while its footer was read");
}

Status ArrayRecordFooter::Builder::Build() {
  const std::uint64_t bytes = made_.file_bytes_;
  if (bytes % kFileBlock != 0 || bytes < 2 * kFileBlock) {
    made_.hopeless_ = Status(StatusCode::kTruncated,
                             "an ArrayRecord file has at least two blocks of 64 KiB, all whole, "
                             "not " +
                                 std::to_string(bytes) + " bytes: it was cut");
    return {};
  }
  std::vector<std::byte> postscript;
  Status status = ReadExactly(bytes - kFileBlock, kPostscriptBytes, &postscript);
  std::string first_wrong;
  for (const std::uint64_t place : FootersIn(postscript)) {
    std::string wrong;
    if (status.ok()) status = BuildFrom(place, &wrong);
    if (!status.ok() || wrong.empty()) return status;
    if (first_wrong.empty()) first_wrong = std::move(wrong);
  }
  made_.hopeless_ =
      first_wrong.empty()
          ? Status(StatusCode::kTruncated,
                   "its last 64 KiB hold no postscript of ArrayRecord, so nothing tells where its "
                   "records are: the file was cut, or it is another one of Riegeli")
          : Status(StatusCode::kDamaged,
                   "its footer is damaged, so nothing tells where its records "
                   "are: " +
                       first_wrong);
  return status;
}

Status ArrayRecordFooter::Builder::BuildFrom(std::uint64_t place, std::string* wrong) {
  const std::uint64_t end = made_.file_bytes_ - kFileBlock;
  if (place < RiegeliLayout::kFirstChunk || place >= end) {
    *wrong = "the postscript has it at " + std::to_string(place);
    return {};
  }
  std::vector<std::byte> bytes;
  const std::uint64_t head = std::min<std::uint64_t>(RiegeliLayout::kLongestHeader, end - place);
  Status status = ReadExactly(place, head, &bytes);
  if (!status.ok()) return status;
  RiegeliChunk chunk;
  ChunkProblem problem = ReadRiegeliHeader(bytes, place, &chunk);
  if (problem.ok() && (chunk.file_bytes > end - place || chunk.file_bytes > kMostFooter)) {
    problem.reason = "it has " + std::to_string(chunk.stored_bytes) + " bytes";
  }
  HeapFrameMemory memory;
  RiegeliReader reader;
  RiegeliRecords records;
  if (problem.ok()) {
    status = ReadExactly(place, chunk.file_bytes, &bytes);
    if (!status.ok()) return status;
    FrameInput input{bytes, place};
    input.memory = &memory;
    problem = reader.Read(input, RiegeliReader::kAnyNumber, kMostFooter, &records);
  }
  if (problem.fatal) return Status(problem.code, problem.reason);
  *wrong = std::move(problem.reason);
  return wrong->empty() ? Parse(records, place, wrong) : Status();
}

Status ArrayRecordFooter::Builder::Parse(const RiegeliRecords& records, std::uint64_t place,
                                         std::string* wrong) {
  WireReader sizes(records.sizes);
  std::span<const std::byte> values = records.values;
  made_.begins_.clear();
  made_.firsts_.clear();
  made_.records_ = 0;
  for (std::uint64_t i = 0; i < records.count && wrong->empty(); ++i) {
    std::uint64_t size = 0;
    if (!sizes.ReadVarint(&size) || size > values.size()) {
      *wrong = "its records are longer than it is";
      break;
    }
    const std::span<const std::byte> message = values.first(static_cast<std::size_t>(size));
    values = values.subspan(message.size());
    if (i > 0) {
      TakeChunk(message, place, wrong);
    } else if (Status status = TakeHead(message, wrong); !status.ok()) {
      return status;
    }
  }
  const bool all = records.count > 0 && records.count - 1 == promised_chunks_ &&
                   made_.records_ == promised_records_ && sizes.done() && values.empty();
  if (wrong->empty() && !all) {
    *wrong = "it promises " + std::to_string(promised_records_) + " records in " +
             std::to_string(promised_chunks_) + " chunks, and has others";
  }
  std::vector<std::uint64_t>& firsts = made_.firsts_;
  if (!wrong->empty() || firsts.empty()) return {};
  made_.begins_.push_back(place);
  firsts.push_back(made_.records_);
  made_.group_ = firsts[1];
  for (std::uint64_t i = 1; i + 1 < firsts.size(); ++i) {
    if (firsts[i] != i * made_.group_) made_.group_ = 0;
  }
  const bool even = made_.group_ != 0 && made_.RecordsOf(firsts.size() - 2) <= made_.group_;
  if (!even) made_.group_ = 0;
  if (even) firsts = {};
  return {};
}

Status ArrayRecordFooter::Builder::TakeHead(std::span<const std::byte> message,
                                            std::string* wrong) {
  Fields outer;
  Fields head;
  if (!ReadFields(message, &outer) || !ReadFields(outer.texts[1], &head)) {
    *wrong = "its first record is no metadata";
  } else if (head.numbers[1] != 1) {
    return Status(StatusCode::kUnsupported, "the file is of version " +
                                                std::to_string(head.numbers[1]) +
                                                " of ArrayRecord: version 1 is read");
  } else if (TextOf(head.texts[4]).find("transpose:true") != std::string_view::npos) {
    return Status(StatusCode::kUnsupported,
                  "the file is an ArrayRecord whose chunks are transposed (transpose:true), which "
                  "is not read here\nwrite its records again with transpose:false: "
                  "ArrayRecordWriter(path, \"group_size:1\")");
  }
  promised_chunks_ = head.numbers[2];
  promised_records_ = head.numbers[3];
  return {};
}

void ArrayRecordFooter::Builder::TakeChunk(std::span<const std::byte> message, std::uint64_t place,
                                           std::string* wrong) {
  Fields chunk;
  const std::vector<std::uint64_t>& begins = made_.begins_;
  const std::uint64_t after = begins.empty() ? RiegeliLayout::kFirstChunk - 1 : begins.back();
  if (!ReadFields(message, &chunk) || chunk.numbers[1] <= after || chunk.numbers[1] >= place) {
    *wrong = "it has a chunk at " + std::to_string(chunk.numbers[1]) + " after one at " +
             std::to_string(after);
  } else if (chunk.numbers[3] > kMostChunkRecords) {
    *wrong = "it has a chunk of " + std::to_string(chunk.numbers[3]) + " records, more than " +
             std::to_string(kMostChunkRecords);
  } else if (chunk.numbers[3] > 0) {
    made_.begins_.push_back(chunk.numbers[1]);
    made_.firsts_.push_back(made_.records_);
    made_.records_ += chunk.numbers[3];
  }
}

Status ArrayRecordFooter::Read(std::uint64_t file_bytes, const ReadPart& read,
                               std::shared_ptr<const ArrayRecordFooter>* footer) {
  auto made = std::make_shared<ArrayRecordFooter>();
  made->file_bytes_ = file_bytes;
  Status status = Builder(read, made.get()).Build();
  if (!made->hopeless_.ok()) {
    made->begins_ = made->firsts_ = {};
    made->records_ = 0;
  }
  *footer = std::move(made);
  return status;
}

std::uint64_t ArrayRecordFooter::first_record(std::uint64_t chunk) const {
  if (!firsts_.empty()) return firsts_[chunk];
  return std::min(chunk * group_, records_);
}

std::uint64_t ArrayRecordFooter::ChunkOf(std::uint64_t record) const {
  if (firsts_.empty()) return record / group_;
  const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), record);
  return static_cast<std::uint64_t>(after - firsts_.begin()) - 1;
}

std::uint64_t ArrayRecordFooter::ChunkFrom(std::uint64_t offset) const {
  if (begins_.empty()) return 0;
  return static_cast<std::uint64_t>(std::lower_bound(begins_.begin(), begins_.end() - 1, offset) -
                                    begins_.begin());
}

ArrayRecordPlaces::ArrayRecordPlaces(std::shared_ptr<const ArrayRecordFooter> footer)
    : footer_(std::move(footer)) {
  if (footer_->hopeless().ok() || footer_->file_bytes() == 0) return;
  damage_.push_back(
      {0, footer_->file_bytes(), IndexDamage::kNoRecord, footer_->hopeless().message()});
}

Status ArrayRecordPlaces::Find(std::span<const std::uint64_t> records,
                               std::span<RecordUnit> units) const {
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::uint64_t chunk = footer_->ChunkOf(records[i]);
    units[i] = {.offset = footer_->begin(chunk),
                .bytes = footer_->begin(chunk + 1) - footer_->begin(chunk),
                .first_record = footer_->first_record(chunk),
                .records = footer_->RecordsOf(chunk)};
  }
  return {};
}

Status ArrayRecordPlaces::FirstFrom(std::uint64_t offset, std::uint64_t* record) const {
  const std::uint64_t chunk = footer_->ChunkFrom(offset);
  *record = chunk == footer_->chunks() ? records() : footer_->first_record(chunk);
  return {};
}

}  // namespace ringfeed
