#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "readers/formats/arrays/arrays.h"
#include "readers/formats/tar/tar.h"
#include "readers/formats/tar/tar_unit.h"
#include "readers/formats/writing/file_record_writer.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

// The key of a sample by its number.
std::string KeyOf(std::uint64_t number) {
  constexpr std::size_t kDigits = 9;
  std::string key = std::to_string(number);
  if (key.size() < kDigits) key.insert(0, kDigits - key.size(), '0');
  return key;
}

constexpr std::string_view kKeyField = "__key__";
constexpr std::string_view kNpy = ".npy";

class TarWriter final : public FileRecordWriter {
 public:
  TarWriter(std::unique_ptr<OutputFile> file, const TarOptions& options)
      : FileRecordWriter(std::move(file)), options_(options) {}

 private:
  Status Append(std::span<const std::byte> record) override {
    if (options_.samples) {
      TarSample sample;
      Status status = SplitTarSample(record, &sample);
      if (!status.ok()) return {StatusCode::kInvalidArgument, status.message()};
      return file().Append(record);
    }
    std::array<std::byte, TarLayout::kBlockBytes> header;
    WriteTarHeader(KeyOf(next_++) + "." + options_.extension, '0', record.size(), header.data());
    Status status = file().Append(header);
    if (status.ok()) status = file().Append(record);
    if (!status.ok()) return status;
    return file().AppendZeros(static_cast<std::size_t>(TarPadded(record.size()) - record.size()));
  }
  Status Finish() override { return file().AppendZeros(2 * TarLayout::kBlockBytes); }

  const TarOptions options_;
  std::uint64_t next_ = 0;
};

class TarEncoder final : public RowEncoder {
 public:
  explicit TarEncoder(std::vector<FieldSpec> fields)
      : fields_(std::move(fields)),
        key_field_(static_cast<std::size_t>(
            std::ranges::find(fields_, kKeyField, &FieldSpec::name) - fields_.begin())) {}

  std::string format() const override { return "tar:samples"; }

  Status Encode(const Instance& row, std::span<const std::byte>* record) override {
    sample_.clear();
    std::string key = KeyOf(next_++);
    if (key_field_ < fields_.size()) {
      const Tensor& given = row[key_field_];
      key.assign(reinterpret_cast<const char*>(given.data), given.bytes);
      if (!IsKey(key)) {
        return Status(StatusCode::kUnsupported,
                      "\"" + key + "\" can be no key of a tar file's sample");
      }
    }
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (f == key_field_) continue;
      const Tensor& value = row[f];
      const bool bytes = IsBytesField(fields_[f]);
      const std::string header = bytes ? "" : NpyHeaderOf(value.dtype, value.shape);
      AddMember(key + "." + fields_[f].name + std::string(bytes ? "" : kNpy),
                {std::as_bytes(std::span(header)), {value.data, value.bytes}});
    }
    *record = sample_;
    return {};
  }

 private:
  // Whether members of that key are one sample, and fit into headers.
  static bool IsKey(const std::string& key) {
    constexpr std::size_t kMostKey =
        TarLayout::kNameBytes - TarOptions::kMostExtension - kNpy.size() - 1;
    std::string_view read;
    std::string_view extension;
    return key.size() <= kMostKey && key.find('\0') == std::string::npos &&
           SplitTarName(key + ".x", &read, &extension) && read == key;
  }

  void AddMember(const std::string& name, const std::array<std::span<const std::byte>, 2>& parts) {
    const std::size_t bytes = parts[0].size() + parts[1].size();
    const std::size_t at = sample_.size();
    sample_.resize(at + TarLayout::kBlockBytes);
    WriteTarHeader(name, '0', bytes, sample_.data() + at);
    for (const auto& part : parts) sample_.insert(sample_.end(), part.begin(), part.end());
    sample_.resize(sample_.size() + static_cast<std::size_t>(TarPadded(bytes) - bytes));
  }

  const std::vector<FieldSpec> fields_;
  const std::size_t key_field_;  ///< past the last one: none
  std::vector<std::byte> sample_;
  std::uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<RecordWriter> NewTarWriter(std::unique_ptr<OutputFile> file,
                                           const TarOptions& options) {
  return std::make_unique<TarWriter>(std::move(file), options);
}

RowEncoderResult NewTarEncoder(const std::vector<FieldSpec>& fields) {
  for (const FieldSpec& field : fields) {
    const bool named = !field.name.empty() && field.name.size() <= TarOptions::kMostExtension &&
                       field.name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
    const bool is_key = field.name == kKeyField;
    if (named && (IsBytesField(field) || (!is_key && !NpyHeaderOf(field.dtype, {}).empty()))) {
      continue;
    }
    return {Status(StatusCode::kUnsupported,
                   "field \"" + field.name + "\" of type " + std::string(DTypeName(field.dtype)) +
                       " can be no member of a tar file: its name is the extension, 1 to 64 bytes "
                       "without a slash, and NumPy has its type"),
            nullptr};
  }
  return {Status(), std::make_unique<TarEncoder>(fields)};
}

}  // namespace ringfeed
