#pragma once

#include <string>
#include <string_view>

#include "ringfeed/status.h"

namespace ringfeed {

/// Sets *hex to a hash of a file as Python's hashlib or its package xxhash writes it, by the name
/// that it has there ("md5", "sha3_256", "blake2b", "xxh64", "xxh3_128"); to nothing if it is not
/// known here. Reads the whole file. Blocks.
Status HashFile(const std::string& file, std::string_view name, std::string* hex);

}  // namespace ringfeed
