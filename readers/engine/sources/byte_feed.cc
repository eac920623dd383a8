#include "readers/engine/sources/byte_feed.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringfeed {

ByteFeed::ByteFeed(LaneContext* context, Compression compression, DecompressedReader::Source source)
    : context_(context), source_(std::move(source)) {
  if (compression == Compression::kNone) return;
  decompressed_ = std::make_unique<DecompressedReader>(
      compression, [context, from = std::move(source_)](std::span<std::byte> to, std::size_t* got) {
        const auto begin = std::chrono::steady_clock::now();
        Status status = from(to, got);
        context->decompress_clock->Add(begin - std::chrono::steady_clock::now());  // it runs
        return status;
      });
}

Status ByteFeed::Read(std::span<std::byte> to, std::size_t* got) {
  if (decompressed_ == nullptr) return source_(to, got);
  const StageTimer timer(*context_->decompress_clock);
  return decompressed_->Read(to, got);
}

void ByteFeed::NoteFramed(const Block& block) {
  if (decompressed_ == nullptr) return;
  const std::uint64_t member = decompressed_->member_begin();
  if (member != std::exchange(member_, member)) doubtful_records_ = 0;
  doubtful_records_ += block.RecordsFrom(member);
}

ByteFeed::Gap ByteFeed::GapAt(const Status& failure, const Block& block, std::uint64_t position,
                              std::uint64_t end) const {
  if (decompressed_ == nullptr || !decompressed_->damaged()) return {position, failure.message()};
  const std::uint64_t member = decompressed_->member_begin();
  const std::uint64_t before = member == member_ ? doubtful_records_ : 0;
  return {std::min(position, member), failure.message(),
          UntrustedBytes(member, end, before + block.RecordsFrom(member))};
}

void ByteFeed::GoOnBehind(const Format& format, const FramerOptions& options, std::uint64_t end,
                          Gap* gap) {
  if (decompressed_ == nullptr) return;
  auto framer = format.NewFramerBehindGap(options, end);
  const StageTimer timer(*context_->decompress_clock);
  std::string loss;
  if (framer == nullptr || !decompressed_->FindNextMember(&loss)) return;
  gap->framer = std::move(framer);
  gap->loss = std::move(loss);
}

}  // namespace ringfeed
