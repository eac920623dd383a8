#include "readers/formats/tokens/megatron.h"

#include <cstring>
#include <string>
#include <utility>

namespace ringfeed {
namespace {

constexpr char kMagic[] = "MMIDIDX\0";  // and the zero that ends it: 9 bytes
constexpr std::string_view kIndexEnding = ".idx";
constexpr std::string_view kDataEnding = ".bin";

class Megatron final : public Format {
 public:
  /// Without an index it can find one, or write.
  Megatron(std::shared_ptr<const MegatronIndex> index, const MegatronElement& element)
      : index_(std::move(index)), element_(element) {}

  std::string_view name() const override { return "megatron"; }
  bool MatchesName(std::string_view) const override { return false; }  // ".idx" may be anything
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return StartsAsMegatronIndex(head);
  }
  bool decompresses() const override { return false; }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewMegatronFramer(options, index_);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return index_ == nullptr ? nullptr : NewMegatronUnitFramer(options);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> /*head*/) const override {
    if (index_ != nullptr) {
      Status misread = CheckMegatronElements(*index_, options);
      if (!misread.ok()) return {std::move(misread), nullptr};
      return {Status(), NewMegatronRecords(index_, options)};
    }
    return {Status(StatusCode::kUnsupported,
                   "Megatron's index is read with the .bin file beside it: neither can come from "
                   "elsewhere than a file"),
            nullptr};
  }
  CompanionResult FindCompanion(const std::string& file) const override;
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return NewMegatronWriter(std::move(file), element_);
  }
  bool writes_in_order() const override { return false; }

 private:
  const std::shared_ptr<const MegatronIndex> index_;
  const MegatronElement element_;
};

CompanionResult Megatron::FindCompanion(const std::string& file) const {
  CompanionResult found;
  const std::string_view ending =
      std::string_view(file).substr(file.size() - std::min<std::size_t>(4, file.size()));
  if (ending != kIndexEnding && ending != kDataEnding) {
    found.status = Status(StatusCode::kInvalidArgument,
                          "Megatron's two files end in .idx and .bin, this one does not");
    return found;
  }
  const std::string stem = file.substr(0, file.size() - ending.size());
  found.data_file = stem + std::string(kDataEnding);
  std::shared_ptr<const MegatronIndex> index;
  found.status = MegatronIndex::Load(stem + std::string(kIndexEnding), &index);
  if (found.status.ok())
    found.format = std::make_shared<const Megatron>(std::move(index), element_);
  return found;
}

}  // namespace

Status CheckMegatronElements(const MegatronIndex& index, const FramerOptions& options) {
  if (options.check_elements == nullptr) return {};
  const DType type = index.element_type();
  return options.check_elements({std::string(DTypeName(type)), {type}})
      .WithPlace({options.file, -1, -1});
}

bool StartsAsMegatronIndex(std::span<const std::byte> head) {
  return head.size() >= sizeof(kMagic) && std::memcmp(head.data(), kMagic, sizeof(kMagic)) == 0;
}

std::shared_ptr<const Format> MegatronFormat(const MegatronElement& element) {
  return std::make_shared<const Megatron>(nullptr, element);
}

}  // namespace ringfeed
