#include "readers/formats/tokens/megatron.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "io/remote/remote_source.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

constexpr char kMagic[] = "MMIDIDX\0";  // and the zero that ends it: 9 bytes
constexpr std::string_view kIndexEnding = ".idx";
constexpr std::string_view kDataEnding = ".bin";  // as long as the other one

/// The element types that Megatron-LM numbers, from 1.
constexpr DType kElementTypes[] = {DType::kUInt8, DType::kInt8,    DType::kInt16,   DType::kInt32,
                                   DType::kInt64, DType::kFloat64, DType::kFloat32, DType::kUInt16};

Status Bad(const std::string& file, StatusCode code, const std::string& why) {
  return Status(code, "the index of Megatron's two files " + why, {file, 0, -1});
}

bool StartsAsMegatronIndex(std::span<const std::byte> head) {
  return head.size() >= sizeof(kMagic) && std::memcmp(head.data(), kMagic, sizeof(kMagic)) == 0;
}

}  // namespace

Status MegatronIndex::ReadHeader(const std::string& file) {
  const std::span<const std::byte> bytes = bytes_;
  if (bytes.size() < kHeaderBytes) {
    return Bad(file, StatusCode::kTruncated,
               "has " + std::to_string(bytes.size()) + " bytes, its header alone takes 34");
  }
  if (!StartsAsMegatronIndex(bytes)) {
    return Bad(file, StatusCode::kDamaged, "does not begin with its magic number MMIDIDX");
  }
  const auto version = LoadLe<std::uint64_t>(at(9));
  if (version != 1) {
    return Bad(file, StatusCode::kUnsupported,
               "is of version " + std::to_string(version) + ", 1 is known");
  }
  const auto type = std::to_integer<std::size_t>(*at(17));
  if (type < 1 || type > std::size(kElementTypes)) {
    return Bad(file, StatusCode::kDamaged,
               "has the element type " + std::to_string(type) + ", 1 to 8 are known");
  }
  element_type_ = kElementTypes[type - 1];
  element_bytes_ = DTypeBytes(element_type_);
  sequences_ = LoadLe<std::uint64_t>(at(18));
  const auto documents = LoadLe<std::uint64_t>(at(26));
  const std::uint64_t left = bytes.size() - kHeaderBytes;
  if (sequences_ > left / 12 || documents > (left - 12 * sequences_) / 8) {
    return Bad(file, StatusCode::kTruncated,
               "counts " + std::to_string(sequences_) + " sequences and " +
                   std::to_string(documents) + " documents, for which its " +
                   std::to_string(bytes.size()) + " bytes do not suffice");
  }
  return {};
}

Status MegatronIndex::Load(const std::string& file, std::shared_ptr<const MegatronIndex>* index) {
  if (IsRemote(file)) {
    const auto bytes = std::make_shared<std::string>();
    Status status = ReadObject(file, kMostObjectBytes, bytes.get());
    return status.ok() ? Read(file, std::as_bytes(std::span(*bytes)), bytes, index) : status;
  }
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat facts {};
  if (descriptor < 0 || fstat(descriptor, &facts) != 0) {
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    return StatusFromErrno(error, "open").WithPlace({file, -1, -1});
  }
  std::shared_ptr<const FileMapping> mapping;
  Status status;
  if (S_ISREG(facts.st_mode) && facts.st_size > 0) {
    mapping = FileMapping::Open(descriptor, facts, &status);
  } else {
    status = Bad(file, StatusCode::kTruncated, "is empty, or no file");
  }
  close(descriptor);
  if (!status.ok()) return status;
  auto loaded = std::make_shared<MegatronIndex>();
  loaded->bytes_ = mapping->bytes();
  loaded->mapping_ = std::move(mapping);
  status = loaded->ReadHeader(file);
  if (status.ok() && loaded->shrunk()) status = Bad(file, StatusCode::kTruncated, kShrunk);
  if (status.ok()) *index = std::move(loaded);
  return status;
}

Status MegatronIndex::Read(const std::string& file, std::span<const std::byte> bytes,
                           std::shared_ptr<const void> owner,
                           std::shared_ptr<const MegatronIndex>* index) {
  auto loaded = std::make_shared<MegatronIndex>();
  loaded->bytes_ = bytes;
  loaded->owner_ = std::move(owner);
  Status status = loaded->ReadHeader(file);
  if (status.ok()) *index = std::move(loaded);
  return status;
}

namespace {

/// The places of the sequences in a .bin file of so many bytes.
class MegatronRecords final : public RecordIndex {
 public:
  MegatronRecords(std::shared_ptr<const MegatronIndex> index, const FramerOptions& options)
      : index_(std::move(index)), file_bytes_(static_cast<std::int64_t>(options.file_bytes)) {
    if (!IsWhole(options.max_record_bytes)) {
      damage_ = FindMegatronDamage(options, index_);
    }
  }

  std::uint64_t records() const override { return index_->sequences(); }

  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override {
    const std::vector<std::uint64_t>& lost = damage_.lost;
    for (std::size_t i = 0; i < records.size(); ++i) {
      RecordUnit& unit = units[i];
      unit = RecordUnit();
      unit.lost = std::binary_search(lost.begin(), lost.end(), records[i]);
      const std::int64_t at = std::clamp<std::int64_t>(index_->begin(records[i]), 0, file_bytes_);
      unit.offset = static_cast<std::uint64_t>(at);
      if (!unit.lost) unit.bytes = static_cast<std::uint64_t>(index_->bytes(records[i]));
      unit.first_record = records[i];
    }
    return WhyNotBelieved();
  }

  bool units_are_payload() const override { return true; }
  std::span<const IndexDamage> damage() const override { return damage_.ranges; }

  // In a damaged index, whose begins may not ascend, finds some record around there.
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override {
    std::uint64_t low = 0;
    std::uint64_t high = records();
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (index_->begin(middle) < static_cast<std::int64_t>(offset)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    *record = low;
    return WhyNotBelieved();
  }

 private:
  /// Of all numbers that were read from the index before.
  Status WhyNotBelieved() const {
    return index_->shrunk() ? Status(StatusCode::kTruncated, MegatronIndex::kShrunk) : Status();
  }
  // Whether each sequence begins at the end of the one before, from the file's start to its end.
  // Even the largest index takes less than a second.
  bool IsWhole(std::uint64_t most_bytes) const {
    std::int64_t end = 0;
    bool whole = true;
    for (std::uint64_t i = 0; i < records() && whole; ++i) {
      const std::int64_t bytes = index_->bytes(i);
      whole = index_->begin(i) == end && bytes >= 0 && bytes <= file_bytes_ - end &&
              static_cast<std::uint64_t>(bytes) <= most_bytes;
      end += whole ? bytes : 0;
    }
    return whole && end == file_bytes_;
  }

  const std::shared_ptr<const MegatronIndex> index_;
  const std::int64_t file_bytes_;
  MegatronDamage damage_;
};

/// Takes sequences by themselves.
class MegatronUnitFramer final : public UnitFramer {
 public:
  using UnitFramer::UnitFramer;

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    static constexpr std::byte kNothing{};
    if (records != 1) return Lose(unit, records, {}, output);
    const std::byte* const data = unit.bytes.empty() ? &kNothing : unit.bytes.data();
    output->records.push_back({data, unit.bytes.size()});
    return {};
  }
};

/// Writes the .bin file as records come, and the .idx file once that is complete. Both appear only
/// when all of both is written, the .bin file first: with an older index it would be read as other
/// sequences.
class MegatronWriter final : public FileRecordWriter {
 public:
  MegatronWriter(std::unique_ptr<OutputFile> index, std::unique_ptr<OutputFile> data,
                 const MegatronElement& element)
      : FileRecordWriter(std::move(index)), data_(std::move(data)), element_(element) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    const std::size_t elements = record.size() / element_.bytes;
    if (record.size() % element_.bytes != 0 ||
        elements > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      return Status(StatusCode::kInvalidArgument,
                    "a record of " + std::to_string(record.size()) +
                        " bytes is no sequence of up to 2^31 - 1 elements of " +
                        std::to_string(element_.bytes) + " bytes");
    }
    lengths_.push_back(static_cast<std::uint32_t>(elements));
    return data_->Append(record);
  }

  Status EndChunk() override { return data_->Flush(); }

  Status Finish() override {
    Status status = data_->Flush();
    if (status.ok()) status = WriteIndex();
    if (status.ok()) status = file().Flush();
    return status.ok() ? data_->Commit() : status;
  }

  Status WriteIndex() {
    Status status = WriteHeader();
    for (std::size_t i = 0; status.ok() && i < lengths_.size(); ++i) {
      status = Number(lengths_[i]);
    }
    std::uint64_t begin = 0;
    for (std::size_t i = 0; status.ok() && i < lengths_.size(); ++i) {
      status = Number(begin);
      begin += std::uint64_t{lengths_[i]} * element_.bytes;
    }
    // Each sequence is a document.
    for (std::uint64_t i = 0; status.ok() && i <= lengths_.size(); ++i) status = Number(i);
    return status;
  }

  Status WriteHeader() {
    const std::uint64_t sequences = lengths_.size();
    std::array<std::byte, MegatronIndex::kHeaderBytes> header{};
    std::memcpy(header.data(), kMagic, sizeof(kMagic));
    StoreLe(header.data() + 9, std::uint64_t{1});
    header[17] = std::byte{element_.code};
    StoreLe(header.data() + 18, sequences);
    StoreLe(header.data() + 26, sequences + 1);
    return file().Append(header);
  }

  template <typename T>
  Status Number(T number) {
    std::array<std::byte, sizeof(T)> bytes;
    StoreLe(bytes.data(), number);
    return file().Append(bytes);
  }

  const std::unique_ptr<OutputFile> data_;
  const MegatronElement element_;
  std::vector<std::uint32_t> lengths_;
};

constexpr std::pair<std::string_view, MegatronElement> kElements[] = {
    {"u1", {1, 1}}, {"i1", {2, 1}}, {"i2", {3, 2}}, {"i4", {4, 4}},
    {"i8", {5, 8}}, {"f8", {6, 8}}, {"f4", {7, 4}}, {"u2", {8, 2}}};

class Megatron final : public Format {
 public:
  /// Without an index it can only find one, or write.
  Megatron(std::shared_ptr<const MegatronIndex> index, const MegatronElement& element)
      : index_(std::move(index)), element_(element) {}

  std::string_view name() const override { return "megatron"; }
  bool has_fixed_places() const override { return true; }
  bool MatchesName(std::string_view) const override { return false; }  // ".idx" may be anything
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return StartsAsMegatronIndex(head);
  }
  bool decompresses() const override { return false; }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewMegatronFramer(options, index_);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return index_ == nullptr ? nullptr : std::make_unique<MegatronUnitFramer>(options);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> /*head*/) const override {
    if (index_ != nullptr) {
      Status misread = CheckMegatronElements(*index_, options);
      if (!misread.ok()) return {std::move(misread), nullptr};
      return {Status(), std::make_shared<const MegatronRecords>(index_, options)};
    }
    return {Status(StatusCode::kUnsupported,
                   "Megatron's index is read with the .bin file beside it: neither can come from "
                   "elsewhere than a file"),
            nullptr};
  }
  CompanionResult FindCompanion(const std::string& file) const override;
  std::vector<std::string> FilesOf(const std::string& file) const override {
    return MegatronFiles(file);
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override;
  bool writes_in_order() const override { return false; }

 private:
  const std::shared_ptr<const MegatronIndex> index_;
  const MegatronElement element_;
};

CompanionResult Megatron::FindCompanion(const std::string& file) const {
  CompanionResult found;
  std::shared_ptr<const MegatronIndex> index;
  found.status = LoadMegatronPair(file, &index, &found.data_file);
  if (found.status.ok())
    found.format = std::make_shared<const Megatron>(std::move(index), element_);
  return found;
}

RecordWriterResult Megatron::NewWriter(std::unique_ptr<OutputFile> file) const {
  const std::string& path = file->path();
  if (element_.bytes == 0 || !path.ends_with(kIndexEnding)) {
    return {Status(StatusCode::kInvalidArgument,
                   "to write " + path +
                       " as Megatron's two files the name must end in .idx, and the elements' type "
                       "must be named, like megatron:u2"),
            nullptr};
  }
  auto data = std::make_unique<OutputFile>(MegatronFiles(path)[1]);
  data->ReplaceLink();  // the user named the other file
  Status status = data->Open();
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), std::make_unique<MegatronWriter>(std::move(file), std::move(data), element_)};
}

}  // namespace

std::vector<std::string> MegatronFiles(const std::string& file) {
  if (!file.ends_with(kIndexEnding) && !file.ends_with(kDataEnding)) return {file};
  const std::string stem = file.substr(0, file.size() - kIndexEnding.size());
  return {stem + std::string(kIndexEnding), stem + std::string(kDataEnding)};
}

Status LoadMegatronPair(const std::string& file, std::shared_ptr<const MegatronIndex>* index,
                        std::string* data_file) {
  const std::vector<std::string> files = MegatronFiles(file);
  if (files.size() != 2) {
    return Status(StatusCode::kInvalidArgument,
                  "Megatron's two files end in .idx and .bin, this one does not");
  }
  *data_file = files[1];
  return MegatronIndex::Load(files[0], index);
}

Status CheckMegatronElements(const MegatronIndex& index, const FramerOptions& options) {
  if (options.check_elements == nullptr) return {};
  const DType type = index.element_type();
  return options.check_elements({std::string(DTypeName(type)), {type}, {-1}})
      .WithPlace({options.file, -1, -1});
}

Status ParseMegatronElement(std::string_view text, MegatronElement* element) {
  *element = {};
  if (text.empty()) return {};
  for (const auto& [name, known] : kElements) {
    if (name != text) continue;
    *element = known;
    return {};
  }
  return Status(StatusCode::kInvalidArgument,
                "format \"megatron:" + std::string(text) +
                    "\": expected the type of an element to write, one of u1, i1, i2, u2, i4, i8, "
                    "f4, f8");
}

std::shared_ptr<const Format> MegatronFormat(const MegatronElement& element) {
  return std::make_shared<const Megatron>(nullptr, element);
}

}  // namespace ringfeed
