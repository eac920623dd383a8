#pragma once

#include <cstdint>
#include <string>

namespace ringfeed {

/// What is to be said where a member of compressed content turned out damaged and [begin, end) of
/// the content had come of it, of which so many records were delivered. Empty where nothing came.
inline std::string UntrustedContent(std::uint64_t begin, std::uint64_t end, std::uint64_t records) {
  if (begin >= end) return "";
  return "; what came of it, bytes " + std::to_string(begin) + " to " + std::to_string(end) +
         " of the content, is not to be trusted: no checksum vouches for it (records delivered: " +
         std::to_string(records) + ")";
}

}  // namespace ringfeed
