#pragma once

#include "base/x86_vectors.h"

#if defined(__x86_64__)
namespace ringfeed {

/// Moves the folded value on by the distance that the factors are made for (FirstFactor and
/// SecondFactor of crc32c_math.h), and adds the data at that place.
__attribute__((target("avx512f,pclmul,vpclmulqdq"))) inline __m512i FoldCrc32c(__m512i folded,
                                                                               __m512i factors,
                                                                               __m512i next) {
  const __m512i first = _mm512_clmulepi64_epi128(folded, factors, 0x00);
  const __m512i second = _mm512_clmulepi64_epi128(folded, factors, 0x11);
  return _mm512_ternarylogic_epi64(first, second, next, 0x96);
}

}  // namespace ringfeed
#endif
