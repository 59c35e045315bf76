// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/compute_loops.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include "lib/kernels/simd/isa.h"
#include "lib/kernels/simd/split_mix.h"

#if ROOFBENCH_X86
#include <immintrin.h>
#endif

namespace roofbench::hardware {
namespace {

using kernels::SplitMix64;
using workload::Dtype;

constexpr std::size_t kMaxPairs = 4;
constexpr std::size_t kMaxSums = 24;
constexpr std::size_t kMaxVectorBytes = 64;

// Operands of the loops: no zeros or constants, which draw less power and let the clock rise, and no values that lead
// to infinity or denormals, which are slow on some processors.
struct Operands {
  alignas(kMaxVectorBytes) std::array<std::byte, kMaxPairs * kMaxVectorBytes> x;
  alignas(kMaxVectorBytes) std::array<std::byte, kMaxPairs * kMaxVectorBytes> y;
  alignas(kMaxVectorBytes) std::array<std::byte, kMaxSums * kMaxVectorBytes> sums;
};

// Values of either sign with a magnitude in [0.5, 0.9): s = s * x + y stays within 9.
float Fp32Element(SplitMix64& random) {
  const uint64_t bits = random();
  const float magnitude = 0.5F + 0.4F * static_cast<float>(bits >> 40) * 0x1p-24F;
  return (bits & 1) != 0 ? magnitude : -magnitude;
}

#if ROOFBENCH_X86
// The upper half of an fp32.
uint16_t Bf16Element(SplitMix64& random) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(Fp32Element(random)) >> 16);
}

uint8_t Int8Element(SplitMix64& random) { return static_cast<uint8_t>(random()); }
#endif

Operands MakeOperands(auto element) {
  Operands operands;
  SplitMix64 random;
  const auto fill = [&random](std::span<std::byte> bytes, auto make) {
    for (std::size_t at = 0; at < bytes.size();) {
      const auto value = make(random);
      std::memcpy(&bytes[at], &value, sizeof(value));
      at += sizeof(value);
    }
  };
  fill(operands.x, element);
  fill(operands.y, element);
  fill(operands.sums, Fp32Element);  // as integers, the bits of a random fp32 are random too
  return operands;
}

template <auto kElement>
const Operands& OperandsOf() {
  static const Operands operands = MakeOperands(kElement);
  return operands;
}

template <typename Lane>
double SumOf(std::span<const std::byte> lanes) {
  double sum = 0;
  for (std::size_t at = 0; at < lanes.size(); at += sizeof(Lane)) {
    Lane lane;
    std::memcpy(&lane, &lanes[at], sizeof(lane));
    sum += lane;
  }
  return sum;
}

// Defines `Function(iterations)`: kSums vectors of type Sum, each of which meets kPairs pairs of vectors of type
// Operand in an iteration, by the expression MultiplyAdd of s, x and y. A macro, because neither a target attribute nor
// an intrinsic of that target can be a template's parameter.
// NOLINTBEGIN(bugprone-macro-parentheses): types and attributes take none
#define ROOFBENCH_DEFINE_LOOP(Function, kTarget, kSums, kPairs, Sum, Lane, Operand, kElement, MultiplyAdd) \
  kTarget double Function(int64_t iterations) {                                                            \
    const Operands& operands = OperandsOf<kElement>();                                                     \
    Operand xs[kPairs];                                                                                    \
    Operand ys[kPairs];                                                                                    \
    Sum sums[kSums];                                                                                       \
    std::memcpy(xs, operands.x.data(), sizeof(xs));                                                        \
    std::memcpy(ys, operands.y.data(), sizeof(ys));                                                        \
    std::memcpy(sums, operands.sums.data(), sizeof(sums));                                                 \
    for (int64_t i = 0; i < iterations; ++i) {                                                             \
      _Pragma("GCC unroll 32") for (int o = 0; o < kPairs; ++o) {                                          \
        _Pragma("GCC unroll 32") for (int a = 0; a < kSums; ++a) {                                         \
          const Sum& s = sums[a];                                                                          \
          const Operand& x = xs[(a + o) % kPairs];                                                         \
          const Operand& y = ys[(a + o) % kPairs];                                                         \
          sums[a] = MultiplyAdd;                                                                           \
        }                                                                                                  \
      }                                                                                                    \
    }                                                                                                      \
    return SumOf<Lane>(std::as_bytes(std::span(sums)));                                                    \
  }
// NOLINTEND(bugprone-macro-parentheses)

// `products`: how many products one instruction adds into a vector.
constexpr double FlopsPerIteration(int sums, int pairs, int products) { return 2.0 * sums * pairs * products; }

typedef float Float4 __attribute__((vector_size(16)));
ROOFBENCH_DEFINE_LOOP(FmaBaseline, , 12, 2, Float4, float, Float4, Fp32Element, s* x + y)

#if ROOFBENCH_X86
ROOFBENCH_DEFINE_LOOP(FmaAvx2, __attribute__((target("avx2,fma"))), 12, 2, __m256, float, __m256, Fp32Element,
                      _mm256_fmadd_ps(s, x, y))
ROOFBENCH_DEFINE_LOOP(FmaAvx512, __attribute__((target("avx512f"))), 24, 4, __m512, float, __m512, Fp32Element,
                      _mm512_fmadd_ps(s, x, y))
ROOFBENCH_DEFINE_LOOP(DotBf16Avx512, __attribute__((target("avx512f,avx512bf16"))), 24, 4, __m512, float, __m512bh,
                      Bf16Element, _mm512_dpbf16_ps(s, x, y))
ROOFBENCH_DEFINE_LOOP(DotInt8Avx2, __attribute__((target("avx2,avxvnni"))), 12, 2, __m256i, int32_t, __m256i,
                      Int8Element, _mm256_dpbusd_avx_epi32(s, x, y))
// With 20 or more sums, GCC 12 spills some of them and the loop loses a quarter of its rate.
ROOFBENCH_DEFINE_LOOP(DotInt8Avx512, __attribute__((target("avx512f,avx512vnni"))), 16, 4, __m512i, int32_t, __m512i,
                      Int8Element, _mm512_dpbusd_epi32(s, x, y))
#endif

#undef ROOFBENCH_DEFINE_LOOP

constexpr kernels::IsaVariant<ComputeLoop> kLoops[] = {
    {0, {Dtype::kFp32, "multiply-add baseline", FlopsPerIteration(12, 2, 4), FmaBaseline}},
#if ROOFBENCH_X86
    {kernels::kAvx2, {Dtype::kFp32, "fma avx2", FlopsPerIteration(12, 2, 8), FmaAvx2}},
    {kernels::kAvx512, {Dtype::kFp32, "fma avx512", FlopsPerIteration(24, 4, 16), FmaAvx512}},
    {kernels::kAvx512Bf16, {Dtype::kBf16, "vdpbf16ps avx512", FlopsPerIteration(24, 4, 32), DotBf16Avx512}},
    {kernels::kAvxVnni, {Dtype::kInt8, "vpdpbusd avx2", FlopsPerIteration(12, 2, 32), DotInt8Avx2}},
    {kernels::kAvx512Vnni, {Dtype::kInt8, "vpdpbusd avx512", FlopsPerIteration(16, 4, 64), DotInt8Avx512}},
#endif
};

std::vector<ComputeLoop> SupportedLoops() {
  std::vector<ComputeLoop> loops;
  for (const auto& [needs, loop] : kLoops) {
    if (kernels::IsaHas(needs)) loops.push_back(loop);
  }
  return loops;
}

}  // namespace

std::span<const ComputeLoop> ComputeLoops() {
  static const std::vector<ComputeLoop> loops = SupportedLoops();
  return loops;
}

}  // namespace roofbench::hardware
