// Which instructions the kernels may use here, asked once; a test can ask for less.
//
// Portable kernels are written with Highway and choose by themselves. Kernels with intrinsics come in files of their
// own, each function with its target attribute, and are chosen by IsaHas.
#pragma once

#include <cstdint>

// The function attributes of kernels with intrinsics. The compiler's own flags stay at the baseline, so that one binary
// runs on every processor.
#if defined(__x86_64__)
#define ROOFBENCH_X86 1
#define ROOFBENCH_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,fma,f16c,bmi,bmi2"
#define ROOFBENCH_TARGET_AVX512 __attribute__((target(ROOFBENCH_AVX512)))
#define ROOFBENCH_TARGET_AVX512_BF16 __attribute__((target(ROOFBENCH_AVX512 ",avx512bf16")))
#define ROOFBENCH_TARGET_AVX512_VNNI __attribute__((target(ROOFBENCH_AVX512 ",avx512vnni,avx512vbmi")))
#else
#define ROOFBENCH_X86 0
#endif

namespace roofbench::kernels {

enum IsaFeature : uint32_t {
  kAvx512 = 1,      // F, BW, VL, DQ
  kAvx512Bf16 = 2,  // with kAvx512
  kAvx512Vnni = 4,  // VNNI and VBMI, with kAvx512
};

// Whether this processor has the feature and no LimitIsa forbids it.
bool IsaHas(IsaFeature feature);

// While it lives, IsaHas denies all but `allowed`, and Highway takes its baseline unless `wide_highway`. For tests,
// which try every path that this processor can run; not for use while kernels run.
class LimitIsa {
 public:
  explicit LimitIsa(uint32_t allowed, bool wide_highway = true);
  LimitIsa(const LimitIsa&) = delete;
  LimitIsa& operator=(const LimitIsa&) = delete;
  ~LimitIsa();
};

}  // namespace roofbench::kernels
