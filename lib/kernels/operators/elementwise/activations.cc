// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/activations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numbers>
#include <type_traits>

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/activations.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

#ifndef ROOFBENCH_KERNELS_GELU_TAIL_
#define ROOFBENCH_KERNELS_GELU_TAIL_
namespace roofbench::kernels {

// The tail of the normal distribution: Φ(-z) = exp(-z²/2) · t · p(t) with t = 1 / (1 + kNear · z), p's coefficients
// lowest power first, by reweighted least squares of the relative error. For z up to 13.4 within 2.5e-7 in fp32.
struct GeluTail {
  static constexpr float kNear = 0.47F * 0.70710678118654752F;
  static constexpr float kPolynomial[] = {
      0.2651114761829376F / 2,  0.2664669156074524F / 2,   0.2234673947095871F / 2,
      0.2432977855205536F / 2,  -0.11435109376907349F / 2, 0.45000436902046204F / 2,
      -0.5480610728263855F / 2, 0.2592478096485138F / 2,   -0.04518355429172516F / 2};
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
  constexpr std::size_t kDegree = std::size(GeluTail::kPolynomial) - 1;
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0F);
  const FloatVec t = hn::Div(one, hn::MulAdd(hn::Abs(x), hn::Set(d, GeluTail::kNear), one));
  FloatVec p = hn::Set(d, GeluTail::kPolynomial[kDegree]);
  for (std::size_t k = kDegree; k-- > 0;) p = hn::MulAdd(p, t, hn::Set(d, GeluTail::kPolynomial[k]));
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

// Φ as 2^p in each of several intervals, p a polynomial by interpolation at Chebyshev's nodes. In fp32 it is
// middle · 2^p(r), r the distance from the interval's middle in intervals: within 4.3e-7; in bf16 it is 2^p(x): within
// 2e-4, so that a result errs by at most 0.6 of a unit in its last place.
template <typename T>
struct GeluTable {
  static constexpr bool kFromMiddle = sizeof(T) == sizeof(float);
  static constexpr int kIntervals = kFromMiddle ? 32 : 16;
  static constexpr int kTerms = kFromMiddle ? 5 : 4;
  static constexpr float kLeast = -14.5F;                    // Φ is zero in fp32
  static constexpr float kMost = kFromMiddle ? 5.5F : 4.0F;  // Φ is one, if rounded
  static constexpr float kPerUnit = (kIntervals - 1) / (kMost - kLeast);

  GeluTable() {
    const int first = static_cast<int>(std::lrint(kLeast * kPerUnit));
    for (int interval = first; interval < first + kIntervals; ++interval) {
      double at[kTerms];
      double newton[kTerms];  // divided differences of log2(Φ)
      for (int i = 0; i < kTerms; ++i) {
        const double r = 0.5 * std::cos((2 * i + 1) * std::numbers::pi / (2 * kTerms));
        const double x = (interval + r) / kPerUnit;
        at[i] = kFromMiddle ? r : x;
        newton[i] = std::log2(std::erfc(-x / std::numbers::sqrt2) / 2);
      }
      for (int k = 1; k < kTerms; ++k) {
        for (int i = kTerms - 1; i >= k; --i) newton[i] = (newton[i] - newton[i - 1]) / (at[i] - at[i - k]);
      }
      double powers[kTerms] = {};
      for (int i = kTerms - 1; i >= 0; --i) {
        for (int k = kTerms - 1; k > 0; --k) powers[k] = powers[k - 1] - at[i] * powers[k];
        powers[0] = newton[i] - at[i] * powers[0];
      }
      if (kFromMiddle) powers[0] = std::exp2(powers[0]);
      for (int k = 0; k < kTerms; ++k) terms[k][interval & (kIntervals - 1)] = static_cast<float>(powers[k]);
    }
  }

  alignas(kLineBytes) float terms[kTerms][kIntervals];
};

// A block in two stages. A block begins before the one before it ends, because its instructions wait for each other for
// longer than the processor's window reaches.
template <typename T>
class GeluBlock {
 public:
  struct State {
    Block x;
    Block p;
  };
  TARGET GeluBlock() {
    static const Table kTable;
    for (int k = 0; k < Table::kTerms; ++k) {
      for (int half = 0; half < kHalves; ++half) terms_[k][half] = _mm512_load_ps(kTable.terms[k] + half * 16);
    }
  }
  TARGET inline void Begin(const T* from, State& state) const {
    const __m512 per_unit = _mm512_set1_ps(Table::kPerUnit);
    const __m512 magic = _mm512_set1_ps(0x1.8p23F);  // a sum with it ends in the bits of an integer
    Block& x = state.x;
    Block& p = state.p;
    Block r, number;
    LoadBlock(from, x);
    // A NaN passes by the product with x.
    EACH r[v] = _mm512_min_ps(_mm512_max_ps(x[v], _mm512_set1_ps(Table::kLeast)), _mm512_set1_ps(Table::kMost));
    EACH number[v] = _mm512_fmadd_ps(r[v], per_unit, magic);
    if constexpr (Table::kFromMiddle) {
      EACH r[v] = _mm512_fmsub_ps(r[v], per_unit, _mm512_sub_ps(number[v], magic));
    }
    EACH p[v] = Term(number[v], Table::kTerms - 1);
#pragma GCC unroll 4
    for (int k = Table::kTerms - 2; k > 0; --k) EACH p[v] = _mm512_fmadd_ps(p[v], r[v], Term(number[v], k));
    if constexpr (Table::kFromMiddle) {
      EACH p[v] = _mm512_mul_ps(p[v], r[v]);
      EACH x[v] = _mm512_mul_ps(x[v], Term(number[v], 0));
    } else {
      EACH p[v] = _mm512_fmadd_ps(p[v], r[v], Term(number[v], 0));
    }
  }
  template <bool kStream>
  TARGET static inline void End(State& state, T* to) {
    Exp2<std::conditional_t<Table::kFromMiddle, PlainFp32, T>>(state.p);
    EACH state.x[v] = _mm512_mul_ps(state.x[v], state.p[v]);
    StoreBlock<kStream>(to, state.x);
  }

 private:
  using Table = GeluTable<T>;
  static constexpr int kHalves = Table::kIntervals / 16;
  TARGET inline __m512 Term(__m512 number, int k) const {
    const __m512i interval = _mm512_castps_si512(number);
    if constexpr (kHalves == 1) return _mm512_permutexvar_ps(interval, terms_[k][0]);
    return _mm512_permutex2var_ps(terms_[k][0], interval, terms_[k][kHalves - 1]);
  }
  __m512 terms_[Table::kTerms][kHalves];
};

template <bool kStream, typename T>
TARGET void Blocks(const Gelu<T>& work, Range range) {
  const GeluBlock<T> block;
  typename GeluBlock<T>::State begun;
  int64_t i = range.begin;
  if (i + kPerBlock <= range.end) {
    block.Begin(work.x + i, begun);
    for (; i + 2 * kPerBlock <= range.end; i += kPerBlock) {
      typename GeluBlock<T>::State next;
      PrefetchBlock(work.x + i + kPerBlock, kAheadBytes);
      block.Begin(work.x + i + kPerBlock, next);
      block.template End<kStream>(begun, work.y + i);
      begun = next;
    }
    block.template End<kStream>(begun, work.y + i);
    i += kPerBlock;
  }
  if (const int64_t count = range.end - i; count > 0) {
    T padded[kPerBlock] = {};
    std::copy_n(work.x + i, count, padded);
    block.Begin(padded, begun);
    block.template End<false>(begun, padded);
    std::copy_n(padded, count, work.y + i);
  }
  if constexpr (kStream) _mm_sfence();
}

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
  Block in[Kernel::kInputs];
  int64_t i = range.begin;
  for (; i + kPerBlock <= range.end; i += kPerBlock) {
    for (int k = 0; k < Kernel::kInputs; ++k) {
      PrefetchBlock(from[k] + i, kAheadBytes);
      LoadBlock(from[k] + i, in[k]);
    }
    Kernel::Apply(in);
    StoreResult<kStream, X>(y + i, in[0]);
  }
  if (const int64_t count = range.end - i; count > 0) {
    X padded[kPerBlock] = {};
    Y results[kPerBlock];
    for (int k = 0; k < Kernel::kInputs; ++k) {
      std::copy_n(from[k] + i, count, padded);
      LoadBlock(padded, in[k]);
    }
    Kernel::Apply(in);
    StoreResult<false, X>(results, in[0]);
    std::copy_n(results, count, y + i);
  }
  if constexpr (kStream) _mm_sfence();
}

// Shares of a streamed result begin on a cache line if the whole result does.
template <typename Y>
bool Streams(const Y* y, int64_t n, Range range) {
  return n * static_cast<int64_t>(sizeof(Y)) >= kStreamBytes && IsLineAligned(y + range.begin);
}

template <typename T>
void Share(const Gelu<T>& work, Range range) {
  if (Streams(work.y, work.n, range)) {
    Blocks<true>(work, range);
  } else {
    Blocks<false>(work, range);
  }
}

template <typename X, typename Y>
void Share(const SiluMul<X, Y>& work, Range range) {
  if (Streams(work.y, work.n, range)) {
    Blocks<SiluMulBlock<Y>, true, X, Y>({work.gate, work.up}, work.y, range);
  } else {
    Blocks<SiluMulBlock<Y>, false, X, Y>({work.gate, work.up}, work.y, range);
  }
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
