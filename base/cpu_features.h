#pragma once

namespace ringfeed {

/// The instructions that ringfeed has code for and this machine's processor has. All false off
/// x86-64.
struct CpuFeatures {
  bool sse42 = false;
  bool avx2 = false;
  bool bmi2 = false;          ///< with a fast pext: not on processors that run it in microcode
  bool avx512 = false;        ///< F, BW and VL
  bool avx512_dq = false;     ///< avx512 with DQ
  bool avx512_vbmi = false;   ///< avx512 with VBMI and VBMI2
  bool avx512_clmul = false;  ///< avx512 with VPCLMULQDQ
};

/// Found once; thread safe.
const CpuFeatures& Cpu();

}  // namespace ringfeed
