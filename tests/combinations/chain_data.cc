#include "tests/combinations/chain_data.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "readers/formats/examined_file.h"
#include "readers/index/compressed_file.h"
#include "readers/index/manifest_writer.h"
#include "readers/index/open_index.h"
#include "ringfeed/formats.h"
#include "tests/support/compressed.h"
#include "tests/support/record_data.h"

namespace ringfeed {

namespace {

constexpr std::size_t kDigits = 16;

std::uint64_t Mixed(std::uint64_t word) {
  word = (word ^ (word >> 31)) * 0x9E3779B97F4A7C15;
  return (word ^ (word >> 29)) * 0xD1B54A32D192ED03 >> 11;
}

std::size_t RecordsOf(std::string_view kind, std::size_t file) {
  if (kind == "none") return 0;
  if (kind == "one") return 1;
  if (kind == "gaps") return std::size_t{file % 3 == 0 ? 30U : (file % 3 == 1 ? 0U : 1U)};
  if (kind == "many" || kind == "uneven") return 300;
  if (kind == "wide") return 40;
  if (kind == "large") return 1024;
  if (kind == "giant") return 3;
  return (file * 5 + 3) % 11;
}

std::size_t SizeOf(std::string_view kind, std::int64_t number) {
  const std::uint64_t drawn = Mixed(static_cast<std::uint64_t>(number) + 1);
  if (kind == "wide") return static_cast<std::size_t>(500 + drawn % 9000);
  if (kind == "large") return 1024;
  if (kind == "giant") return static_cast<std::size_t>(100'000 + drawn % 1'200'000);
  return static_cast<std::size_t>(40 + drawn % 100);
}

std::size_t RowBytesOf(std::string_view kind) {
  if (kind == "wide") return 3000;
  if (kind == "large") return 1024;
  if (kind == "giant") return 300'000;
  return 64;
}

/// The number in hexadecimal digits, then letters: text without a line end.
std::vector<std::byte> TextPayload(std::int64_t number, std::size_t bytes) {
  std::vector<std::byte> payload(std::max(bytes, kDigits));
  for (std::size_t i = 0; i < kDigits; ++i) {
    payload[kDigits - 1 - i] = static_cast<std::byte>("0123456789abcdef"[number >> (4 * i) & 15]);
  }
  for (std::size_t i = kDigits; i < payload.size(); ++i) {
    const std::uint64_t drawn = Mixed(static_cast<std::uint64_t>(number) * 8191 + i / 8);
    payload[i] = static_cast<std::byte>('a' + (drawn >> (i % 8 * 4) & 15));
  }
  return payload;
}

std::vector<std::byte> ExamplePayload(std::int64_t number, std::string_view kind) {
  const std::vector<std::int64_t> values(ExampleValues(number, kind), number + kFirstValue);
  ExampleBuilder builder;
  builder.AddInts("t", values);
  const auto record = builder.Finish();
  return {record.begin(), record.end()};
}

/// One file's worth of a ChainData.
class FileMaker {
 public:
  FileMaker(const Configuration& configuration, ChainData* data) : c_(configuration), data_(data) {}

  /// `damage` is what happens to this one.
  void Make(std::size_t file, std::string_view damage) {
    image_.clear();
    intact_.clear();
    data_->payloads.emplace_back();
    data_->payload_ends.emplace_back();
    ModelFile& model = data_->files.emplace_back();
    const std::size_t count = RecordsOf(c_.Get(Option::kRecords), file);
    for (std::size_t i = 0; i < count; ++i) {
      const auto number =
          static_cast<std::int64_t>(i) + static_cast<std::int64_t>(file) * kFileNumbers;
      const std::size_t begin = image_.size();
      Append(number);
      const bool hit = i == count / 2;
      const bool is_end = i < 2 || i + 1 == count;
      const bool flips = damage == "every" || (hit && damage == "payload") ||
                         ((hit || is_end) && damage == "payloads");
      model.offsets.push_back(begin);
      model.places.push_back(number);
      intact_.insert(intact_.end(), image_.begin() + static_cast<std::ptrdiff_t>(begin),
                     image_.end());
      if (flips) {
        image_[begin + (image_.size() - begin) / 2] ^= std::byte{1};
        model.places.back() = kHole;
      } else if (hit && damage == "length") {
        image_[begin + 9] ^= std::byte{1};
        model.places.back() = kFailure;
      } else if (damage == "torn" && i + 1 == count) {
        image_.erase(image_.end() - static_cast<std::ptrdiff_t>((image_.size() - begin) / 2),
                     image_.end());
        model.places.back() = kFailure;
      }
    }
    if (damage == "foreign") {
      image_.assign(300, std::byte{0xA5});
      model.offsets = {0};
      model.places = {kFailure};
    }
    if (damage == "missing") {
      model = {};
      image_.clear();
    }
    if (c_.Is(Option::kSource, "recordio") && damage != "missing") WriteChunks(file, &model);
    model.bytes = damage == "missing" ? 1 : image_.size();  // a turn, in which that is told
    if (c_.IsAnyOf(Option::kSource, "gzip pointed") && damage != "foreign" && damage != "missing") {
      const std::size_t members = c_.Is(Option::kSource, "pointed") ? 3 : 1;
      image_ = Compress(image_, {.kind = CompressedForm::Kind::kGzip, .members = members});
      if (damage == "flipped") image_[image_.size() / 2] ^= std::byte{4};
    }
    data_->images.push_back(image_);
    data_->intact.push_back(c_.Is(Option::kSource, "memory") ? intact_ : std::vector<std::byte>());
  }

 private:
  /// Of RecordIO: a record stands where its chunk begins.
  void WriteChunks(std::size_t file, ModelFile* model) {
    constexpr std::size_t kOfAChunk = 7;
    const int memory = memfd_create("recordio", MFD_CLOEXEC);
    const auto result = OpenRecordStreamWriter(memory, "a chunk", "recordio");
    std::size_t begin = 0;
    const auto& ends = data_->payload_ends[file];
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (i % kOfAChunk == 0) {
        (void)result.writer->Flush();
        begin = static_cast<std::size_t>(lseek(memory, 0, SEEK_CUR));
      }
      const std::size_t first = i == 0 ? 0 : ends[i - 1];
      (void)result.writer->Write(std::span(data_->payloads[file]).subspan(first, ends[i] - first));
      model->offsets[i] = begin;
    }
    (void)result.writer->Close();
    image_.resize(static_cast<std::size_t>(lseek(memory, 0, SEEK_CUR)));
    if (pread(memory, image_.data(), image_.size(), 0) < 0) image_.clear();
    close(memory);
  }

  void Append(std::int64_t number) {
    const std::string_view kind = c_.Get(Option::kRecords);
    const bool rows = c_.Is(Option::kSource, "rows");
    const auto payload = c_.Is(Option::kSource, "examples")
                             ? ExamplePayload(number, kind)
                             : TextPayload(number, rows ? RowBytesOf(kind) : SizeOf(kind, number));
    auto& all = data_->payloads.back();
    all.insert(all.end(), payload.begin(), payload.end());
    data_->payload_ends.back().push_back(all.size());
    ++data_->records;
    if (c_.Is(Option::kSource, "recordio")) return;  // see WriteChunks
    if (rows || c_.Is(Option::kSource, "lines")) {
      image_.insert(image_.end(), payload.begin(), payload.end());
      if (!rows) image_.push_back(std::byte{'\n'});
    } else {
      AppendTfRecord(payload, &image_);
    }
  }

  const Configuration& c_;
  ChainData* const data_;
  std::vector<std::byte> image_;
  std::vector<std::byte> intact_;
};

const char* Extension(const Configuration& c) {
  if (c.Is(Option::kSource, "rows")) return ".rows";
  if (c.Is(Option::kSource, "lines")) return ".txt";
  if (c.IsAnyOf(Option::kSource, "gzip pointed")) return ".tfrecord.gz";
  if (c.Is(Option::kSource, "recordio")) return ".recordio";
  return ".tfrecord";
}

/// The file that is damaged: one with records, where it has to lose one.
std::size_t MiddleFile(const Configuration& c, bool with_records) {
  const auto files = static_cast<std::size_t>(c.Number(Option::kFiles));
  for (std::size_t i = 0; i < files && with_records; ++i) {
    const std::size_t file = (files / 2 + i) % files;
    if (RecordsOf(c.Get(Option::kRecords), file) > 0) return file;
  }
  return files / 2;
}

ChainData MakeData(const Configuration& c) {
  ChainData data;
  FileMaker maker(c, &data);
  const bool loses_record = c.IsAnyOf(Option::kDamage, "payload payloads every length torn");
  const std::size_t damaged = MiddleFile(c, loses_record);
  for (std::size_t file = 0; file < c.Number(Option::kFiles); ++file) {
    maker.Make(file, file == damaged ? c.Get(Option::kDamage) : "none");
  }
  if (c.Is(Option::kSource, "rows")) data.row_bytes = RowBytesOf(c.Get(Option::kRecords));
  const std::size_t middle = MiddleFile(c, true);
  const std::size_t count = RecordsOf(c.Get(Option::kRecords), middle);
  if (count > 0) {
    data.middle_record =
        static_cast<std::int64_t>(middle) * kFileNumbers + static_cast<std::int64_t>(count / 3);
  }
  return data;
}

bool IsMissing(const ChainData& data, std::size_t file, const Configuration& c) {
  return c.Is(Option::kDamage, "missing") && data.files[file].offsets.empty() &&
         file == MiddleFile(c, false);
}

void MakePointsOf(const std::string& name) {
  const ExaminedFile file = ExamineFile(name, nullptr, "", 1 << 20);
  const MadePoints made =
      MakePoints({file.name, nullptr, file.bytes, file.format, file.compression}, {});
  if (!made.status.ok()) throw std::runtime_error(made.status.ToString());
}

}  // namespace

std::size_t ExampleValues(std::int64_t number, std::string_view records) {
  const std::uint64_t drawn = Mixed(static_cast<std::uint64_t>(number) + 7);
  if (records == "large" || records == "wide") return static_cast<std::size_t>(300 + drawn % 200);
  if (records != "uneven") return static_cast<std::size_t>(1 + drawn % 40);
  // Many are empty or short, a few have the units of a packed row, or more.
  constexpr std::array<std::size_t, 8> kUneven{0, 0, 1, 2, 7, 40, 256, 700};
  return kUneven[static_cast<std::size_t>(std::min(drawn % 8, drawn / 8 % 8))];
}

std::int64_t NumberOfPayload(std::span<const std::byte> payload) {
  if (payload.size() < kDigits) return -1;
  const auto* const text = reinterpret_cast<const char*>(payload.data());
  std::int64_t number = 0;
  const auto result = std::from_chars(text, text + kDigits, number, 16);
  return result.ec == std::errc() && result.ptr == text + kDigits ? number : -1;
}

std::span<const std::byte> ChainData::Payload(std::int64_t number) const {
  if (number < 0) return {};
  const auto file = static_cast<std::size_t>(number / kFileNumbers);
  const auto record = static_cast<std::size_t>(number % kFileNumbers);
  if (file >= payloads.size() || record >= payload_ends[file].size()) return {};
  const std::size_t begin = record == 0 ? 0 : payload_ends[file][record - 1];
  return std::span(payloads[file]).subspan(begin, payload_ends[file][record] - begin);
}

DataLibrary::DataLibrary(const std::string& folder, const std::string& address)
    : folder_(folder + "/kept"),
      address_(address.empty() ? "" : address + "/kept"),
      indexes_(folder + "/indexes"),
      cache_(folder + "/cache") {
  std::filesystem::create_directories(indexes_);
}

void DataLibrary::MakeManifest(const Configuration& configuration, ChainData* data) const {
  if (!data->manifest.empty() || !configuration.Is(Option::kPlace, "manifest")) return;
  if (data->addresses.empty()) return;
  const std::string format = FormatOf(*data);
  std::vector<ManifestEntry> entries;
  for (const std::string& address : data->addresses) {
    const ExaminedFile examined = ExamineFile(address, nullptr, format, 1 << 20);
    const IndexedFile file{address, examined.object, examined.bytes, examined.format,
                           examined.compression};
    const OpenedIndex opened = BuildRecordIndex(file);
    if (!opened.status.ok()) throw std::runtime_error(opened.status.ToString());
    entries.push_back(EntryOf(entries.size(), address, format.empty(), file, opened));
  }
  const std::string name = "/all.manifest";
  const std::string folder = data->names.front().substr(0, data->names.front().rfind('/'));
  const Status status =
      WriteManifest(folder + name, ListOf(data->addresses, ""), std::move(entries));
  if (!status.ok()) throw std::runtime_error(status.ToString());
  data->manifest = data->addresses.front().substr(0, data->addresses.front().rfind('/')) + name;
}

std::string FormatOf(const ChainData& data) {
  return data.row_bytes == 0 ? "" : "rows:" + std::to_string(data.row_bytes);
}

const ChainData& DataLibrary::Get(const Configuration& configuration) {
  std::string key;
  for (const Option option : {Option::kSource, Option::kFiles, Option::kRecords, Option::kDamage}) {
    key += std::string(configuration.Get(option)) + "-";
  }
  const auto found = made_.find(key);
  if (found != made_.end()) {
    MakeManifest(configuration, &found->second);
    return found->second;
  }
  constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  if (bytes_ > kMostBytes) {
    made_.clear();
    std::filesystem::remove_all(folder_);
    bytes_ = 0;
  }
  ChainData data = MakeData(configuration);
  const std::string folder = folder_ + "/" + key;
  std::filesystem::create_directories(folder);
  for (std::size_t file = 0; file < data.files.size(); ++file) {
    const std::string name = "/" + std::to_string(1000 + file) + Extension(configuration);
    data.names.push_back(folder + name);
    if (!address_.empty()) data.addresses.push_back(address_ + "/" + key + name);
    bytes_ += data.images[file].size() + data.payloads[file].size();
    if (IsMissing(data, file, configuration)) continue;
    // Whole or not at all: a process that went before may have left them.
    if (std::filesystem::exists(data.names.back())) continue;
    WriteBytes(data.names.back() + ".new", data.images[file]);
    std::filesystem::rename(data.names.back() + ".new", data.names.back());
    if (configuration.Is(Option::kSource, "pointed")) MakePointsOf(data.names.back());
  }
  data.indexes = indexes_;
  data.cache = cache_;
  MakeManifest(configuration, &data);
  return made_.emplace(std::move(key), std::move(data)).first->second;
}

ChainData CopyOf(const ChainData& data, const std::string& folder) {
  ChainData copy = data;
  std::filesystem::create_directories(folder);
  for (std::size_t file = 0; file < copy.names.size(); ++file) {
    copy.names[file] = folder + "/" + std::filesystem::path(data.names[file]).filename().string();
    WriteBytes(copy.names[file], copy.images[file]);
  }
  return copy;
}

}  // namespace ringfeed
