#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ringfeed/formats.h"
#include "ringfeed/status.h"

namespace ringfeed::tools {

/// Writes records to stdout, in a format whose files may stand one behind the other: pieces are
/// written to a temporary folder and copied from there, so that memory and disk stay bounded.
/// Unlike a file's, these bytes cannot be taken back when a later record fails.
class StdoutWriter final : public RecordWriter {
 public:
  /// Throws Error where the format is another, stdout is a terminal or there is no temporary
  /// folder.
  explicit StdoutWriter(std::string format);
  ~StdoutWriter() override;
  StdoutWriter(const StdoutWriter&) = delete;
  StdoutWriter& operator=(const StdoutWriter&) = delete;

  Status Write(std::span<const std::byte> record) override;
  Status Close() override;

 private:
  Status EndPiece();

  const std::string format_;
  std::string folder_;
  std::string piece_path_;
  std::unique_ptr<RecordWriter> piece_;
  std::uint64_t records_ = 0;  ///< of the piece
  std::size_t bytes_ = 0;
  Status status_;
};

}  // namespace ringfeed::tools
