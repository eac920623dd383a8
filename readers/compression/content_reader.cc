#include "readers/compression/content_reader.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ringfeed {
namespace {

constexpr std::size_t kBufferBytes = 128 * 1024;

}  // namespace

ContentReader::ContentReader(Compression compression, Source source)
    : compression_(compression),
      source_(std::move(source)),
      decompressor_(MakeDecompressor(compression)),
      buffer_(kBufferBytes) {}

Status ContentReader::Bad(StatusCode code, const char* what, std::string_view problem) const {
  return Status(code, std::string("the ") + CompressionName(compression_) + " stream " + what +
                          " at byte " + std::to_string(read_bytes_ - input_.size()) +
                          std::string(problem.empty() ? "" : ": ") + std::string(problem));
}

bool ContentReader::Refill() {
  std::size_t got = 0;
  failure_ = source_(buffer_, &got);
  if (!failure_.ok()) return false;
  read_bytes_ += got;
  input_ = std::span(buffer_).first(got);
  if (got > 0) return true;
  ended_ = true;
  if (decompressor_->inside_member()) failure_ = Bad(StatusCode::kTruncated, "is cut off", "");
  return false;
}

void ContentReader::Step(std::span<std::byte>* room) {
  if (input_.empty() && !has_more_ && !Refill()) return;
  if (had_member_ && !decompressor_->inside_member()) {
    const auto end = std::find_if(input_.begin(), input_.end(),
                                  [](std::byte byte) { return byte != std::byte{0}; });
    input_ = input_.subspan(static_cast<std::size_t>(end - input_.begin()));
    if (input_.empty()) return;
  }
  const Decompressor::Result result = decompressor_->Decompress(&input_, room);
  has_more_ = result == Decompressor::Result::kNeedsRoom;
  if (result == Decompressor::Result::kMemberEnds) had_member_ = true;
  if (result == Decompressor::Result::kDamaged) {
    failure_ = Bad(StatusCode::kDamaged, "is damaged", decompressor_->problem());
  }
}

Status ContentReader::Read(std::span<std::byte> to, std::size_t* got) {
  std::span<std::byte> room = to;
  while (room.size() == to.size() && !ended_ && failure_.ok()) Step(&room);
  *got = to.size() - room.size();
  return *got > 0 ? Status() : failure_;
}

}  // namespace ringfeed
