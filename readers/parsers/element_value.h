#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "ringfeed/tensor.h"

namespace ringfeed {

/// One value in a column's type, with which places are filled.
class ElementValue {
 public:
  /// False if the type does not hold `value` exactly. Any NaN is held exactly.
  static bool Make(double value, DType dtype, ElementValue* made);
  /// The same; throws Error, which says that `who` asks, if the type does not.
  static ElementValue Of(double value, DType dtype, const std::string& who);

  /// Writes it to `bytes` bytes, a multiple of the type's.
  void Fill(std::byte* to, std::size_t bytes) const;

 private:
  std::array<std::byte, 8> element_{};
  std::size_t bytes_ = 1;
  bool one_byte_ = true;  ///< all of its bytes are the same
};

}  // namespace ringfeed
