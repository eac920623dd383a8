#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ringfeed/reader.h"
#include "ringfeed/record.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// The records of one file (or stream) in their order in it, for commands that look at files one by
/// one: a chain of OpenFiles alone, on one reader thread.
class FileRecords {
 public:
  /// `format` as in OpenOptions. Throws Error where the set-up does not work.
  FileRecords(std::string file, const std::string& format, OnDamage on_damage);

  /// Some next records, valid until the next call; a damaged one may stand as a null span.
  ReadResult Next(std::span<const RecordSpan>* records);
  /// The failure after kFailed.
  Status status() const { return reader_.status(); }
  /// What was skipped, or what reading failed at: under kFail all from there on is not delivered.
  std::vector<DamagedRange> Damage() const;
  std::uint64_t damaged_records() const { return reader_.Stats().damaged_records; }
  /// Ends a Next that waits, from any thread.
  void Close() { reader_.Close(); }

 private:
  std::string file_;
  Reader reader_;
  RecordBlock block_;
};

}  // namespace ringfeed::tools
