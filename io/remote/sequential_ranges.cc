#include "io/remote/sequential_ranges.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "io/remote/remote_engine.h"
#include "io/remote/remote_source.h"

namespace ringfeed {
namespace {

constexpr std::size_t kAheadPartBytes = std::size_t{1} << 20;
constexpr std::size_t kPartsAhead = 4;

}  // namespace

SequentialRanges::~SequentialRanges() { LetGo(); }

void SequentialRanges::LetGo() {
  engine_.reset();  // it writes to the parts until then
  parts_.clear();
}

void SequentialRanges::AskAhead() {
  if (engine_ == nullptr) engine_ = MakeRemoteEngine();
  while (parts_.size() < kPartsAhead && asked_ < input_->size()) {
    auto part = std::make_unique<Part>();
    part->bytes.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(kAheadPartBytes, input_->size() - asked_)));
    part->request = {input_, asked_, part->bytes.data(),
                     static_cast<std::uint32_t>(part->bytes.size())};
    ReadRequest* const requests[] = {&part->request};
    if (engine_->Submit(requests) == 0) return;
    asked_ += part->bytes.size();
    parts_.push_back(std::move(part));
  }
}

void SequentialRanges::AwaitFirst() {
  std::array<ReadRequest*, kPartsAhead> finished{};
  while (!parts_.front()->is_done) {
    const std::size_t count =
        engine_->Reap(finished, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    for (const ReadRequest* const request : std::span(finished).first(count)) {
      for (const auto& part : parts_) part->is_done = part->is_done || &part->request == request;
    }
  }
}

Status SequentialRanges::ReadAt(std::uint64_t offset, std::span<std::byte> buffer,
                                std::size_t* bytes_read) {
  *bytes_read = 0;
  const bool goes_on = offset == next_;
  next_ = offset + buffer.size();
  if (!goes_on || offset == 0) {
    is_sequential_ = false;
    LetGo();
    return input_->remote()->ReadRange(offset, buffer, bytes_read);
  }
  if (!is_sequential_) {
    is_sequential_ = true;
    asked_ = offset;
  }
  while (*bytes_read < buffer.size() && offset < input_->size()) {
    AskAhead();
    AwaitFirst();
    const Part& part = *parts_.front();
    const auto skipped = static_cast<std::size_t>(offset - part.request.offset);
    const std::size_t has = part.request.got - std::min<std::size_t>(part.request.got, skipped);
    const std::size_t bytes = std::min(has, buffer.size() - *bytes_read);
    std::memcpy(buffer.data() + *bytes_read, part.bytes.data() + skipped, bytes);
    *bytes_read += bytes;
    offset += bytes;
    if (!part.request.status.ok() && bytes == has) {
      Status failure = part.request.status;
      next_ = ~std::uint64_t{0};  // what follows is asked for anew
      is_sequential_ = false;
      LetGo();
      return failure;
    }
    if (skipped + bytes == part.bytes.size()) parts_.pop_front();
  }
  if (!parts_.empty()) AskAhead();
  return {};
}

}  // namespace ringfeed
