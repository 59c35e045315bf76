#include "lib/kernels/isa.h"

#include <atomic>

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace roofbench::kernels {
namespace {

constexpr uint32_t kEverything = ~0U;
std::atomic<uint32_t> allowed_features = kEverything;

uint32_t Detect() {
  uint32_t features = 0;
#if ROOFBENCH_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma")) {
    features |= kAvx512;
    if (__builtin_cpu_supports("avx512bf16")) features |= kAvx512Bf16;
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi")) features |= kAvx512Vnni;
  }
#endif
  return features;
}

}  // namespace

bool IsaHas(IsaFeature feature) {
  static const uint32_t features = Detect();
  return (features & allowed_features.load(std::memory_order_relaxed) & feature) != 0;
}

LimitIsa::LimitIsa(uint32_t allowed, bool wide_highway) {
  allowed_features = allowed;
  if (!wide_highway) hwy::SetSupportedTargetsForTest(HWY_STATIC_TARGET);
}

LimitIsa::~LimitIsa() {
  allowed_features = kEverything;
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace roofbench::kernels
