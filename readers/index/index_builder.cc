#include "readers/index/index_builder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "io/careful_reads.h"
#include "io/file_mapping.h"
#include "io/input_file.h"
#include "ringfeed/io_options.h"

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

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;
// Units of a mapped file are made in pieces, so that they are never all in memory twice.
constexpr std::uint64_t kLimitBytes = std::uint64_t{4} << 20;

/// The file's bytes from any place on, ascending: mapped, or read into a buffer.
class ScanWindow {
 public:
  explicit ScanWindow(std::unique_ptr<InputFile> input)
      : input_(std::move(input)), careful_(input_.get()) {}

  /// At least `bytes` bytes from `offset` on, or all that exist; then sets *at_end.
  Status Slide(std::uint64_t offset, std::size_t bytes, bool* at_end,
               std::span<const std::byte>* window);
  bool mapped() const { return !input_->mapping().empty(); }
  bool damaged() const { return input_->damaged(); }
  bool shrank() const { return input_->shrank(); }
  /// The bytes that the medium did not give, from the window's start on.
  std::span<const UnreadableRange> unreadable() const { return careful_.ranges(); }

 private:
  const std::unique_ptr<InputFile> input_;
  CarefulReads careful_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0;
  std::size_t have_ = 0;
  bool all_read_ = false;
};

Status ScanWindow::Slide(std::uint64_t offset, std::size_t bytes, bool* at_end,
                         std::span<const std::byte>* window) {
  if (mapped()) {
    AwaitSigbus();
    const auto at = std::min<std::uint64_t>(offset, input_->mapping().size());
    *window = input_->mapping().subspan(static_cast<std::size_t>(at));
    *at_end = true;
    return {};
  }
  const auto used = static_cast<std::size_t>(std::min<std::uint64_t>(offset - begin_, have_));
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(used),
            buffer_.begin() + static_cast<std::ptrdiff_t>(have_), buffer_.begin());
  have_ -= used;
  begin_ += used;
  const std::uint64_t left = input_->size() - std::min(input_->size(), begin_);
  const std::uint64_t most = std::max(bytes, kReadBytes);
  const auto wanted = static_cast<std::size_t>(std::min(most, left));
  if (buffer_.size() < wanted) buffer_.resize(wanted);
  Status status;
  while (have_ < wanted && !all_read_ && status.ok()) {
    std::size_t got = 0;
    const std::span<std::byte> to = std::span(buffer_).subspan(have_, wanted - have_);
    status = input_->ReadAt(begin_ + have_, to, &got);
    if (careful_.HelpsAfter(status)) status = careful_.ReadAll(begin_ + have_, to, &got);
    all_read_ = got == 0;
    have_ += got;
  }
  careful_.Forget(begin_);
  *at_end = all_read_ || begin_ + have_ >= input_->size();
  *window = std::span<const std::byte>(buffer_).first(have_);
  return status;
}

/// Maps resident files, and those of which only headers are read. Others are read, which is the
/// fastest way for the medium.
Status OpenWindow(const IndexedFile& file, std::unique_ptr<InputFile>* input) {
  OpenInputResult opened;
  bool mapped = false;
  if (file.source == nullptr) {
    IoOptions options;
    const bool headers_alone = file.format->units_by_headers() && file.bytes > 0;
    options.path = headers_alone ? IoPath::kMmap : IoPath::kAuto;
    opened = OpenInput(file.name, options, {.may_map = true});
    mapped = opened.status.ok() && !opened.file->mapping().empty();
  }
  if (!mapped) opened = OpenIndexed(file, "it is indexed");
  *input = std::move(opened.file);
  return opened.status;
}

FramerOptions FramingOf(const IndexedFile& file) {
  return {file.name, file.bytes, OnDamage::kSkip, file.max_record_bytes, true};
}

class Scan {
 public:
  Scan(const IndexedFile& file, std::unique_ptr<InputFile> input, const std::stop_token& stop)
      : file_(file), window_(std::move(input)), stop_(stop) {}

  Status Run(IndexImage* image);

 private:
  Status Step(bool* done);
  Status StepTo(const UnreadableRange& bad, std::span<const std::byte> window, bool* done);
  Status Take();
  void NoteLoss(IndexHeader* header);

  const IndexedFile& file_;
  ScanWindow window_;
  const std::stop_token& stop_;
  std::unique_ptr<Framer> framer_;
  IndexBuilder builder_;
  FrameOutput output_;
  std::vector<FramedUnit> units_;
  HeapFrameMemory memory_;
  std::uint64_t offset_ = 0;
  std::uint64_t limit_ = kLimitBytes;
  std::size_t need_ = 0;
  std::vector<IndexDamage> ranges_;
  std::vector<DataWarning> warnings_;
  std::uint64_t damaged_ = 0;
  bool unreadable_ = false;
};

Status Scan::Run(IndexImage* image) {
  framer_ = file_.format->NewFramer(FramingOf(file_));
  output_.units = &units_;
  bool done = file_.bytes == 0;  // it has no stripe
  while (!done) {
    Status status = stop_.stop_requested()
                        ? Status(StatusCode::kCancelled, "making the index was broken off")
                        : Step(&done);
    if (!status.ok()) return status.WithPlace({file_.name, -1, -1});
  }
  *image = builder_.Finish(file_.bytes);
  IndexHeader& header = image->header;
  header.max_record_bytes = file_.max_record_bytes;
  image->unreadable = unreadable_;
  NoteLoss(&header);
  for (DataWarning& warning : warnings_) {
    ranges_.push_back({file_.bytes, file_.bytes, IndexDamage::kWarning, std::move(warning.text)});
  }
  std::sort(ranges_.begin(), ranges_.end());
  image->damage = std::move(ranges_);
  return {};
}

Status Scan::Step(bool* done) {
  std::span<const std::byte> window;
  bool at_end = false;
  Status status = window_.Slide(offset_, need_, &at_end, &window);
  if (!status.ok()) return status;
  for (const UnreadableRange& bad : window_.unreadable()) {
    if (bad.begin < offset_ + window.size() && bad.end > offset_) {
      return StepTo(bad, window, done);
    }
  }
  const FrameInput input{window, offset_, std::min(limit_, file_.bytes), at_end, &memory_};
  const FrameResult result = framer_->Frame(input, &output_);
  if (!result.status.ok()) return result.status;
  if (window_.damaged()) {
    return window_.shrank() ? Status(StatusCode::kTruncated, "the file shrank while it was indexed")
                            : StatusFromErrno(EIO, "reading a page of the mapped file");
  }
  status = Take();
  offset_ += result.consumed;
  need_ = result.need_bytes;
  const bool at_limit = offset_ >= input.limit;
  if (need_ == 0 || at_limit || at_end) limit_ = std::max(limit_, offset_) + kLimitBytes;
  *done = input.limit >= file_.bytes && (need_ == 0 || at_end) && (at_limit || at_end);
  return status;
}

// Takes what is in front of bytes that cannot be read, and goes on after them.
Status Scan::StepTo(const UnreadableRange& bad, std::span<const std::byte> window, bool* done) {
  unreadable_ = true;
  const std::uint64_t behind = std::min(bad.end, offset_ + window.size());
  if (bad.begin > offset_) {
    const auto before = static_cast<std::size_t>(bad.begin - offset_);
    const FrameInput input{window.first(before), offset_, file_.bytes, false, &memory_};
    const FrameResult result = framer_->Frame(input, &output_);
    if (!result.status.ok()) return result.status;
    offset_ += result.consumed;
    const Status status = Take();
    if (!status.ok()) return status;
  }
  // Tells what it was passing over. The framer takes this for the end of the file.
  const std::uint64_t begin = offset_;
  (void)framer_->Frame({{}, begin, file_.bytes, true, &memory_}, &output_);
  std::erase_if(output_.damage,
                [begin](const DamagedRange& range) { return range.begin >= begin; });
  for (DamagedRange& range : output_.damage) range.end = std::min(range.end, begin);
  framer_ = file_.format->NewFramerBehindGap(FramingOf(file_), behind);
  offset_ = framer_ == nullptr ? file_.bytes : behind;
  output_.damage.push_back({file_.name, begin, offset_, bad.why.ToString()});
  *done = offset_ >= file_.bytes;
  need_ = 1;
  limit_ = std::max(limit_, offset_) + kLimitBytes;
  return Take();
}

Status Scan::Take() {
  for (const FramedUnit& unit : units_) {
    if (unit.dependent) {
      return Status(StatusCode::kUnsupported,
                    "records depend on what stands in front of them (a global pax header), so they "
                    "cannot be read by themselves",
                    {file_.name, static_cast<std::int64_t>(unit.begin), -1});
    }
    builder_.Add(unit);
  }
  for (const DamagedRange& range : output_.damage) {
    if (ranges_.size() == IndexBuilder::kMostRanges) break;
    ranges_.push_back({range.begin, range.end, IndexDamage::kNoRecord, range.reason});
  }
  damaged_ += output_.damage.size();
  warnings_.insert(warnings_.end(), output_.warnings.begin(), output_.warnings.end());
  output_.warnings.clear();
  units_.clear();
  output_.records.clear();
  output_.damage.clear();
  memory_.Clear();
  return {};
}

// A range belongs to a record if a lost unit begins in it.
void Scan::NoteLoss(IndexHeader* header) {
  using LostUnit = IndexBuilder::LostUnit;
  header->damaged = damaged_ + builder_.lost().size();
  header->lost_ranges = damaged_ - ranges_.size();
  const std::vector<LostUnit>& lost = builder_.lost();
  for (IndexDamage& range : ranges_) {
    const auto first =
        std::lower_bound(lost.begin(), lost.end(), range.begin,
                         [](const LostUnit& unit, std::uint64_t at) { return unit.begin < at; });
    if (first != lost.end() && first->begin <= range.end) {
      range.record = first->first_record;
    } else if (header->lost_ranges++ == 0) {
      header->first_lost = range.begin;
    }
  }
}

}  // namespace

Status CanBeIndexed(const IndexedFile& file) {
  if (file.compression != Compression::kNone) {
    return Status(StatusCode::kUnsupported,
                  "a compressed file without seek points is read from its start: records have no "
                  "place in it; make its points (ringfeed index), decompress it, or use a format "
                  "that compresses inside (recordio)",
                  {file.name, -1, -1});
  }
  if (file.format->NewUnitFramer({file.name, file.bytes}) == nullptr) {
    return Status(StatusCode::kUnsupported,
                  "records of format \"" + std::string(file.format->name()) +
                      "\" cannot be read by themselves",
                  {file.name, -1, -1});
  }
  return {};
}

Status ScanForIndex(const IndexedFile& file, IndexImage* image, const std::stop_token& stop) {
  std::unique_ptr<InputFile> input;
  Status status = OpenWindow(file, &input);
  if (!status.ok()) return status.WithPlace({file.name, -1, -1});
  if (input->size() != file.bytes) {
    return Status(StatusCode::kIoError,
                  "the file had " + std::to_string(file.bytes) +
                      " bytes when it was examined and " + std::to_string(input->size()) +
                      " when it was to be indexed",
                  {file.name, -1, -1});
  }
  const bool mapped = !input->mapping().empty();
  status = Scan(file, std::move(input), stop).Run(image);
  if (!mapped || !IsOfMedium(status)) return status;
  // If it is read, and not mapped, the bytes around such a page can be had.
  OpenInputResult opened = OpenSequentialInput(file.name, IoOptions{}, "it is indexed");
  if (!opened.status.ok()) return opened.status.WithPlace({file.name, -1, -1});
  *image = IndexImage();
  return Scan(file, std::move(opened.file), stop).Run(image);
}

}  // namespace ringfeed
