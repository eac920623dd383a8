#include "base/type_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace ringfeed {

std::string TypeName(std::type_index type) {
  int failure = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &failure), &std::free);
  return failure == 0 ? name.get() : type.name();
}

}  // namespace ringfeed
