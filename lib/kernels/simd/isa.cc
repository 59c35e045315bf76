// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/simd/isa.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include "hwy/highway.h"
#include "hwy/targets.h"

#if ROOFBENCH_X86
#include <cpuid.h>
#endif
#if ROOFBENCH_X86 && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace roofbench::kernels {
namespace {

constexpr uint32_t kEverything = ~0U;
std::atomic<uint32_t> allowed_features = kEverything;
std::atomic<uint32_t> granted_features = 0;

#if ROOFBENCH_X86
struct CpuId {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

// A subleaf of leaf 7 (Intel SDM, volume 2A); zeros where the processor lacks it.
CpuId ExtendedFeatures(unsigned subleaf) {
  CpuId id;
  return __get_cpuid_count(7, subleaf, &id.eax, &id.ebx, &id.ecx, &id.edx) != 0 ? id : CpuId{};
}

bool Bit(unsigned word, int bit) { return (word >> bit & 1) != 0; }

// Clang before 16 has no __builtin_cpu_supports("avxvnni"), before 14 none of "avx512fp16".
bool HasAvxVnni() { return Bit(ExtendedFeatures(1).eax, 4); }
bool HasAvx512Fp16() {
  constexpr int kFp16 = 23;
  return Bit(ExtendedFeatures(0).edx, kFp16);
}

// AMD's family 1Ah, Zen 5: int8 rows of 4096 took 327 us in eight streams with prefetches, 221 in two without, and a
// bare read 205; bf16 622, 405 and 407 (two-core EPYC, 2026-11-26).
bool PrefersFewStreams() {
  CpuId id;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &id.eax, &id.ebx, &id.ecx, &id.edx) == 0) return false;
  constexpr unsigned kFurther = 15;  // the base family that the extended one is added to
  const unsigned family = id.eax >> 8 & 15;
  return family == kFurther && kFurther + (id.eax >> 20 & 0xff) == 0x1a;
}

// The products of tiles that this process may use: Linux saves the registers of tiles only for a process that asks.
uint32_t TileFeatures() {
#if ROOFBENCH_EMULATE_TILES
  return kAmxBf16 | kAmxInt8;
#elif defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, which older systems lack
  constexpr int kTileData = 18;               // the state component of the registers (Intel SDM, volume 1, 13.1)
  const CpuId id = ExtendedFeatures(0);
  constexpr int kTiles = 24;
  uint32_t features = 0;
  if (Bit(id.edx, 22)) features |= kAmxBf16;
  if (Bit(id.edx, 25)) features |= kAmxInt8;
  if (Bit(id.edx, kTiles) && features != 0 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) {
    return features;
  }
#endif
  return 0;
}
#endif

// Queries the processor (and the system, which must save the registers), not /proc.
uint32_t Detect() {
  uint32_t features = 0;
#if ROOFBENCH_X86
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
  features |= kAvx2;
  if (HasAvxVnni()) features |= kAvxVnni;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    features |= kAvx512;
    if (__builtin_cpu_supports("avx512bf16")) features |= kAvx512Bf16;
    if (__builtin_cpu_supports("avx512vnni")) features |= kAvx512Vnni;
    if (HasAvx512Fp16()) features |= kAvx512Fp16;
    features |= TileFeatures();
    if (PrefersFewStreams()) features |= kFewStreams;
  }
#endif
  return features;
}

// 0: no limit. With a single target, it is not chosen at run time.
void LimitHighway([[maybe_unused]] int64_t target) {
#if HWY_TARGETS != HWY_STATIC_TARGET
  hwy::SetSupportedTargetsForTest(target);
#endif
}

// As bits: the lower, the better.
int64_t Targets() {
#if HWY_TARGETS != HWY_STATIC_TARGET
  return hwy::SupportedTargets() & HWY_TARGETS;
#else
  return HWY_STATIC_TARGET;
#endif
}

constexpr IsaVariant<std::string_view> kWidths[] = {{kAvx512, "avx512"}, {kAvx2, "avx2"}, {0, "baseline"}};

}  // namespace

bool IsaHas(uint32_t features) {
  static const uint32_t detected = Detect();
  const uint32_t here = detected | granted_features.load(std::memory_order_relaxed);
  return (features & ~(here & allowed_features.load(std::memory_order_relaxed))) == 0;
}

std::string_view WidestVectors() { return BestVariant<kWidths>(); }

std::vector<HighwayTarget> HighwayTargets() {
  std::vector<HighwayTarget> targets;
  for (int64_t left = Targets(); left != 0; left &= left - 1) {
    const int64_t bit = left & -left;
    targets.push_back({hwy::TargetName(bit), bit});
  }
  return targets;
}

LimitIsa::LimitIsa(uint32_t allowed, int64_t highway_target) {
  allowed_features = allowed;
  LimitHighway(highway_target);
}

LimitIsa::~LimitIsa() {
  allowed_features = kEverything;
  LimitHighway(0);
}

void GrantIsa(uint32_t features) { granted_features = features; }

}  // namespace roofbench::kernels
