#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ringfeed {

/// What a fingerprint is made of, of each file.
struct FileFacts {
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;  ///< 0: not known, there is no index
  std::uint64_t sample = 0;   ///< of its contents (IdentifyFile)
};

/// By what a data set is known again: the same on all machines, whatever the files are called and
/// wherever they lie.
struct DataFingerprint {
  static constexpr std::size_t kMostParts = 64;

  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;  ///< 0: not known
  std::uint64_t sizes = 0;    ///< hash of the files' sizes in their order
  std::uint64_t samples = 0;  ///< of pieces of their contents
  /// Of the files one by one, so that it can be said which one changed; of more than kMostParts
  /// files each stands for some that follow each other.
  std::vector<std::uint16_t> parts{};

  /// Of several sets, in their order: the parts are left out.
  void Add(const DataFingerprint& set);
  friend bool operator==(const DataFingerprint&, const DataFingerprint&) = default;
};

DataFingerprint FingerprintOf(std::span<const FileFacts> files);

/// What changed from `was` to `is`, in words; empty where nothing did. A number of records that one
/// of them does not know is no difference.
std::string DifferenceOf(const DataFingerprint& was, const DataFingerprint& is);

}  // namespace ringfeed
