#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What is known of samples' columns.
struct SampleLayout {
  std::string columns{};          ///< ColumnsText; empty: not known
  std::uint64_t sizes_bytes = 0;  ///< of the sizes in a sample
  std::uint64_t fixed_bytes = 0;  ///< of the columns that have none there
  /// A sample that begins as a frame of zstd is one.
  bool may_be_frames = false;

  /// Whether the sizes in a sample fill it; so if the columns are not known.
  bool Fills(std::span<const std::byte> sample) const;
  static constexpr const char* kFillsNot = "the sizes of its columns are not the sample's";
};

/// Whether the reader accepts those columns.
Status CheckColumns(const SampleLayout& layout, const FramerOptions& options);

/// The head of a file of samples: u32 samples, u32 offsets of them and of the end, and more up to
/// the first of these. Of each sample the sizes of its columns come first, u32, then the columns'
/// bytes. Immutable, thread safe.
class SampleTable {
 public:
  /// Samples that cannot be had: both of their offsets must be believed.
  struct Lost {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint64_t begin = 0;  ///< of what is damaged, in the file
    std::uint64_t end = 0;    ///< kUnknownSize: of the file, whose size is not known
    StatusCode code = StatusCode::kDamaged;
    std::string reason{};
  };
  /// A damaged piece of the head that costs no sample, or, with kTruncated, the offsets of the
  /// samples that a file lacks which ends after another one: nothing else of them is there.
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::string reason{};
    StatusCode code = StatusCode::kDamaged;
  };

  /// Of samples with these offsets, the last one of which is their end; the first one begins after
  /// `head_bytes`. Finds those that cannot be had.
  SampleTable(std::vector<std::uint32_t> offsets, std::uint64_t head_bytes,
              std::vector<Piece> pieces, SampleLayout layout, const FramerOptions& options);
  /// Of a file of which nothing can be had.
  explicit SampleTable(Status hopeless) : hopeless_(std::move(hopeless)) {}

  std::uint64_t samples() const { return offsets_.empty() ? 0 : offsets_.size() - 1; }
  std::uint64_t begin(std::uint64_t sample) const { return offsets_[sample]; }
  std::uint64_t end(std::uint64_t sample) const { return offsets_[sample + 1]; }
  std::uint64_t head_bytes() const { return head_bytes_; }
  /// The lost samples that this one is one of; null if it is not lost.
  const Lost* LostAt(std::uint64_t sample) const;
  const std::vector<Lost>& lost() const { return lost_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  /// Where bytes of no sample begin, up to the file's end; kUnknownSize: there are none, or that is
  /// not known.
  std::uint64_t tail_begin() const { return tail_begin_; }
  static constexpr const char* kTail = "no sample has the bytes up to the file's end";
  /// Why nothing of the file can be had.
  const Status& hopeless() const { return hopeless_; }
  const SampleLayout& layout() const { return layout_; }

  /// Up to the first sample the file has, whatever was expected there, `head_bytes`.
  void AddHeadPiece(Piece piece, std::uint64_t head_bytes) {
    pieces_.push_back(std::move(piece));
    head_bytes_ = head_bytes;
  }

  static constexpr std::uint64_t kNumberBytes = sizeof(std::uint32_t);
  static constexpr std::uint64_t kLeastHead = 2 * kNumberBytes;
  /// Where the offsets of so many samples end.
  static constexpr std::uint64_t TableEnd(std::uint64_t samples) {
    return kLeastHead + kNumberBytes * samples;
  }
  /// Of a head: 64 million samples. A larger one is not read into memory.
  static constexpr std::uint64_t kMostHead = std::uint64_t{1} << 28;
  /// Where a file of that size ends at most.
  static std::uint64_t MostOffset(const FramerOptions& options);

 private:
  void FindLost(const FramerOptions& options);

  std::vector<std::uint32_t> offsets_;
  std::uint64_t head_bytes_ = 0;
  std::vector<Lost> lost_;
  std::vector<Piece> pieces_;
  std::uint64_t tail_begin_ = kUnknownSize;
  Status hopeless_;
  SampleLayout layout_;
};

/// What was read of a head.
struct SampleHead {
  std::size_t need_bytes = 0;  ///< so many are needed; 0: it was read
  std::shared_ptr<const SampleTable> table{};
};
/// Reads the head of a file that begins so. `ends`: the file has no more bytes.
using ReadSampleHead = std::function<SampleHead(std::span<const std::byte> head, bool ends,
                                                const FramerOptions& options)>;

/// The places of a file's samples.
class SampleRecords final : public RecordIndex {
 public:
  SampleRecords(std::shared_ptr<const SampleTable> table, std::uint64_t file_bytes);

  std::uint64_t records() const override { return table_->samples(); }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  std::span<const IndexDamage> damage() const override { return damage_; }

 private:
  const std::shared_ptr<const SampleTable> table_;
  std::vector<IndexDamage> damage_;
};

}  // namespace ringfeed
