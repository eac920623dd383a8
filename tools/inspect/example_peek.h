#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "ringfeed/record.h"

namespace ringfeed::tools {

/// What some first records say about one feature of a tf.Example.
struct PeekedFeature {
  char kind = 'b';          ///< 'b' bytes, 'f' float, 'i' int64
  std::size_t records = 0;  ///< that have it
  std::size_t fewest_values = 0;
  std::size_t most_values = 0;
};

/// Features by name; empty where the records are not tf.Examples.
std::map<std::string, PeekedFeature> PeekExamples(std::span<const RecordSpan> records);

/// A text for --parse that takes all of them; "" where there are none.
std::string SuggestParse(const std::map<std::string, PeekedFeature>& features, std::size_t records);

}  // namespace ringfeed::tools
