#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "readers/formats/format.h"
#include "readers/formats/record_index.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// What the end of an ArrayRecord file says of its chunks (cpp/layout.proto in
/// github.com/google/array_record). The last 64 KiB hold the postscript, three times the same
/// message: where the footer is, and a magic number. The footer is a chunk: the first record has
/// the numbers of chunks and records and the writer's options, each further one the place and the
/// number of records of a chunk. Immutable; thread safe.
class ArrayRecordFooter {
 public:
  /// Reads it from a file of so many bytes. A damaged one says so (hopeless). Fails if the file
  /// cannot be read, or its records cannot, although they are not damaged. Blocks.
  static Status Read(std::uint64_t file_bytes, const ReadPart& read,
                     std::shared_ptr<const ArrayRecordFooter>* footer);

  std::uint64_t file_bytes() const { return file_bytes_; }
  std::uint64_t records() const { return records_; }
  std::uint64_t chunks() const { return begins_.empty() ? 0 : begins_.size() - 1; }
  /// Where a chunk begins in the file; of the number chunks(), where the last one ends.
  std::uint64_t begin(std::uint64_t chunk) const { return begins_[chunk]; }
  std::uint64_t first_record(std::uint64_t chunk) const;
  std::uint32_t RecordsOf(std::uint64_t chunk) const {
    return static_cast<std::uint32_t>(first_record(chunk + 1) - first_record(chunk));
  }
  /// The chunk of a record; the first chunk that begins at `offset` or after it, else chunks().
  std::uint64_t ChunkOf(std::uint64_t record) const;
  std::uint64_t ChunkFrom(std::uint64_t offset) const;
  /// Why nothing of the file can be had.
  const Status& hopeless() const { return hopeless_; }

 private:
  class Builder;

  std::uint64_t file_bytes_ = 0;
  std::uint64_t records_ = 0;
  std::vector<std::uint64_t> begins_;  ///< of chunks with records, and the footer's
  std::uint64_t group_ = 0;            ///< records of each chunk but the last one; 0: of any number
  std::vector<std::uint64_t> firsts_;  ///< then the first record of each, and records_
  Status hopeless_;
};

/// The places of a file's records.
class ArrayRecordPlaces final : public RecordIndex {
 public:
  explicit ArrayRecordPlaces(std::shared_ptr<const ArrayRecordFooter> footer);

  std::uint64_t records() const override { return footer_->records(); }
  Status Find(std::span<const std::uint64_t> records, std::span<RecordUnit> units) const override;
  Status FirstFrom(std::uint64_t offset, std::uint64_t* record) const override;
  std::span<const IndexDamage> damage() const override { return damage_; }

 private:
  const std::shared_ptr<const ArrayRecordFooter> footer_;
  std::vector<IndexDamage> damage_;
};

}  // namespace ringfeed
