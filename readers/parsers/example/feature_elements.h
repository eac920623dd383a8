#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "readers/parsers/example/feature_values.h"
#include "ringfeed/tensor.h"

namespace ringfeed {

/// Appends the first `most` of a feature's values as elements of the type: numbers to a floating
/// type as C++ does, to an integral one without their fraction, each byte as an int8 that is cast.
/// False where the type cannot hold one, which *misfit then is. `elements` may be null.
bool ConvertValues(const FeatureValues& values, std::size_t most, DType dtype,
                   std::vector<std::byte>* elements, std::string* misfit);

}  // namespace ringfeed
