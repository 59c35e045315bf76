// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/activations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/activations.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

#ifndef ROOFBENCH_KERNELS_GELU_TAIL_
#define ROOFBENCH_KERNELS_GELU_TAIL_
namespace roofbench::kernels {

// The tail of the normal distribution: Φ(-z) = exp(-z²/2) · t · p(t) with t = 1 / (1 + kNear · z), p's coefficients
// lowest power first, by reweighted least squares of the relative error.
template <typename T>
struct GeluTail;

// For z up to 13.4 within 2.5e-7 in fp32.
template <>
struct GeluTail<float> {
  static constexpr float kNear = 0.47F * 0.70710678118654752F;
  static constexpr float kPolynomial[] = {
      0.2651114761829376F / 2,  0.2664669156074524F / 2,   0.2234673947095871F / 2,
      0.2432977855205536F / 2,  -0.11435109376907349F / 2, 0.45000436902046204F / 2,
      -0.5480610728263855F / 2, 0.2592478096485138F / 2,   -0.04518355429172516F / 2};
};

// For z up to 13.5 within 2.4e-4: a result in bf16 then errs by at most 0.6 of a unit in its last place.
template <>
struct GeluTail<Bf16> {
  static constexpr float kNear = 0.3F;
  static constexpr float kPolynomial[] = {0.11820457875728607F, 0.1374768316745758F, 0.0355905145406723F,
                                          0.20884303748607635F};
};

}  // namespace roofbench::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// Calls body(i, count) for the first element of each vector of a range, in which `count` elements are left. Bodies
// capture by value: by reference, they load pointers and constants again after each store.
template <typename Body>
HWY_INLINE void ForEachVector(Range range, Body body) {
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += FloatLanes()) body(i, end - i);
}

// Φ(x), and exp(-x²/2), from which it is computed.
struct Normal {
  FloatVec share;
  FloatVec exponential;
};

HWY_INLINE Normal NormalAt(FloatVec x) {
  using Tail = GeluTail<float>;
  constexpr std::size_t kDegree = std::size(Tail::kPolynomial) - 1;
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0F);
  const FloatVec t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, Tail::kNear), one));
  FloatVec p = hn::Set(d, Tail::kPolynomial[kDegree]);
  for (std::size_t k = kDegree; k-- > 0;) p = hn::MulAdd(p, t, hn::Set(d, Tail::kPolynomial[k]));
  // Below -104 exp is zero in fp32, and Highway's is not defined at -infinity.
  const FloatVec power = hn::Max(hn::Set(d, -104.5F), hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F)));
  const FloatVec exponential = hn::Exp(d, power);
  const FloatVec tail = hn::Mul(hn::Mul(t, p), exponential);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), exponential};
}

template <typename T>
HWY_INLINE void Portable(const Gelu<T>& work, Range range) {
  ForEachVector(range, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const FloatVec x = LoadSome(work.x + i, count);
    StoreSome(hn::Mul(x, NormalAt(x).share), work.y + i, count);
  });
}

template <typename T>
HWY_INLINE void Portable(const GeluGradient<T>& work, Range range) {
  const FloatVec density = hn::Set(FloatTag(), 0.398942280401432678F);  // 1 / sqrt(2π)
  ForEachVector(range, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const FloatVec x = LoadSome(work.x + i, count);
    const Normal normal = NormalAt(x);
    const FloatVec slope = hn::MulAdd(hn::Mul(x, density), normal.exponential, normal.share);
    StoreSome(hn::Mul(LoadSome(work.dy + i, count), slope), work.dx + i, count);
  });
}

template <typename T>
HWY_INLINE void Portable(const SiluMulGradient<T>& work, Range range) {
  const FloatVec one = hn::Set(FloatTag(), 1.0F);
  ForEachVector(range, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const FloatVec gate = LoadSome(work.gate + i, count);
    const FloatVec up = LoadSome(work.up + i, count);
    const FloatVec dy = LoadSome(work.dy + i, count);
    const FloatVec sigmoid = hn::Div(one, OnePlusExp(hn::Neg(gate)));
    const FloatVec silu = hn::Mul(gate, sigmoid);
    const FloatVec slope = hn::MulAdd(silu, hn::Sub(one, sigmoid), sigmoid);
    StoreSome(hn::Mul(hn::Mul(dy, up), slope), work.d_gate + i, count);
    StoreSome(hn::Mul(dy, silu), work.d_up + i, count);
  });
}

template <typename X, typename Y>
HWY_INLINE void Portable(const SiluMul<X, Y>& work, Range range) {
  ForEachVector(range, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const FloatVec gate = LoadSome(work.gate + i, count);
    const FloatVec silu = hn::Div(gate, OnePlusExp(hn::Neg(gate)));
    StoreSome(hn::Mul(silu, LoadSome(work.up + i, count)), work.y + i, count);
  });
}

template <typename T>
HWY_INLINE void Portable(const GeluTanhMul<T>& work, Range range) {
  const FloatTag d;
  constexpr float kTwice = 1.5957691216057308F;  // 2 · sqrt(2/π)
  const FloatVec linear = hn::Set(d, -kTwice);
  const FloatVec cubic = hn::Set(d, -kTwice * 0.044715F);
  ForEachVector(range, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const FloatVec x = LoadSome(work.gate + i, count);
    const FloatVec minus_2u = hn::Mul(x, hn::MulAdd(hn::Mul(x, x), cubic, linear));
    StoreSome(hn::Mul(hn::Div(x, OnePlusExp(minus_2u)), LoadSome(work.up + i, count)), work.y + i, count);
  });
}

HWY_INLINE void Portable(const SoftCap& work, Range range) {
  const FloatTag d;
  const FloatVec cap = hn::Set(d, work.cap);
  const FloatVec share = hn::Set(d, work.scale / work.cap);
  ForEachVector(range, [=](std::size_t i, std::size_t count) HWY_ATTR {
    const FloatVec x = LoadSome(work.x + i, count);
    // Highway's function turns a NaN into a number.
    const FloatVec bent = hn::Mul(cap, hn::Tanh(d, hn::Mul(x, share)));
    StoreSome(hn::IfThenElse(hn::IsNaN(x), x, bent), work.y + i, count);
  });
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, Gelu)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, GeluGradient)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, SiluMul)
ROOFBENCH_HIGHWAY_INSTANCE(Portable, SiluMulRounded, SiluMul<float, Bf16>)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, SiluMulGradient)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, GeluTanhMul)
ROOFBENCH_HIGHWAY_INSTANCE(Portable, SoftCap, SoftCap)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

#if ROOFBENCH_X86
#define TARGET ROOFBENCH_TARGET_AVX512_BF16
#define EACH ROOFBENCH_EACH
namespace avx512 {
namespace {

constexpr int64_t kAheadBytes = 1024;

// 1 / x, accurate enough for a result of type T.
template <typename T>
TARGET inline __m512 Reciprocal(__m512 x) {
  return sizeof(T) == 2 ? _mm512_rcp14_ps(x) : _mm512_div_ps(_mm512_set1_ps(1), x);
}

template <typename T>
struct GeluBlock;

template <>
struct GeluBlock<Bf16> {
  static constexpr int kInputs = 1;
  // max(x, 0) - z · Φ(-z), z = |x|
  TARGET static inline void Apply(Block (&in)[1]) {
    using Tail = GeluTail<Bf16>;
    constexpr int kDegree = static_cast<int>(std::size(Tail::kPolynomial)) - 1;
    constexpr int kLeastMagnitude = 0x0a;  // of vrangeps: the smaller of the magnitudes
    constexpr float kFar = 14.5F;          // Φ(-z) is zero in fp32
    constexpr int kNanForMinusInfinity = 0x30000;
    Block& x = in[0];
    Block z, t, p, e;
    EACH z[v] = _mm512_range_ps(x[v], _mm512_set1_ps(kFar), kLeastMagnitude);
    EACH t[v] = _mm512_fmadd_ps(z[v], _mm512_set1_ps(Tail::kNear), _mm512_set1_ps(1));
    EACH e[v] = _mm512_mul_ps(z[v], _mm512_mul_ps(z[v], _mm512_set1_ps(-0.5F * kLog2E)));
    EACH t[v] = _mm512_rcp14_ps(t[v]);
    Exp2<Bf16>(e);
    EACH z[v] = _mm512_mul_ps(z[v], t[v]);
    EACH p[v] = _mm512_set1_ps(Tail::kPolynomial[kDegree]);
#pragma GCC unroll 8
    for (int i = kDegree - 1; i >= 0; --i) {
      EACH p[v] = _mm512_fmadd_ps(p[v], t[v], _mm512_set1_ps(Tail::kPolynomial[i]));
    }
    EACH p[v] = _mm512_mul_ps(p[v], z[v]);
    EACH e[v] = _mm512_fnmadd_ps(p[v], e[v], _mm512_max_ps(_mm512_setzero_ps(), x[v]));
    EACH x[v] = _mm512_fixupimm_ps(e[v], x[v], _mm512_set1_epi32(kNanForMinusInfinity), 0);
  }
};

// Φ as middle · 2^p(r) in each of 32 intervals, r the distance from its middle in intervals; p by interpolation at
// Chebyshev's nodes, within 4.3e-7. Permutations look the coefficients up, which takes three quarters of the time that
// a quotient takes with its polynomial; for bf16 it is no faster.
struct GeluIntervals {
  static constexpr int kCount = 32;
  static constexpr int kTerms = 5;
  static constexpr float kLeast = -14.5F;  // Φ is zero in fp32
  static constexpr float kMost = 5.5F;     // Φ is one in fp32
  static constexpr float kPerUnit = (kCount - 1) / (kMost - kLeast);

  GeluIntervals() {
    const int first = static_cast<int>(std::lrint(kLeast * kPerUnit));
    for (int interval = first; interval < first + kCount; ++interval) {
      double r[kTerms];
      double newton[kTerms];  // divided differences of log2(Φ)
      for (int i = 0; i < kTerms; ++i) {
        r[i] = 0.5 * std::cos((2 * i + 1) * std::numbers::pi / (2 * kTerms));
        newton[i] = std::log2(std::erfc((interval + r[i]) / -kPerUnit / std::numbers::sqrt2) / 2);
      }
      for (int k = 1; k < kTerms; ++k) {
        for (int i = kTerms - 1; i >= k; --i) newton[i] = (newton[i] - newton[i - 1]) / (r[i] - r[i - k]);
      }
      double powers[kTerms] = {};
      for (int i = kTerms - 1; i >= 0; --i) {
        for (int k = kTerms - 1; k > 0; --k) powers[k] = powers[k - 1] - r[i] * powers[k];
        powers[0] = newton[i] - r[i] * powers[0];
      }
      powers[0] = std::exp2(powers[0]);
      for (int k = 0; k < kTerms; ++k) terms[k][interval & (kCount - 1)] = static_cast<float>(powers[k]);
    }
  }

  alignas(kLineBytes) float terms[kTerms][kCount];  // the middle, and the coefficients of r, r² …
};

template <>
class GeluBlock<float> {
 public:
  static constexpr int kInputs = 1;
  TARGET GeluBlock() {
    static const Of kIntervals;
    for (int k = 0; k < Of::kTerms; ++k) {
      terms_[k][0] = _mm512_load_ps(kIntervals.terms[k]);
      terms_[k][1] = _mm512_load_ps(kIntervals.terms[k] + 16);
    }
  }
  TARGET inline void Apply(Block (&in)[1]) const {
    const __m512 per_unit = _mm512_set1_ps(Of::kPerUnit);
    const __m512 magic = _mm512_set1_ps(0x1.8p23F);  // a sum with it ends in the bits of an integer
    Block& x = in[0];
    Block r, number, p;
    // A NaN passes by the last product.
    EACH r[v] = _mm512_min_ps(_mm512_max_ps(x[v], _mm512_set1_ps(Of::kLeast)), _mm512_set1_ps(Of::kMost));
    EACH number[v] = _mm512_fmadd_ps(r[v], per_unit, magic);
    EACH r[v] = _mm512_fmsub_ps(r[v], per_unit, _mm512_sub_ps(number[v], magic));
    EACH p[v] = Term(number[v], Of::kTerms - 1);
#pragma GCC unroll 8
    for (int k = Of::kTerms - 2; k > 0; --k) EACH p[v] = _mm512_fmadd_ps(p[v], r[v], Term(number[v], k));
    EACH p[v] = _mm512_mul_ps(p[v], r[v]);
    Exp2<PlainFp32>(p);
    EACH x[v] = _mm512_mul_ps(x[v], _mm512_mul_ps(p[v], Term(number[v], 0)));
  }

 private:
  using Of = GeluIntervals;
  TARGET inline __m512 Term(__m512 number, int k) const {
    return _mm512_permutex2var_ps(terms_[k][0], _mm512_castps_si512(number), terms_[k][1]);
  }
  __m512 terms_[Of::kTerms][2];
};

template <typename T>
struct SiluMulBlock {
  static constexpr int kInputs = 2;
  TARGET static inline void Apply(Block (&in)[2]) {
    Block& gate = in[0];
    Block& up = in[1];
    Block e;
    // Beyond 104 exp is infinite in fp32.
    EACH e[v] = _mm512_min_ps(_mm512_set1_ps(104), _mm512_sub_ps(_mm512_setzero_ps(), gate[v]));
    Exp<T>(e);
    EACH e[v] = Reciprocal<T>(_mm512_add_ps(e[v], _mm512_set1_ps(1)));
    EACH gate[v] = _mm512_mul_ps(_mm512_mul_ps(gate[v], e[v]), up[v]);
  }
};

// Stores as Y a block that was loaded from X.
template <bool kStream, typename X, typename Y>
TARGET inline void StoreResult(Y* to, const Block& from) {
  if constexpr (sizeof(X) == sizeof(Y)) {
    StoreBlock<kStream>(to, from);
  } else {
    StoreRounded<kStream>(to, from);
  }
}

template <typename Kernel, bool kStream, typename X, typename Y>
TARGET void Blocks(const X* const (&from)[Kernel::kInputs], Y* y, Range range) {
  const Kernel kernel;
  Block in[Kernel::kInputs];
  int64_t i = range.begin;
  for (; i + kPerBlock <= range.end; i += kPerBlock) {
    for (int k = 0; k < Kernel::kInputs; ++k) {
      PrefetchBlock(from[k] + i, kAheadBytes);
      LoadBlock(from[k] + i, in[k]);
    }
    kernel.Apply(in);
    StoreResult<kStream, X>(y + i, in[0]);
  }
  if (const int64_t count = range.end - i; count > 0) {
    X padded[kPerBlock] = {};
    Y results[kPerBlock];
    for (int k = 0; k < Kernel::kInputs; ++k) {
      std::copy_n(from[k] + i, count, padded);
      LoadBlock(padded, in[k]);
    }
    kernel.Apply(in);
    StoreResult<false, X>(results, in[0]);
    std::copy_n(results, count, y + i);
  }
  if constexpr (kStream) _mm_sfence();
}

// Shares of a streamed result begin on a cache line if the whole result does.
template <typename Kernel, typename X, typename Y>
void Dispatch(const X* const (&from)[Kernel::kInputs], Y* y, int64_t n, Range range) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Y));
  if (n * kBytes >= kStreamBytes && IsLineAligned(y + range.begin)) {
    Blocks<Kernel, true>(from, y, range);
  } else {
    Blocks<Kernel, false>(from, y, range);
  }
}

template <typename T>
void Share(const Gelu<T>& work, Range range) {
  Dispatch<GeluBlock<T>>({work.x}, work.y, work.n, range);
}

template <typename X, typename Y>
void Share(const SiluMul<X, Y>& work, Range range) {
  Dispatch<SiluMulBlock<Y>>({work.gate, work.up}, work.y, work.n, range);
}

}  // namespace
}  // namespace avx512
#undef EACH
#undef TARGET
#endif

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, Gelu)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, GeluGradient)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, SiluMul)
ROOFBENCH_HIGHWAY_DISPATCH(Portable, SiluMulRounded, SiluMul<float, Bf16>)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, SiluMulGradient)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, GeluTanhMul)
ROOFBENCH_HIGHWAY_DISPATCH(Portable, SoftCap, SoftCap)

namespace {

template <typename Work>
constexpr ShareVariant<Work> kVariants[] = {{0, Portable}};
#if ROOFBENCH_X86
template <typename T>
constexpr ShareVariant<Gelu<T>> kVariants<Gelu<T>>[] = {{kAvx512Bf16, avx512::Share}, {0, Portable}};
template <typename X, typename Y>
constexpr ShareVariant<SiluMul<X, Y>> kVariants<SiluMul<X, Y>>[] = {{kAvx512Bf16, avx512::Share}, {0, Portable}};
#endif

}  // namespace

ROOFBENCH_RUNS(n, kGrainElements, Gelu)
ROOFBENCH_RUNS(n, kGrainElements, GeluGradient)
ROOFBENCH_RUNS(n, kGrainElements, SiluMul)
ROOFBENCH_RUN(n, kGrainElements, SiluMul<float, Bf16>)
ROOFBENCH_RUNS(n, kGrainElements, SiluMulGradient)
ROOFBENCH_RUNS(n, kGrainElements, GeluTanhMul)
ROOFBENCH_RUN(n, kGrainElements, SoftCap)

}  // namespace roofbench::kernels
#endif
