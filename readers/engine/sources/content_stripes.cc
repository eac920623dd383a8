#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "readers/engine/blocks/doubtful_records.h"
#include "readers/engine/sources/inline_stripes.h"
#include "readers/formats/compression/content_reader.h"

namespace ringfeed {
namespace {

/// Stripes of what a compressed file holds. Their offsets are those of the content.
class ContentStripes final : public InlineStripes {
 public:
  /// The file had so many bytes when it was scheduled.
  ContentStripes(LaneContext* context, StripeInput input, std::uint64_t scheduled_bytes)
      : InlineStripes(context, input),
        scheduled_bytes_(scheduled_bytes),
        content_(input.compression, [this](std::span<std::byte> buffer, std::size_t* got) {
          return ReadCompressed(buffer, got);
        }) {}

  bool ReadPart(Block* block) override {
    const bool done = InlineStripes::ReadPart(block);
    doubtful_.Note(*block, content_.member_begin());
    return done;
  }
  /// Decompressing takes long enough to be begun early.
  bool from_memory() const override { return false; }

 protected:
  Status ReadMore(std::uint64_t /*offset*/, std::span<std::byte> to, std::size_t* got) override {
    const StageTimer timer(*context_->decompress_clock);
    *got = 0;
    std::size_t some = 1;
    while (!to.empty() && some > 0) {
      const Status status = content_.Read(to, &some);
      if (!status.ok()) return status;
      *got += some;
      to = to.subspan(some);
    }
    return to.empty() ? Status() : WhyShort();
  }

  std::uint64_t DoubtfulFrom(const Block& block, std::uint64_t end,
                             std::string* why) const override {
    if (!content_.damaged()) return end;
    *why = doubtful_.Describe(block, content_.member_begin(), end);
    return content_.member_begin();
  }

  bool Resume(std::string* loss) override {
    const StageTimer timer(*context_->decompress_clock);
    return content_.FindNextMember(loss);
  }

 private:
  /// Whole members may be gone, or all of them: their absence is no damage of what is left.
  Status WhyShort() const {
    if (file_->size() >= scheduled_bytes_) return {};
    return Status(StatusCode::kTruncated, "the file ends at " + std::to_string(file_->size()) +
                                              ", it had " + std::to_string(scheduled_bytes_) +
                                              " bytes when it was first looked at");
  }
  Status ReadCompressed(std::span<std::byte> buffer, std::size_t* got) {
    const auto begin = std::chrono::steady_clock::now();
    const std::uint64_t left = file_->size() - compressed_offset_;
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), left));
    *got = 0;
    if (bytes == 0) return {};
    const Status status = file_->ReadAt(compressed_offset_, buffer.first(bytes), got);
    compressed_offset_ += *got;
    context_->read_bytes->Add(*got);
    const auto time = std::chrono::steady_clock::now() - begin;
    context_->read_clock->Add(time);
    context_->decompress_clock->Add(-time);  // which runs meanwhile
    return status;
  }

  const std::uint64_t scheduled_bytes_;
  ContentReader content_;
  DoubtfulRecords doubtful_;
  std::uint64_t compressed_offset_ = 0;
};

}  // namespace

std::unique_ptr<StripeReader> MakeContentStripes(LaneContext* context, StripeInput input) {
  const std::uint64_t bytes = std::exchange(input.bytes, kUnknownSize);
  input.stripes = kUnknownSize;
  return std::make_unique<ContentStripes>(context, std::move(input), bytes);
}

}  // namespace ringfeed
