#pragma once

#include <cstddef>
#include <cstdint>

#include "ringfeed/open_options.h"

namespace ringfeed {

/// What of OpenOptions the order by index depends on, beside the stripes that a RowLayout has.
struct OrderOptions {
  FileOrder files{};
  std::size_t cycle = 8;
  std::uint32_t first_epoch = 0;
};

}  // namespace ringfeed
