#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "readers/formats/format.h"
#include "readers/index/index_image.h"

namespace ringfeed {

/// Makes an index of units in the order of their file. One thread.
class IndexBuilder {
 public:
  void Add(const FramedUnit& unit);
  /// Ends it; `file_bytes` is where the last unit ends at the latest. The image's identity, format,
  /// largest record and damage are the caller's to fill in.
  IndexImage Finish(std::uint64_t file_bytes);

  struct LostUnit {
    std::uint64_t begin = 0;
    std::uint64_t first_record = 0;
  };
  /// The lost units so far.
  const std::vector<LostUnit>& lost() const { return lost_; }

 private:
  /// A unit is read up to the next one, though it ends before, where that is not far.
  static constexpr std::uint64_t kSlackBytes = 64;

  bool Fits(std::uint64_t begin, std::uint64_t record) const;
  void Append(std::uint64_t begin, std::uint64_t record);
  void StartPage(std::uint64_t begin, std::uint64_t record);
  void SealPage();
  void Repack(const IndexLayout& layout);

  IndexLayout layout_;
  std::size_t per_page_ = layout_.entries_per_page();
  IndexImage image_;
  FramedUnit last_;
  std::size_t page_ = 0;     ///< where the page at hand begins
  std::size_t entries_ = 0;  ///< in it
  std::uint64_t base_offset_ = 0;
  std::uint64_t base_record_ = 0;
  std::uint64_t units_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t longest_ = 0;
  std::vector<LostUnit> lost_;
};

}  // namespace ringfeed
