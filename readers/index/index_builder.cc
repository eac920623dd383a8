#include "readers/index/index_builder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "readers/index/index_page.h"

namespace ringfeed {
namespace {

constexpr std::uint64_t kMostNarrow = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void IndexBuilder::Add(const FramedUnit& given) {
  FramedUnit unit = given;
  if (units_ != 0) {
    unit.begin = std::max(unit.begin, last_.begin);
    if (last_.lost) {
      image_.gaps.push_back({units_ - 1, last_.begin});
    } else if (unit.begin > last_.end && (unit.lost || unit.begin - last_.end > kSlackBytes)) {
      image_.gaps.push_back({units_ - 1, last_.end});
    }
  }
  if (unit.records != 1 && !layout_.chunks) Repack({true, layout_.wide});
  if (!Fits(unit.begin, records_)) Repack({layout_.chunks, true});
  Append(unit.begin, records_);
  if (unit.lost) lost_.push_back({unit.begin, records_});
  if (!unit.lost) longest_ = std::max(longest_, unit.end - unit.begin);
  records_ += unit.records;
  ++units_;
  last_ = unit;
}

// A page's first entry always fits.
bool IndexBuilder::Fits(std::uint64_t begin, std::uint64_t record) const {
  if (layout_.wide || entries_ == 0 || entries_ == per_page_) return true;
  return begin - base_offset_ <= kMostNarrow && record - base_record_ <= kMostNarrow;
}

void IndexBuilder::Append(std::uint64_t begin, std::uint64_t record) {
  if (entries_ == 0 || entries_ == per_page_) StartPage(begin, record);
  std::byte* const entries = image_.pages.data() + page_ + IndexLayout::kPageHead;
  std::byte* const at = entries + entries_ * layout_.entry_bytes();
  ++entries_;
  if (!layout_.chunks && !layout_.wide) [[likely]] {
    StoreLe(at, static_cast<std::uint32_t>(begin - base_offset_));
    return;
  }
  std::memcpy(at, &(begin -= base_offset_), layout_.number_bytes());
  if (!layout_.chunks) return;
  std::memcpy(at + layout_.number_bytes(), &(record -= base_record_), layout_.number_bytes());
}

void IndexBuilder::StartPage(std::uint64_t begin, std::uint64_t record) {
  SealPage();
  page_ = image_.pages.size();
  image_.pages.resize(page_ + IndexLayout::kPageBytes);
  base_offset_ = begin;
  base_record_ = record;
}

void IndexBuilder::SealPage() {
  if (entries_ == 0) return;
  std::byte* const page = image_.pages.data() + page_;
  StoreLe(page + 4, static_cast<std::uint32_t>(entries_));
  StoreLe(page + 8, base_offset_);
  StoreLe(page + 16, base_record_);
  StoreLe(page, IndexPage::Checksum(page));
  entries_ = 0;
}

void IndexBuilder::Repack(const IndexLayout& layout) {
  SealPage();
  const std::vector<std::byte> pages = std::exchange(image_.pages, {});
  const IndexLayout before = std::exchange(layout_, layout);
  per_page_ = layout_.entries_per_page();
  for (std::size_t at = 0; at < pages.size(); at += IndexLayout::kPageBytes) {
    const IndexPage page(pages.data() + at, before);
    for (std::size_t i = 0; i < page.entries(); ++i) Append(page.Offset(i), page.Record(i));
  }
}

IndexImage IndexBuilder::Finish(std::uint64_t file_bytes) {
  SealPage();
  IndexHeader& header = image_.header;
  std::copy(IndexHeader::kMagic.begin(), IndexHeader::kMagic.end(), header.magic.begin());
  header.version = IndexHeader::kVersion;
  header.units = units_;
  header.records = records_;
  header.pages = image_.pages.size() / IndexLayout::kPageBytes;
  header.gaps = image_.gaps.size();
  header.longest_unit = longest_;
  if (units_ != 0) header.data_end = last_.lost ? last_.begin : std::min(last_.end, file_bytes);
  header.chunks = layout_.chunks ? 1 : 0;
  header.wide = layout_.wide ? 1 : 0;
  return std::move(image_);
}

}  // namespace ringfeed
