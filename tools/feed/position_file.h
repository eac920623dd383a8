#pragma once

#include <cstdint>
#include <string>

namespace ringfeed::tools {

/// What a chain's position (Reader::Position) says of itself.
struct PositionSummary {
  std::uint64_t batch = 0;
  std::uint64_t records = 0;  ///< of the data set; 0: not known
  std::string data;           ///< tells data sets apart; the same whether records are known or not
};
/// Throws Error where `position` is none.
PositionSummary SummaryOf(const std::string& position);

/// What a file holds, without the end of its line. Throws Error where it cannot be read.
std::string ReadPositionFile(const std::string& path);
/// Throws Error where a position cannot be kept under that name: a device, a FIFO or a folder
/// stands there. To be asked before an hour's work, not behind it.
void CheckPositionFile(const std::string& path);
/// Replaces the file at once, or what a link of that name leads to: whoever reads it, also after a
/// crash, finds the old or the new one whole. Throws Error where it cannot be written.
void WritePositionFile(const std::string& path, const std::string& position);

}  // namespace ringfeed::tools
