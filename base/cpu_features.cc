#include "base/cpu_features.h"

namespace ringfeed {
namespace {

CpuFeatures FindFeatures() {
  CpuFeatures found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  found.sse42 = __builtin_cpu_supports("sse4.2");
  found.avx2 = __builtin_cpu_supports("avx2");
  // Zen 1 and 2 take a hundred cycles and more for one pext.
  const bool slow_pext = __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2");
  found.bmi2 = __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && !slow_pext;
  found.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl");
  found.avx512_dq = found.avx512 && __builtin_cpu_supports("avx512dq");
  found.avx512_vbmi =
      found.avx512 && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
  found.avx512_clmul = found.avx512_dq && found.sse42 && __builtin_cpu_supports("vpclmulqdq");
#endif
  return found;
}

}  // namespace

const CpuFeatures& Cpu() {
  static const CpuFeatures kFeatures = FindFeatures();
  return kFeatures;
}

}  // namespace ringfeed
