#include "readers/engine/blocks/doubtful_records.h"

#include <algorithm>
#include <functional>
#include <span>

#include "readers/formats/compression/content_reader.h"

namespace ringfeed {

namespace {

// Whether a record begins in front of that place of the content; one that does not stand there as
// it is (a chunk's) is not known to.
bool IsBefore(const Block& block, const RecordSpan& record, std::uint64_t place) {
  for (const Block::Framed& part : block.framed) {
    const std::byte* const begin = part.bytes.data();
    // Unlike <, these compare pointers into different arrays.
    if (std::less<>()(record.data, begin)) continue;
    if (std::greater<>()(record.data, begin + part.bytes.size())) continue;
    return part.offset + static_cast<std::uint64_t>(record.data - begin) < place;
  }
  return false;
}

// The block's records that begin at `place` of the content or behind it.
std::uint64_t CountFrom(const Block& block, std::uint64_t place) {
  const std::span<const RecordSpan> records = block.frame.records;
  const bool all = block.framed.empty() || place <= block.framed.front().offset;
  if (all && block.frame.damage.empty()) return records.size();
  std::uint64_t count = 0;
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->damaged()) continue;
    if (!all && IsBefore(block, *record, place)) break;
    ++count;
  }
  return count;
}

}  // namespace

void DoubtfulRecords::Note(const Block& block, std::uint64_t member) {
  if (member != member_) records_ = 0;
  member_ = member;
  records_ += CountFrom(block, member);
}

std::string DoubtfulRecords::Describe(const Block& block, std::uint64_t member,
                                      std::uint64_t end) const {
  const std::uint64_t before = member == member_ ? records_ : 0;
  return UntrustedContent(member, end, before + CountFrom(block, member));
}

}  // namespace ringfeed
