#pragma once

#include <string>
#include <typeindex>

namespace ringfeed {

/// "ringfeed::Tensor": a type's name as it is written.
std::string TypeName(std::type_index type);

}  // namespace ringfeed
