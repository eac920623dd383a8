#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace ringfeed {

/// Sets the checksums of a file right, as far as its lengths lead: behind them is what a fuzzer
/// would not reach in a lifetime. Formats without checksums stay as they are.
void RepairChecksums(std::string_view format, std::vector<std::byte>* file);

}  // namespace ringfeed
