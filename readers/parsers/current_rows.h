#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "readers/formats/record_index.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"

namespace ringfeed {

/// Which records the rows are that a thread's parser is called with, for a user's function that
/// asks. Parsers get only records, so the thread holds it. One per thread at a time.
class CurrentRows {
 public:
  /// `records`: the rows of the calls to come; each call gets all of them or a part.
  explicit CurrentRows(std::span<const RecordSpan> records) : records_(records) { current = this; }
  virtual ~CurrentRows() { current = nullptr; }
  CurrentRows(const CurrentRows&) = delete;
  CurrentRows& operator=(const CurrentRows&) = delete;

  /// The calling thread's; null if it has none.
  static const CurrentRows* Get() { return current; }
  /// The row's index. `record` is one of the records.
  std::size_t IndexOf(const RecordSpan& record) const {
    return static_cast<std::size_t>(&record - records_.data());
  }
  virtual DataPlace PlaceOf(std::size_t row) const = 0;
  /// File in the list and record in the file, whatever the order.
  virtual FileRecord RecordOf(std::size_t row) const = 0;
  /// The pass over the data.
  virtual std::uint64_t PassOf(std::size_t row) const = 0;

 private:
  static inline thread_local const CurrentRows* current = nullptr;
  const std::span<const RecordSpan> records_;
};

}  // namespace ringfeed
