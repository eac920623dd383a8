#include "readers/formats/tar/tar.h"

#include <utility>

#include "readers/formats/tar/tar_unit.h"

namespace ringfeed {
namespace {

constexpr std::size_t kMostExtensionName = 64;  // a key and it fit into a header

class Tar final : public Format {
 public:
  explicit Tar(const TarOptions& options) : options_(options) {}

  std::string_view name() const override { return "tar"; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(".tar");
  }
  // Archives older than "ustar" are told by the checksum alone, which takes a name to be believed.
  bool MatchesBytes(std::span<const std::byte> head) const override {
    if (head.size() < TarLayout::kBlockBytes) return false;
    const auto block = head.first(TarLayout::kBlockBytes);
    return TarHeaderMatches(block) && (TarHasMagic(block) || head[0] != std::byte{});
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewTarFramer(options);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return NewTarUnitFramer(options);
  }
  std::unique_ptr<Framer> NewFramerBehindGap(const FramerOptions& options,
                                             std::uint64_t offset) const override {
    return NewTarFramerBehindGap(options, offset);
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return {Status(), NewTarWriter(std::move(file), options_)};
  }

 private:
  const TarOptions options_;
};

}  // namespace

Status ParseTarOptions(std::string_view text, TarOptions* options) {
  *options = {};
  if (text.empty()) return {};
  const std::string_view extension = text.starts_with("ext=") ? text.substr(4) : "";
  if (extension.empty() || extension.size() > kMostExtensionName ||
      extension.find_first_of("/,") != std::string_view::npos) {
    return Status(StatusCode::kInvalidArgument,
                  "format \"tar:" + std::string(text) +
                      "\": expected tar or tar:ext=NAME, an extension of 1 to 64 bytes without a "
                      "slash or a comma");
  }
  options->extension = extension;
  return {};
}

std::shared_ptr<const Format> TarFormat(const TarOptions& options) {
  return std::make_shared<const Tar>(options);
}

}  // namespace ringfeed
