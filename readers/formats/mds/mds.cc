#include "readers/formats/mds/mds.h"

#include <utility>

#include "readers/formats/mds/shard.h"
#include "readers/formats/samples/sample_framer.h"

namespace ringfeed {
namespace {

class Mds final : public Format {
 public:
  /// Of the samples of a file, or of what is written, if it is known.
  explicit Mds(SampleLayout layout) : layout_(std::move(layout)) {}

  std::string_view name() const override { return "mds"; }
  bool MatchesName(std::string_view file_name) const override {
    return file_name.ends_with(".mds");
  }
  bool MatchesBytes(std::span<const std::byte> head) const override {
    return StartsAsMdsShard(head);
  }
  std::unique_ptr<Framer> NewFramer(const FramerOptions& options) const override {
    return NewSampleFramer(options, ReadMdsHead);
  }
  std::unique_ptr<UnitFramer> NewUnitFramer(const FramerOptions& options) const override {
    return NewSampleUnitFramer(options, layout_);
  }
  OwnIndexResult OwnIndex(const FramerOptions& options,
                          std::span<const std::byte> head) const override {
    return SampleIndex(options, head, ReadMdsHead);
  }
  RecordWriterResult NewWriter(std::unique_ptr<OutputFile> file) const override {
    return NewMdsShardWriter(std::move(file), layout_);
  }
  std::string CopyFormat() const override { return "mds:" + layout_.columns; }
  bool has_columns() const override { return true; }
  RowEncoderResult NewRowEncoder(const std::vector<FieldSpec>& fields) const override {
    return NewMdsEncoder(fields);
  }
  // The offsets of all samples stand in front.
  bool writes_in_order() const override { return false; }
  // The units' framer knows the columns then.
  std::shared_ptr<const Format> OfFile(Compression compression,
                                       std::span<const std::byte> head) const override {
    std::vector<std::byte> content;
    if (compression != Compression::kNone) {
      Status end;
      content = HeadOfContent(compression, head, kHeadBytes, &end);
      head = content;
    }
    return std::make_shared<const Mds>(ReadMdsHead(head, true, {}).table->layout());
  }

 private:
  const SampleLayout layout_;
};

}  // namespace

std::shared_ptr<const Format> MdsFormat(const SampleLayout& layout) {
  return std::make_shared<const Mds>(layout);
}

}  // namespace ringfeed
