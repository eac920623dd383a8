#include "readers/formats/tar/tar.h"

#include <array>
#include <cstdint>
#include <utility>

#include "base/edit_distance.h"
#include "readers/formats/tar/tar_members.h"
#include "readers/formats/tar/tar_unit.h"
#include "ringfeed/formats.h"

namespace ringfeed {
namespace {

class TarUnitFramer final : public UnitFramer {
 public:
  using UnitFramer::UnitFramer;

  Status Frame(const FrameInput& unit, std::uint32_t records, FrameOutput* output) override {
    StatusCode code = StatusCode::kDamaged;
    const std::string problem = Problem(unit.bytes, &code);
    if (code == StatusCode::kUnsupported) return {code, problem};
    if (!problem.empty() || records != 1) return Lose(unit, records, problem, output);
    output->records.push_back({unit.bytes.data(), unit.bytes.size()});
    return {};
  }

 private:
  // Why the bytes are not the whole members of one sample.
  static std::string Problem(std::span<const std::byte> bytes, StatusCode* code) {
    if (bytes.empty()) return std::string(kLostBefore);
    TarGlobals globals;
    std::string key;
    TarMembers members;
    while (!bytes.empty()) {
      const TarUnit unit = ReadTarUnit(bytes, bytes.size(), &globals);
      *code = unit.code;
      if (unit.kind == TarUnit::Kind::kDamage) return unit.reason;
      const bool member = unit.kind == TarUnit::Kind::kMember;
      if ((!member && unit.kind != TarUnit::Kind::kPassOver) || unit.end > bytes.size()) {
        return "no member of the sample stands where the index says";
      }
      std::string_view its_key;
      std::string_view extension;
      if (member && SplitTarName(unit.name, &its_key, &extension)) {
        if (key.empty()) key = its_key;
        if (key != its_key || members.Has(extension)) {
          return "a member of another sample stands in this one";
        }
        members.Add(extension);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(unit.end));
    }
    return key.empty() ? "no sample stands where the index says" : "";
  }
};

class Tar final : public Format {
 public:
  explicit Tar(const TarOptions& options) : options_(options) {}

  std::string_view name() const override { return "tar"; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(".tar");
  }
  // Only the checksum tells archives older than "ustar": it is believed if there is a name.
  bool MatchesBytes(std::span<const std::byte> head) const override {
    if (head.size() < TarLayout::kBlockBytes) return false;
    const auto block = head.first(TarLayout::kBlockBytes);
    return TarHeaderMatches(block) && (TarHasMagic(block) || head[0] != std::byte{});
  }
  bool records_stand_alone() const override { return false; }
  ForeignIndex foreign_index() const override { return ForeignIndex::kOfTar; }
  std::string FindEnd(std::span<const std::byte> tail) const override {
    return TarBlockIsZero(tail) && !tail.empty() ? "" : std::string(kTarHasNoEnd);
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewTarFramer(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return std::make_unique<TarUnitFramer>(options);
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t offset) const override {
    return NewTarFramerBehindGap(options, offset);
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), NewTarWriter(std::move(file), options_)};
  }
  std::string CopyFormat() const override { return "tar:samples"; }
  RowEncoderResult NewRowEncoder(const std::vector<FieldSpec>& fields) const override {
    return NewTarEncoder(fields);
  }

 private:
  const TarOptions options_;
};

}  // namespace

Status ParseTarOptions(std::string_view text, TarOptions* options) {
  *options = {};
  if (text.empty()) return {};
  options->samples = text == "samples";
  if (options->samples) return {};
  const std::string_view extension = text.starts_with("ext=") ? text.substr(4) : "";
  if (extension.empty() || extension.size() > TarOptions::kMostExtension ||
      extension.find_first_of("/,") != std::string_view::npos) {
    return Status(StatusCode::kInvalidArgument,
                  "format \"tar:" + std::string(text) +
                      "\": expected tar, tar:samples or tar:ext=NAME, an extension of 1 to 64 "
                      "bytes without a slash or a comma" +
                      DidYouMeanWord(text, std::array<std::string, 2>{"ext=", "samples"}));
  }
  options->extension = extension;
  return {};
}

std::shared_ptr<const Format> TarFormat(const TarOptions& options) {
  return std::make_shared<const Tar>(options);
}

const TarMember* TarSample::Find(std::string_view extension) const {
  for (const TarMember& member : members) {
    if (member.extension == extension) return &member;
  }
  const TarMember* found = nullptr;
  for (const TarMember& member : members) {
    if (!SameTarExtension(member.extension, extension)) continue;
    if (found != nullptr) return nullptr;
    found = &member;
  }
  return found;
}

Status SplitTarSample(std::span<const std::byte> record, TarSample* sample) {
  sample->key.clear();
  sample->members.clear();
  TarGlobals globals;
  std::span<const std::byte> rest = record;
  while (!rest.empty()) {
    TarUnit unit = ReadTarUnit(rest, rest.size(), &globals);
    const bool whole = unit.end <= rest.size();
    if (unit.kind == TarUnit::Kind::kZeros) break;
    if (unit.kind == TarUnit::Kind::kDamage || unit.kind == TarUnit::Kind::kMore || !whole) {
      const std::string reason = unit.reason.empty() ? "a member is cut" : unit.reason;
      return Status(StatusCode::kDamaged, "the record is no sample of a tar file: " + reason);
    }
    std::string_view key;
    std::string_view extension;
    if (unit.kind == TarUnit::Kind::kMember && SplitTarName(unit.name, &key, &extension)) {
      sample->key = key;
      sample->members.push_back(
          {std::string(extension), rest.subspan(static_cast<std::size_t>(unit.data_at),
                                                static_cast<std::size_t>(unit.size))});
    }
    rest = rest.subspan(static_cast<std::size_t>(unit.end));
  }
  return {};
}

}  // namespace ringfeed
