#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/little_endian.h"
#include "readers/parsers/parser.h"

namespace ringfeed {

/// The bytes in front of a feature's one packed run, as nearly all writers write them:
///   0a L 0a k key 12 V kind W 0a P
/// Four of them are lengths that grow with the run's; where all fit into one byte, the rest is the
/// same in every record, and one comparison of a few words replaces the parsing.
class EntryTemplate {
 public:
  /// `number`: of the kind's field. A run that is found has the location `form`.
  EntryTemplate(const std::string& key, std::uint32_t number, std::uint32_t form);

  /// True where the bytes start with this entry; then *location is its run.
  bool Match(std::span<const std::byte> bytes, FieldLocation* location) const {
    const std::byte* const at = bytes.data();
    if (bytes.size() < head_bytes_) return false;
    const auto run = Settled(std::to_integer<std::uint64_t>(at[head_bytes_ - 1]));
    if (run > most_run_bytes_ || run > bytes.size() - head_bytes_) return false;
    std::uint64_t other = words_[0].Differs(at, run) | words_[1].Differs(at, run);
    for (std::size_t i = 2; i < word_count_; ++i) other |= words_[i].Differs(at, run);
    if (other != 0) return false;
    *location = {at + head_bytes_, static_cast<std::uint32_t>(run), 0, form_};
    return true;
  }

 private:
  static constexpr std::size_t kMostWords = 6;
  struct Word {
    std::uint64_t fixed = 0;
    std::uint64_t lengths = 0;  // 1 in every byte to which the run's length is added
    std::size_t at = 0;

    std::uint64_t Differs(const std::byte* entry, std::uint64_t run) const {
      return LoadLe<std::uint64_t>(entry + at) ^ (fixed + run * lengths);
    }
  };

  std::size_t head_bytes_ = 0;
  std::uint64_t most_run_bytes_ = 0;
  std::size_t word_count_ = 0;
  std::uint32_t form_ = 0;
  std::array<Word, kMostWords> words_;
};

}  // namespace ringfeed
