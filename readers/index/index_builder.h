#pragma once

#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "readers/index/index_image.h"
#include "readers/index/indexed_file.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Makes an index of units in the order of their file. One thread.
class IndexBuilder {
 public:
  /// Damage beyond so many ranges counts as lost to all records, without a look for one that has
  /// it.
  static constexpr std::size_t kMostRanges = 1 << 16;

  void Add(const FramedUnit& unit);
  /// Ends the index; the last unit ends at `file_bytes` at the latest. The caller fills in the
  /// image's identity, format, largest record and damage.
  IndexImage Finish(std::uint64_t file_bytes);

  struct LostUnit {
    std::uint64_t begin = 0;
    std::uint64_t first_record = 0;
  };
  /// The lost units so far.
  const std::vector<LostUnit>& lost() const { return lost_; }

 private:
  /// A unit is read up to the next one, though it ends before, if that is not far.
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
  std::size_t page_ = 0;     ///< the current page begins here
  std::size_t entries_ = 0;  ///< in it
  std::uint64_t base_offset_ = 0;
  std::uint64_t base_record_ = 0;
  std::uint64_t units_ = 0;
  std::uint64_t records_ = 0;
  std::uint64_t longest_ = 0;
  std::vector<LostUnit> lost_;
};

/// Reads the file once with its format's own framer, damage skipped. So a record's number is the
/// one that reading the file in order gives it. It does not check payloads' checksums. Memory: the
/// index, and a window of the file of the size of a large record. Blocks. kUnsupported if records
/// cannot be read by themselves, kCancelled soon after `stop` is requested. The image has all but
/// the file's identity.
Status ScanForIndex(const IndexedFile& file, IndexImage* image, const std::stop_token& stop = {});

/// Whether records of this file can be read by themselves, as far as that is known before a scan.
Status CanBeIndexed(const IndexedFile& file);

/// Reads the index that NVIDIA DALI's tfrecord2idx makes of a TFRecord file: text, for each record
/// a line of its offset and its bytes, frame included. Each is compared with the header in the
/// file. kNotFound if there is none; kDamaged, with the reason, if it does not cover the file
/// without a gap, or a header differs; kCancelled soon after `stop` is requested. The image has all
/// but the file's identity.
Status ReadDaliIndex(const std::string& path, const IndexedFile& file, IndexImage* image,
                     const std::stop_token& stop = {});

/// The same of an index that NVIDIA's Energon or DALI's wds2idx made of a tar file. Each header in
/// the file is read. kDamaged, too, if samples begin elsewhere here, or the archive is damaged.
Status ReadTarIndex(const std::string& path, const IndexedFile& file, IndexImage* image,
                    const std::stop_token& stop = {});

}  // namespace ringfeed
