#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What a shard says of its samples' columns.
struct MdsLayout {
  std::string columns{};          ///< MdsColumnsText; empty: not known
  std::uint64_t sizes_bytes = 0;  ///< of the sizes in a sample
  std::uint64_t fixed_bytes = 0;  ///< of the columns of fixed size

  /// Whether the sizes in a sample fill it; so if the columns are not known.
  bool Fills(std::span<const std::byte> sample) const;
  static constexpr const char* kFillsNot = "the sizes of its columns are not the sample's";
};

/// The head of a shard of MosaicML's streaming (streaming/base/format/mds/writer.py): u32 samples,
/// u32 offsets of them and of the end, and, up to the first of these, what it says of its columns,
/// as JSON. Of each sample the sizes of its columns of variable size come first, u32, then the
/// columns' bytes. Immutable, thread safe.
class MdsShard {
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

  const MdsLayout& layout() const { return layout_; }
  /// OK if the reader accepts the columns.
  Status CheckColumns(const FramerOptions& options) const;

 private:
  friend class MdsHeadReader;

  std::vector<std::uint32_t> offsets_;
  std::uint64_t head_bytes_ = 0;
  std::vector<Lost> lost_;
  std::vector<Piece> pieces_;
  std::uint64_t tail_begin_ = kUnknownSize;
  Status hopeless_;
  MdsLayout layout_;
};

/// Reads the head of a file that begins so. `ends`: the file has no more bytes.
struct MdsHead {
  std::size_t need_bytes = 0;  ///< so many are needed; 0: it was read
  std::shared_ptr<const MdsShard> shard;
};
MdsHead ReadMdsHead(std::span<const std::byte> head, bool ends, const FramerOptions& options);

/// Whether a file may be a shard; then how long its head is, at least.
bool StartsAsMdsShard(std::span<const std::byte> head);
std::size_t MdsHeadBytes(std::span<const std::byte> head);

/// The places of a shard's samples.
class MdsRecords final : public RecordIndex {
 public:
  MdsRecords(std::shared_ptr<const MdsShard> shard, std::uint64_t file_bytes);

  std::uint64_t records() const override { return shard_->samples(); }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  std::span<const IndexDamage> damage() const override { return damage_; }

 private:
  const std::shared_ptr<const MdsShard> shard_;
  std::vector<IndexDamage> damage_;
};

}  // namespace ringfeed
