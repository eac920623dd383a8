#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ringfeed {

/// What has the name of data by mistake.
enum class Mistake : std::uint8_t {
  kNone,
  kPointer,      ///< a pointer of Git LFS or git-annex: the data were not fetched; a manifest;
                 ///< a table of wids
  kPage,         ///< a page, or an error in words, of a web server
  kErrorObject,  ///< an error of a web server as JSON: a line of JSON lines looks the same
};

struct MistakenFile {
  Mistake mistake = Mistake::kNone;
  std::string words;  ///< a sentence for an error: what it is, and what to do
};

/// By the file's first bytes; of a short file these are all of it. Thread safe.
MistakenFile FindMistake(std::span<const std::byte> head);

}  // namespace ringfeed
