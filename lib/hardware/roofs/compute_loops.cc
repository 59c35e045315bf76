// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/compute_loops.h"

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "lib/hardware/roofs/compute_operands.h"
#include "lib/hardware/roofs/tile_loop.h"
#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86
#include <immintrin.h>
#endif

namespace roofbench::hardware {
namespace {

using kernels::TileProduct;
using workload::Dtype;

constexpr std::size_t kMaxPairs = 4;
constexpr std::size_t kMaxSums = 24;
constexpr std::size_t kMaxVectorBytes = 64;
using VectorOperands = ComputeOperands<kMaxPairs * kMaxVectorBytes, kMaxSums * kMaxVectorBytes>;

// Defines `Function(iterations)`: kSums vectors of type Sum, each of which meets kPairs pairs of vectors of type
// Operand in an iteration, by the expression MultiplyAdd of s, x and y. A macro, because neither a target attribute nor
// an intrinsic of that target can be a template's parameter.
// NOLINTBEGIN(bugprone-macro-parentheses): types and attributes take none
#define ROOFBENCH_DEFINE_LOOP(Function, kTarget, kSums, kPairs, Sum, Lane, Operand, kElement, MultiplyAdd) \
  kTarget double Function(int64_t iterations) {                                                            \
    const VectorOperands& operands = OperandsOf<VectorOperands, kElement>();                               \
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
#if ROOFBENCH_X86 && !ROOFBENCH_EMULATE_TILES
    {kernels::kAmxBf16,
     {Dtype::kBf16, "tdpbf16ps amx", TileLoopFlops(TileProduct::kBf16),
      TileLoop<kernels::HardwareTiles, TileProduct::kBf16>}},
    {kernels::kAmxInt8,
     {Dtype::kInt8, "tdpbssd amx", TileLoopFlops(TileProduct::kInt8),
      TileLoop<kernels::HardwareTiles, TileProduct::kInt8>}},
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
