#include "readers/index/index_cover.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "readers/formats/format.h"

namespace ringfeed {
namespace {

/// How many gaps are examined, evenly: in a text with empty rows each row may have one.
constexpr std::uint64_t kGapsLookedAt = 16;
constexpr std::size_t kFirstRead = 64 * 1024;
/// So much after what is left out, for the framer to tell what starts in it.
constexpr std::uint64_t kBehind = 4096;
constexpr std::uint64_t kMostSearched = 1 << 20;

struct LeftOut {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The pieces, which ascend, without the damage that is listed.
std::vector<LeftOut> WithoutDamage(std::vector<LeftOut> pieces,
                                   std::span<const IndexDamage> listed) {
  if (listed.empty()) return pieces;
  std::vector<LeftOut> damage;
  for (const IndexDamage& one : listed) damage.push_back({one.begin, one.end});
  std::sort(damage.begin(), damage.end(),
            [](const LeftOut& a, const LeftOut& b) { return a.begin < b.begin; });
  std::vector<LeftOut> left;
  for (LeftOut piece : pieces) {
    for (const LeftOut& range : damage) {
      if (range.end <= piece.begin) continue;
      if (range.begin >= piece.end) break;
      if (range.begin > piece.begin) left.push_back({piece.begin, range.begin});
      piece.begin = std::min(piece.end, range.end);
    }
    if (piece.begin < piece.end) left.push_back(piece);
  }
  return left;
}

class Search {
 public:
  explicit Search(const IndexedFile& file) : file_(file) {}

  /// Whether a record starts in the piece, as far as the search goes.
  Status Find(const LeftOut& piece, bool* found);

 private:
  Status Read(std::uint64_t offset, std::size_t bytes, FrameInput* input);
  bool IsUnit(const FrameInput& input);

  const IndexedFile& file_;
  std::unique_ptr<InputFile> input_;
  std::vector<std::byte> buffer_;
  HeapFrameMemory memory_;
};

Status Search::Read(std::uint64_t offset, std::size_t bytes, FrameInput* input) {
  if (input_ == nullptr) {
    OpenInputResult opened = OpenIndexed(file_, "its index is checked");
    if (!opened.status.ok()) return opened.status;
    input_ = std::move(opened.file);
  }
  buffer_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, file_.bytes - offset)));
  std::size_t got = 0;
  const Status status = input_->ReadAt(offset, buffer_, &got);
  input->bytes = std::span<const std::byte>(buffer_).first(got);
  input->offset = offset;
  input->at_end = got < bytes || offset + got == file_.bytes;
  input->memory = &memory_;
  memory_.Clear();
  return status;
}

// A framer that starts after the file's start may take the first row for one of names.
bool Search::IsUnit(const FrameInput& input) {
  FrameOutput output;
  const auto framer = file_.format->NewUnitFramer(
      {file_.name, file_.bytes, OnDamage::kSkip, file_.max_record_bytes});
  const Status status = framer->Frame(input, 1, &output);
  return status.ok() && !output.records.empty() && !output.records.front().damaged();
}

Status Search::Find(const LeftOut& piece, bool* found) {
  const auto framer = file_.format->NewFramer(
      {file_.name, file_.bytes, OnDamage::kSkip, file_.max_record_bytes, true});
  std::uint64_t at = piece.begin;
  const std::uint64_t all = piece.end - piece.begin + kBehind;
  auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(all, kFirstRead));
  while (at < piece.end && at - piece.begin < kMostSearched) {
    FrameInput input;
    input.limit = piece.end;
    Status status = Read(at, bytes, &input);
    if (!status.ok()) return status;
    std::vector<FramedUnit> units;
    FrameOutput output;
    output.units = &units;
    const FrameResult result = framer->Frame(input, &output);
    if (!result.status.ok()) return result.status;
    const auto is_record = [](const FramedUnit& unit) { return !unit.lost; };
    *found = std::any_of(units.begin(), units.end(), is_record) || (at != 0 && IsUnit(input));
    if (*found || result.need_bytes == 0 || input.at_end) return {};
    at += result.consumed;
    bytes = std::max(kFirstRead, result.need_bytes);
  }
  return {};
}

}  // namespace

Status CheckCover(const PagedIndex& index, const IndexedFile& file) {
  const IndexHeader& header = index.header();
  std::vector<LeftOut> pieces;
  const auto add = [&](std::uint64_t begin, std::uint64_t end) {
    end = std::min(end, file.bytes);
    if (begin < end) pieces.push_back({begin, end});
  };
  std::uint64_t first = file.bytes;
  Status status = header.units > 0 ? index.OffsetOf(0, &first) : Status();
  add(0, first);
  const std::span<const IndexGap> gaps = index.gaps();
  const std::uint64_t looked_at = std::min<std::uint64_t>(gaps.size(), kGapsLookedAt);
  for (std::uint64_t i = 0; i < looked_at && status.ok(); ++i) {
    const IndexGap& gap = gaps[static_cast<std::size_t>(i * gaps.size() / looked_at)];
    std::uint64_t next = 0;
    status = index.OffsetOf(gap.unit + 1, &next);
    add(gap.end, next);
  }
  if (!status.ok()) return status;
  if (header.units > 0) add(header.data_end, file.bytes);
  // If a file is damaged all over, the list has only a part of its damage, and all is reported.
  const std::span<const IndexDamage> lost = index.DamageOf(IndexDamage::kNoRecord);
  if (header.lost_ranges > lost.size()) return {};
  Search search(file);
  for (const LeftOut& piece : WithoutDamage(std::move(pieces), index.damage())) {
    bool found = false;
    status = search.Find(piece, &found);
    if (!status.ok()) return status;
    if (found) {
      return Status(StatusCode::kDamaged, "it leaves out a record that stands from " +
                                              std::to_string(piece.begin) + " on");
    }
  }
  return {};
}

}  // namespace ringfeed
