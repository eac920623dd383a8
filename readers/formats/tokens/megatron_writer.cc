#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "readers/formats/tokens/megatron.h"
#include "readers/formats/writing/file_record_writer.h"

namespace ringfeed {
namespace {

/// Writes the .bin file as records come, and the .idx file once that is complete.
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

  Status Finish() override {
    Status status = data_->Commit();
    if (status.ok()) status = WriteHeader();
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
    constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
    std::copy_n(reinterpret_cast<const std::byte*>(kMagic.data()), kMagic.size(), header.data());
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

}  // namespace

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

RecordWriterResult NewMegatronWriter(std::unique_ptr<OutputFile> file,
                                     const MegatronElement& element) {
  constexpr std::string_view kEnding = ".idx";
  const std::string& path = file->path();
  if (element.bytes == 0 || !path.ends_with(kEnding)) {
    return {Status(StatusCode::kInvalidArgument,
                   "to write " + path +
                       " as Megatron's two files the name must end in .idx, and the elements' type "
                       "must be named, like megatron:u2"),
            nullptr};
  }
  auto data = std::make_unique<OutputFile>(path.substr(0, path.size() - kEnding.size()) + ".bin");
  Status status = data->Open();
  if (!status.ok()) return {std::move(status), nullptr};
  return {Status(), std::make_unique<MegatronWriter>(std::move(file), std::move(data), element)};
}

}  // namespace ringfeed
