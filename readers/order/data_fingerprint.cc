#include "readers/order/data_fingerprint.h"

#include <algorithm>

#include "base/balanced_split.h"
#include "base/mixed_hash.h"

namespace ringfeed {

namespace {

std::string Changed(const char* what, std::uint64_t was, std::uint64_t is) {
  return std::string(what) + ": " + std::to_string(is) + ", were " + std::to_string(was);
}

/// Which files' hashes differ, by their numbers.
std::string FilesThatDiffer(const DataFingerprint& was, const DataFingerprint& is) {
  constexpr std::size_t kNamed = 3;
  if (was.parts.size() != is.parts.size()) return {};
  std::string text;
  std::size_t found = 0;
  for (std::size_t i = 0; i < was.parts.size(); ++i) {
    if (was.parts[i] == is.parts[i] || found++ >= kNamed) continue;
    const NumberRange files =
        BalancedRange(static_cast<std::size_t>(was.files), is.parts.size(), i);
    text += (text.empty() ? "number " : ", ") + std::to_string(files.begin);
    if (files.size() > 1) text += " to " + std::to_string(files.end - 1);
  }
  if (found > kNamed) text += " and " + std::to_string(found - kNamed) + " more";
  return text.empty() ? "" : " (of the files, from 0: " + text + ")";
}

}  // namespace

void DataFingerprint::Add(const DataFingerprint& set) {
  if (files == 0) {
    *this = set;
    return;
  }
  files += set.files;
  bytes += set.bytes;
  records += set.records;
  sizes = MixedHash(sizes).Add(set.sizes).value();
  samples = MixedHash(samples).Add(set.samples).value();
  parts.clear();
}

DataFingerprint FingerprintOf(std::span<const FileFacts> files) {
  DataFingerprint print;
  MixedHash sizes;
  MixedHash samples;
  const std::size_t parts = std::min(files.size(), DataFingerprint::kMostParts);
  for (std::size_t part = 0; part < parts; ++part) {
    const NumberRange range = BalancedRange(files.size(), parts, part);
    MixedHash hash;
    for (const FileFacts& file : files.subspan(range.begin, range.size())) {
      sizes.Add(file.bytes);
      samples.Add(file.sample);
      hash.Add(file.bytes).Add(file.sample);
      print.bytes += file.bytes;
      print.records += file.records;
    }
    print.parts.push_back(static_cast<std::uint16_t>(hash.value()));
  }
  print.files = files.size();
  print.sizes = sizes.value();
  print.samples = samples.value();
  return print;
}

std::string DifferenceOf(const DataFingerprint& was, const DataFingerprint& is) {
  if (was.files != is.files) return Changed("files", was.files, is.files);
  const std::string which = FilesThatDiffer(was, is);
  if (was.bytes != is.bytes) return Changed("bytes", was.bytes, is.bytes) + which;
  if (was.sizes != is.sizes) return "sizes of files, or their order" + which;
  if (was.samples != is.samples) return "contents of files, or their order" + which;
  if (was.records != is.records && was.records != 0 && is.records != 0) {
    return Changed("records", was.records, is.records) + which;
  }
  return {};
}

}  // namespace ringfeed
