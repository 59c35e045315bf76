// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/compute_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "lib/hardware/roofs/compute_operands.h"
#include "lib/hardware/roofs/tile_loop.h"
#include "lib/kernels/simd/floats.h"
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

// Defines `Function(iterations, factors)`: kSums vectors of type Sum, each of which meets kPairs pairs of vectors of
// type Operand in an iteration, by the expression MultiplyAdd of s, x and y. A macro, because neither a target
// attribute nor an intrinsic of that target can be a template's parameter.
// NOLINTBEGIN(bugprone-macro-parentheses): types and attributes take none
#define ROOFBENCH_DEFINE_LOOP(Function, kTarget, kSums, kPairs, Sum, Lane, Operand, kElement, MultiplyAdd) \
  kTarget double Function(int64_t iterations, Factors factors) {                                           \
    const VectorOperands& operands = OperandsOf<VectorOperands, kElement>(factors);                        \
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

typedef float Float4 __attribute__((vector_size(16)));
ROOFBENCH_DEFINE_LOOP(FmaBaseline, , 12, 2, Float4, float, Float4, Fp32Element, s* x + y)
typedef double Double2 __attribute__((vector_size(16)));
ROOFBENCH_DEFINE_LOOP(DoubleFmaBaseline, , 12, 2, Double2, double, Double2, Fp64Element, s* x + y)

#if ROOFBENCH_X86
ROOFBENCH_DEFINE_LOOP(FmaAvx2, __attribute__((target("avx2,fma"))), 12, 2, __m256, float, __m256, Fp32Element,
                      _mm256_fmadd_ps(s, x, y))
ROOFBENCH_DEFINE_LOOP(FmaAvx512, __attribute__((target("avx512f"))), 24, 4, __m512, float, __m512, Fp32Element,
                      _mm512_fmadd_ps(s, x, y))
ROOFBENCH_DEFINE_LOOP(DoubleFmaAvx2, __attribute__((target("avx2,fma"))), 12, 2, __m256d, double, __m256d, Fp64Element,
                      _mm256_fmadd_pd(s, x, y))
ROOFBENCH_DEFINE_LOOP(DoubleFmaAvx512, __attribute__((target("avx512f"))), 24, 4, __m512d, double, __m512d, Fp64Element,
                      _mm512_fmadd_pd(s, x, y))
// s · x + y. As an instruction, because clang before 15 has no type for the intrinsic.
__attribute__((target("avx512f"))) inline __m512i HalfFma(__m512i s, __m512i x, __m512i y) {
  asm("vfmadd213ph %2, %1, %0" : "+v"(s) : "v"(x), "v"(y));
  return s;
}
ROOFBENCH_DEFINE_LOOP(HalfFmaAvx512, __attribute__((target("avx512f"))), 24, 4, __m512i, kernels::Fp16, __m512i,
                      Fp16Element, HalfFma(s, x, y))
ROOFBENCH_DEFINE_LOOP(DotBf16Avx512, __attribute__((target("avx512f,avx512bf16"))), 24, 4, __m512, float, __m512bh,
                      Bf16Element, _mm512_dpbf16_ps(s, x, y))
ROOFBENCH_DEFINE_LOOP(DotInt8Avx2, __attribute__((target("avx2,avxvnni"))), 12, 2, __m256i, int32_t, __m256i,
                      Int8Element, _mm256_dpbusd_avx_epi32(s, x, y))
// With 20 or more sums, GCC 12 spills some of them and the loop loses a quarter of its rate.
ROOFBENCH_DEFINE_LOOP(DotInt8Avx512, __attribute__((target("avx512f,avx512vnni"))), 16, 4, __m512i, int32_t, __m512i,
                      Int8Element, _mm512_dpbusd_epi32(s, x, y))
#endif

#undef ROOFBENCH_DEFINE_LOOP

template <auto kLoop, Factors kFactors>
double On(int64_t iterations) {
  return kLoop(iterations, kFactors);
}

template <auto kLoop>
constexpr ComputeLoop VectorLoop(Dtype dtype, std::string_view name, LoopLayout layout) {
  return {dtype,
          name,
          layout,
          2.0 * layout.sums * layout.pairs * layout.lanes * layout.products,
          On<kLoop, Factors::kRandom>,
          On<kLoop, Factors::kZeros>};
}

template <TileProduct kProduct>
constexpr ComputeLoop LoopOfTiles(Dtype dtype, std::string_view name) {
  constexpr auto kLoop = TileLoop<kernels::HardwareTiles, kProduct>;
  return {dtype, name, {}, TileLoopFlops(kProduct), On<kLoop, Factors::kRandom>, On<kLoop, Factors::kZeros>};
}

constexpr kernels::IsaVariant<ComputeLoop> kLoops[] = {
    {0, VectorLoop<FmaBaseline>(Dtype::kFp32, "multiply-add baseline", {12, 2, 4, 1})},
    {0, VectorLoop<DoubleFmaBaseline>(Dtype::kFp64, "multiply-add baseline", {12, 2, 2, 1})},
#if ROOFBENCH_X86
    {kernels::kAvx2, VectorLoop<FmaAvx2>(Dtype::kFp32, "fma avx2", {12, 2, 8, 1})},
    {kernels::kAvx512, VectorLoop<FmaAvx512>(Dtype::kFp32, "fma avx512", {24, 4, 16, 1})},
    {kernels::kAvx2, VectorLoop<DoubleFmaAvx2>(Dtype::kFp64, "fma avx2", {12, 2, 4, 1})},
    {kernels::kAvx512, VectorLoop<DoubleFmaAvx512>(Dtype::kFp64, "fma avx512", {24, 4, 8, 1})},
    {kernels::kAvx512Fp16, VectorLoop<HalfFmaAvx512>(Dtype::kFp16, "fma avx512_fp16", {24, 4, 32, 1})},
    {kernels::kAvx512Bf16, VectorLoop<DotBf16Avx512>(Dtype::kBf16, "vdpbf16ps avx512", {24, 4, 16, 2})},
    {kernels::kAvxVnni, VectorLoop<DotInt8Avx2>(Dtype::kInt8, "vpdpbusd avx2", {12, 2, 8, 4})},
    {kernels::kAvx512Vnni, VectorLoop<DotInt8Avx512>(Dtype::kInt8, "vpdpbusd avx512", {16, 4, 16, 4})},
#endif
#if ROOFBENCH_X86 && !ROOFBENCH_EMULATE_TILES
    {kernels::kAmxBf16, LoopOfTiles<TileProduct::kBf16>(Dtype::kBf16, "tdpbf16ps amx")},
    {kernels::kAmxInt8, LoopOfTiles<TileProduct::kInt8>(Dtype::kInt8, "tdpbssd amx")},
#endif
};

// Element `index` of type T.
template <typename T>
T At(std::span<const std::byte> bytes, int index) {
  T value;
  std::memcpy(&value, &bytes[static_cast<std::size_t>(index) * sizeof(T)], sizeof(value));
  return value;
}

double Bf16At(std::span<const std::byte> bytes, int index) {
  return std::bit_cast<float>(uint32_t{At<uint16_t>(bytes, index)} << 16);
}

// The nearest fp16 of a value that fp16 can hold.
double RoundedToFp16(double value) {
  constexpr int kMantissaBits = 11;
  constexpr int kLeastExponent = -13;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent, kLeastExponent) - kMantissaBits);
  return std::nearbyint(value / unit) * unit;
}

double Wrapped(double value) { return static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value))); }

// The factors and sums of a loop, element by element.
struct Elements {
  const VectorOperands& operands;
  Dtype dtype;

  bool MultipliesSums() const { return dtype != Dtype::kBf16 && dtype != Dtype::kInt8; }  // s = s * x + y
  double Real(std::span<const std::byte> bytes, int index) const {
    if (dtype == Dtype::kFp16) return kernels::ToFloat(At<kernels::Fp16>(bytes, index));
    return dtype == Dtype::kFp64 ? At<double>(bytes, index) : At<float>(bytes, index);
  }
  // The product of two factors; the first byte of a pair is unsigned, the second signed.
  double Product(int index) const {
    if (dtype == Dtype::kBf16) return Bf16At(operands.x, index) * Bf16At(operands.y, index);
    return static_cast<double>(At<uint8_t>(operands.x, index)) * At<int8_t>(operands.y, index);
  }
  double Sum(int index) const {
    return dtype == Dtype::kInt8 ? At<int32_t>(operands.sums, index) : Real(operands.sums, index);
  }
};

Elements ElementsOf(Dtype dtype, Factors factors) {
  if (dtype == Dtype::kInt8) return {OperandsOf<VectorOperands, Int8Element>(factors), dtype};
  if (dtype == Dtype::kBf16) return {OperandsOf<VectorOperands, Bf16Element>(factors), dtype};
  if (dtype == Dtype::kFp16) return {OperandsOf<VectorOperands, Fp16Element>(factors), dtype};
  if (dtype == Dtype::kFp64) return {OperandsOf<VectorOperands, Fp64Element>(factors), dtype};
  return {OperandsOf<VectorOperands, Fp32Element>(factors), dtype};
}

std::vector<ComputeLoop> SupportedLoops() {
  std::vector<ComputeLoop> loops;
  for (const auto& [needs, loop] : kLoops) {
    if (kernels::IsaHas(needs)) loops.push_back(loop);
  }
  return loops;
}

}  // namespace

double ExpectedOfTiles(TileProduct product, int64_t iterations, Factors factors) {
  constexpr int kRows = kernels::kTileRows;
  const bool is_bf16 = product == TileProduct::kBf16;
  const int parts = is_bf16 ? 2 : 4;  // elements of a word
  const TileOperands& operands =
      is_bf16 ? OperandsOf<TileOperands, Bf16Element>(factors) : OperandsOf<TileOperands, Int8Element>(factors);
  const auto element = [&](std::span<const std::byte> bytes, int row, int index) {
    const int at = row * kRows * parts + index;
    return is_bf16 ? Bf16At(bytes, at) : static_cast<double>(At<int8_t>(bytes, at));
  };
  double total = 0;
  for (int of = 0; of < kTileSums * kRows * kRows; ++of) {
    const int tile = of / (kRows * kRows);
    const int m = of / kRows % kRows;
    const int n = of % kRows;
    double dot = 0;
    for (int k = 0; k < kRows * parts; ++k) {
      dot += element(operands.x, tile / kTileFactors * kRows + m, k) *
             element(operands.y, tile % kTileFactors * kRows + k / parts, parts * n + k % parts);
    }
    const double added = static_cast<double>(iterations) * dot;
    total += is_bf16 ? At<float>(operands.sums, of) + added : Wrapped(At<int32_t>(operands.sums, of) + added);
  }
  return total;
}

double ComputeLoop::Expected(int64_t iterations, Factors factors) const {
  if (HasTiles()) {
    return ExpectedOfTiles(dtype == Dtype::kBf16 ? TileProduct::kBf16 : TileProduct::kInt8, iterations, factors);
  }
  const Elements elements = ElementsOf(dtype, factors);
  double total = 0;
  for (int of = 0; of < layout.sums * layout.lanes; ++of) {
    const int a = of / layout.lanes;
    double sum = elements.Sum(of);
    double dot = 0;
    // s = s * x + y forgets where it began: later iterations repeat the sums of earlier ones.
    constexpr int64_t kForgotten = 1000;
    for (int64_t i = 0; i < (elements.MultipliesSums() ? std::min(iterations, kForgotten) : 1); ++i) {
      for (int o = 0; o < layout.pairs; ++o) {
        const int first = ((a + o) % layout.pairs * layout.lanes + of % layout.lanes) * layout.products;
        if (elements.MultipliesSums()) {
          sum = sum * elements.Real(elements.operands.x, first) + elements.Real(elements.operands.y, first);
          if (dtype == Dtype::kFp16) sum = RoundedToFp16(sum);
        } else {
          for (int p = first; p < first + layout.products; ++p) dot += elements.Product(p);
        }
      }
    }
    sum += static_cast<double>(iterations) * dot;
    total += dtype == Dtype::kInt8 ? Wrapped(sum) : sum;
  }
  return total;
}

std::span<const ComputeLoop> ComputeLoops() {
  static const std::vector<ComputeLoop> loops = SupportedLoops();
  return loops;
}

}  // namespace roofbench::hardware
