#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/readers/formats/frame_all.h"

namespace ringfeed {

/// The records but for number `gone`.
std::vector<std::string> Without(const std::vector<std::string>& all, std::size_t gone);
/// The first `count` records.
std::vector<std::string> First(const std::vector<std::string>& all, std::size_t count);

/// All records by number, as the file's own index has their places, damage skipped: an empty text
/// for what is lost.
std::vector<std::string> ByNumber(const Format& format, const std::string& file);
/// The same of what was framed in the file's order.
std::vector<std::string> RecordsInOrder(const Framed& framed);
std::size_t CountLost(const std::vector<std::string>& records);

/// Files with bytes at random places set to random values: the same series in every run.
class Scribbler {
 public:
  std::string Scribbled(std::string file, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      // The constants of Knuth's MMIX.
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      file[(state_ >> 33) % file.size()] = static_cast<char>(state_ >> 20);
    }
    return file;
  }

 private:
  std::uint64_t state_ = 1;
};

/// Whatever the file holds, framing ends, and its damage is a list of ranges in order, each with a
/// reason.
void ExpectOrderly(const Framed& framed);

}  // namespace ringfeed
