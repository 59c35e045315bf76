// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/rows/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>
#include <vector>

#include "lib/kernels/simd/avx512.h"
#include "lib/kernels/simd/dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/rows/softmax.cc"  // NOLINT(bugprone-suspicious-include)
#include "lib/kernels/simd/highway_math.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void Portable(const Softmax<T>& work, Range range) {
  const auto n = static_cast<std::size_t>(work.cols);
  std::vector<float> exponentials(n + FloatLanes());
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.cols;
    const float sum = SumExponentials<true>(x, n, MaximumOf(x, n), exponentials.data());
    StoreScaled(exponentials.data(), n, 1 / sum, work.y + row * work.cols);
  }
}

template <bool kGradient, typename T>
HWY_INLINE void LossRows(const CrossEntropy<T>& work, Range range) {
  const auto n = static_cast<std::size_t>(work.cols);
  std::vector<float> exponentials(kGradient ? n + FloatLanes() : 0);
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* x = work.x + row * work.cols;
    const float maximum = MaximumOf(x, n);
    const float sum = SumExponentials<kGradient>(x, n, maximum, exponentials.data());
    // Read the target's logit first: the gradient may overwrite it. The difference of two logits is exact where the
    // logarithm alone would round.
    work.loss[row] = std::log(sum) + (maximum - ToFloat(x[work.target[row]]));
    if constexpr (kGradient) {
      T* gradient = work.gradient + row * work.cols;
      StoreScaled(exponentials.data(), n, work.scale / sum, gradient);
      const float probability = exponentials[static_cast<std::size_t>(work.target[row])] / sum;
      gradient[work.target[row]] = Rounded<T>((probability - 1) * work.scale);
    }
  }
}

template <typename T>
HWY_INLINE void Portable(const CrossEntropy<T>& work, Range range) {
  if (work.gradient != nullptr) {
    LossRows<true>(work, range);
  } else {
    LossRows<false>(work, range);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, Softmax)
ROOFBENCH_HIGHWAY_INSTANCES(Portable, CrossEntropy)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, Softmax)
ROOFBENCH_HIGHWAY_DISPATCHES(Portable, CrossEntropy)

#if ROOFBENCH_X86
// One loop works on three rows: it writes one, computes the exponentials of the next and finds the maximum of the one
// after. So it reads and writes memory continuously, at the rate of the arithmetic. The exponentials wait for their sum
// in fp32, in the cache; those of the next row replace those that were just written.
#define TARGET ROOFBENCH_TARGET_AVX512_BF16

namespace avx512 {
namespace {

constexpr int64_t kAheadBytes = 8192;

// The largest element so far. NaNs need not be found here: their exponentials make the sum NaN.
template <typename T>
class Maximum;

template <>
class Maximum<float> {
 public:
  TARGET Maximum() : largest_(_mm512_set1_ps(-std::numeric_limits<float>::infinity())) {}
  TARGET void Add(__m512i line) { largest_ = _mm512_max_ps(_mm512_castsi512_ps(line), largest_); }
  TARGET float Get() const { return _mm512_reduce_max_ps(largest_); }

 private:
  __m512 largest_;
};

// The bits of non-negative bf16 numbers order them as int16, and those of negative ones order them backwards as uint16:
// two integer instructions compare 32 elements; conversion to fp32 would take eight.
template <>
class Maximum<Bf16> {
 public:
  TARGET Maximum() : signed_most_(_mm512_set1_epi16(INT16_MIN)), unsigned_least_(_mm512_set1_epi16(-1)) {}
  TARGET void Add(__m512i line) {
    signed_most_ = _mm512_max_epi16(signed_most_, line);
    unsigned_least_ = _mm512_min_epu16(unsigned_least_, line);
  }
  // Kept in registers to the end: the loop would keep them in memory if their address were taken.
  TARGET float Get() const {
    const __m512i upper_most = _mm512_srai_epi32(signed_most_, 16);
    const __m512i lower_most = _mm512_srai_epi32(_mm512_slli_epi32(signed_most_, 16), 16);
    const int most = _mm512_reduce_max_epi32(_mm512_max_epi32(upper_most, lower_most));
    if (most >= 0) return ToFloat(Bf16{static_cast<uint16_t>(most)});
    const __m512i upper_least = _mm512_srli_epi32(unsigned_least_, 16);
    const __m512i lower_least = _mm512_and_si512(unsigned_least_, _mm512_set1_epi32(0xffff));
    return ToFloat(Bf16{static_cast<uint16_t>(_mm512_reduce_min_epi32(_mm512_min_epi32(upper_least, lower_least)))});
  }

 private:
  __m512i signed_most_;
  __m512i unsigned_least_;
};

// The end of a row, -infinity after it, which changes neither the maximum nor the sum.
template <typename T>
struct Padded {
  Padded(const T* from, int64_t count) {
    std::fill(std::copy_n(from, count, elements), elements + kPerBlock,
              Rounded<T>(-std::numeric_limits<float>::infinity()));
  }
  alignas(kLineBytes) T elements[kPerBlock];
};

// x = exp(x - maximum), the maximum being the row's.
template <typename Work>
class Exponentials {
 public:
  TARGET explicit Exponentials(float maximum) : maximum_(_mm512_set1_ps(maximum)) {}
  TARGET void Of(Block& x) const {
    ROOFBENCH_EACH x[v] = _mm512_sub_ps(x[v], maximum_);
    // A loss is fp32 even if its logits are bf16.
    Exp<std::conditional_t<std::is_same_v<Work, CrossEntropy<Bf16>>, PlainFp32, float>>(x);
  }

 private:
  __m512 maximum_;
};

template <>
class Exponentials<Softmax<Bf16>> {
 public:
  TARGET explicit Exponentials(float maximum) {
    // x · log2(e) - c in one rounding: c's own error is a factor of all elements, here close to 1. Beyond this range it
    // would become zero or infinite; but there an element is either the maximum or so far below it that its exponential
    // is zero to any base.
    constexpr float kLarge = 1 << 20;
    const float scale = std::abs(maximum) < kLarge ? kLog2E : 1;
    scale_ = _mm512_set1_ps(scale);
    c_ = _mm512_set1_ps(maximum * scale);
  }
  TARGET void Of(Block& x) const {
    ROOFBENCH_EACH x[v] = _mm512_fmsub_ps(x[v], scale_, c_);
    Exp2<Bf16>(x);
  }

 private:
  __m512 scale_;
  __m512 c_;
};

struct Stages {
  bool write = false;
  bool exponentials = false;
  bool maximum = false;
};

// A row between its passes.
struct Flow {
  float* exponentials;  // of the row to be written, then of the next
  float scale = 0;      // of the row to be written, then of the next
  float at_target = 0;  // the same (cross entropy): its gradient there
  float sum = 0;        // of the exponentials of the next row
  float maximum = 0;    // of the next row, then of the one after
};

// The position of a pass: the row to be written, the next one, and the one after.
template <typename T>
struct Places {
  T* y;
  const T* x;
  const T* next;
  int64_t head = 0;  // elements before the first cache line of y
};

template <typename T>
TARGET inline void AddBlock(const T* block, Maximum<T>& maximum) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < kPerBlock; i += kPerLine<T>) maximum.Add(LoadLine(block + i));
}

TARGET inline void AddBlock(const Block& block, __m512& sum) {
  const __m512 pair = _mm512_add_ps(block[0], block[1]);
  sum = _mm512_add_ps(sum, _mm512_add_ps(pair, _mm512_add_ps(block[2], block[3])));
}

template <typename T>
struct Sums {
  __m512 exponentials;
  Maximum<T> maximum;
};

// In memory's order if kOrdered; otherwise bf16 is split, which is faster, and needs blocks that begin at the same
// element in each pass.
template <bool kOrdered, typename T>
TARGET inline void Load(const T* from, Block& to) {
  if constexpr (kOrdered) {
    ROOFBENCH_EACH to[v] = Load16(from + v * 16);
  } else {
    LoadBlock(from, to);
  }
}
template <bool kOrdered, bool kStream, typename T>
TARGET inline void Store(T* to, const Block& from) {
  if constexpr (kOrdered && sizeof(T) == 2) {
    StoreRounded<kStream>(to, from);
  } else {
    StoreBlock<kStream>(to, from);
  }
}

// One block: y = exponentials · scale; exponentials = exp(x - maximum), added to their sum; the maximum of `next`.
template <bool kStream, Stages kDo, bool kWhole, typename Work, typename T>
TARGET inline void Step(const Places<T>& at, int64_t count, float* exponentials, __m512 scale,
                        const Exponentials<Work>& exponentials_of, Sums<T>& sums) {
  // Streamed rows begin anywhere in a line, and a gradient looks up the exponential at its target.
  constexpr bool kOrdered = kStream || !std::is_same_v<Work, Softmax<T>>;
  Block e;
  Block written;
  // Every load precedes the first store: rows usually lie a multiple of 4 KiB apart, and a load whose low address bits
  // are those of a store in flight waits for it.
  if constexpr (kDo.exponentials) Load<kOrdered>(kWhole ? at.x : Padded<T>(at.x, count).elements, e);
  if constexpr (kDo.write) ROOFBENCH_EACH written[v] = _mm512_mul_ps(_mm512_loadu_ps(exponentials + v * 16), scale);
  if constexpr (kDo.maximum) AddBlock(kWhole ? at.next : Padded<T>(at.next, count).elements, sums.maximum);
  if constexpr (kDo.write && kWhole) {
    Store<kOrdered, kStream>(at.y, written);
  } else if constexpr (kDo.write) {
    T last[kPerBlock];
    Store<kOrdered, false>(last, written);
    std::copy_n(last, count, at.y);
  }
  if constexpr (kDo.exponentials) {
    exponentials_of.Of(e);
    AddBlock(e, sums.exponentials);
    if constexpr (kWhole || !kOrdered) {
      ROOFBENCH_EACH _mm512_storeu_ps(exponentials + v * 16, e[v]);
    } else {
      ROOFBENCH_EACH _mm512_mask_storeu_ps(exponentials + v * 16, Mask16(count - v * 16), e[v]);
    }
  }
}

// Prefetches the blocks that come next, from the second-level cache into the first.
template <Stages kDo, typename T>
TARGET inline void FetchNear(const Places<T>& at) {
  constexpr int64_t kNear = 8;  // blocks
#pragma GCC unroll 4
  for (int64_t i = 0; i < kPerBlock; i += kPerLine<T>) {
    if constexpr (kDo.maximum) Prefetch(at.next + kNear * kPerBlock + i);
    if constexpr (kDo.exponentials) Prefetch(at.x + kNear * kPerBlock + i);
  }
}

template <bool kStream, Stages kDo, typename Work, typename T>
TARGET void Pass(int64_t n, const Places<T>& at, Flow& flow) {
  const __m512 scale = _mm512_set1_ps(flow.scale);
  const Exponentials<Work> exponentials_of(flow.maximum);
  Sums<T> sums;
  sums.exponentials = _mm512_setzero_ps();
  const auto from = [&](int64_t i) { return Places<T>{at.y + i, at.x + i, at.next + i}; };
  // Inline, because the sums' address would keep them in memory.
  const auto part = [&](int64_t i, int64_t count) __attribute__((always_inline)) TARGET {
    Step<kStream, kDo, false>(from(i), count, flow.exponentials + i, scale, exponentials_of, sums);
  };
  int64_t i = kStream ? std::min(n, at.head) : 0;
  if (i > 0) part(0, i);
  for (; i + kPerBlock <= n; i += kPerBlock) {
    if constexpr (kDo.maximum) PrefetchBlock(at.next + i, kAheadBytes);
    const Places<T> here = from(i);
    FetchNear<kDo>(here);
    Step<kStream, kDo, true>(here, kPerBlock, flow.exponentials + i, scale, exponentials_of, sums);
  }
  if (i < n) part(i, n - i);
  if constexpr (kDo.exponentials) flow.sum = _mm512_reduce_add_ps(sums.exponentials);
  if constexpr (kDo.maximum) flow.maximum = sums.maximum.Get();
}

// The result, and what its rows need once their exponentials are summed, before any is written (which may overwrite x).
template <typename T>
T* ResultOf(const Softmax<T>& work) {
  return work.y;
}
template <typename T>
void Summed(const Softmax<T>& /*work*/, int64_t /*row*/, float /*maximum*/, Flow& flow) {
  flow.scale = 1 / flow.sum;
}

template <typename T>
T* ResultOf(const CrossEntropy<T>& work) {
  return work.gradient;
}
template <typename T>
void Summed(const CrossEntropy<T>& work, int64_t row, float maximum, Flow& flow) {
  const int64_t target = work.target[row];
  // The difference of two logits is exact where the logarithm alone would round.
  work.loss[row] = std::log(flow.sum) + (maximum - ToFloat(work.x[row * work.cols + target]));
  flow.scale = work.scale / flow.sum;
  flow.at_target = (flow.exponentials[target] / flow.sum - 1) * work.scale;
}

template <bool kStream, typename Work>
void Rows(const Work& work, Range range) {
  using T = std::remove_const_t<std::remove_pointer_t<decltype(work.x)>>;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
  // One buffer per thread, with room for a whole block from the last element on.
  std::vector<Line<float>> exponentials(static_cast<std::size_t>((work.cols + 2 * kPerBlock) / kPerLine<float>));
  Flow flow{.exponentials = exponentials.data()->values};
  const int64_t last = range.end - 1;
  // The pass in which `row` is written. Beyond the last row the stages ignore their places.
  const auto pass = [&]<Stages kDo>(int64_t row) {
    const auto x = [&](int64_t of) { return work.x + std::min(of, last) * work.cols; };
    T* const y = ResultOf(work) + std::max(row, range.begin) * work.cols;
    // From the row's number, for the order of a row's sum not to depend on where a share begins.
    const auto offset = reinterpret_cast<intptr_t>(ResultOf(work)) + row * work.cols * kBytes;
    const int64_t head = kStream ? (-offset & (kLineBytes - 1)) / kBytes : 0;
    const float maximum = flow.maximum;
    Pass<kStream, kDo, Work>(work.cols, Places<T>{y, x(row + 1), x(row + 2), head}, flow);
    if constexpr (kDo.write && requires { work.target; }) y[work.target[row]] = Rounded<T>(flow.at_target);
    if constexpr (kDo.exponentials) Summed(work, row + 1, maximum, flow);
  };
  int64_t row = range.begin - 2;
  pass.template operator()<Stages{.maximum = true}>(row++);
  if (row + 1 < last) {
    pass.template operator()<Stages{.exponentials = true, .maximum = true}>(row++);
  } else {
    pass.template operator()<Stages{.exponentials = true}>(row++);
  }
  for (; row + 1 < last; ++row) pass.template operator()<Stages{true, true, true}>(row);
  if (row < last) pass.template operator()<Stages{.write = true, .exponentials = true}>(row++);
  pass.template operator()<Stages{.write = true}>(row);
  if constexpr (kStream) _mm_sfence();
}

// 2^t as 2^((n - 46) / 32) · 2^(r + 46 / 32), n the number of 32nds nearest to t and r the rest of t. The whole part of
// the first factor's exponent is for vscalefps, the 32nds are looked up; and the second is kScale · ((r + 46 / 32)² +
// kRest) within 1.4e-7, because 46 / 32 is close to 1 / ln(2): one multiplication, of a sum that takes no instruction.
struct Powers {
  static constexpr int kParts = 32;
  static constexpr float kOffset = 46.0F / kParts;
  static constexpr double kScale = 0.24109925229786988;
  static constexpr float kRest = 2.0812628269195557F;

  Powers() {
    for (int n = 0; n < kParts; ++n) {
      const int parts = (n - 46) & (kParts - 1);
      of_part[n] = static_cast<float>(kScale * std::exp2(parts / double{kParts} + double{kOffset}));
    }
  }
  alignas(kLineBytes) float of_part[kParts];  // with all constant factors
};

// The sum of 2^(x · log2(e) - shift) over a row, the shift being a whole number. A NaN or +infinity makes it NaN.
template <typename T>
TARGET float SumPowers(const T* x, int64_t n, float shift) {
  static const Powers kPowers;
  constexpr float kMagic = 0x1.8p18F;  // a sum with it ends in the bits of a number of 32nds
  const __m512 down = _mm512_set1_ps(-shift);
  const __m512 lower = _mm512_scalef_ps(_mm512_load_ps(kPowers.of_part), down);
  const __m512 upper = _mm512_scalef_ps(_mm512_load_ps(kPowers.of_part + 16), down);
  const __m512 scale = _mm512_set1_ps(kLog2E);
  Block sums;
  ROOFBENCH_EACH sums[v] = _mm512_setzero_ps();
  const auto add = [&](const T* from) __attribute__((always_inline)) TARGET {
    Block t, number, power;
    LoadBlock(from, t);
    // Below, the power is zero at any shift, and -infinity would become NaN. A NaN passes as the second operand.
    ROOFBENCH_EACH t[v] = _mm512_max_ps(_mm512_set1_ps(-1000), t[v]);
    ROOFBENCH_EACH number[v] = _mm512_fmadd_ps(t[v], scale, _mm512_set1_ps(kMagic));
    ROOFBENCH_EACH power[v] = _mm512_sub_ps(number[v], _mm512_set1_ps(kMagic + Powers::kOffset));
    ROOFBENCH_EACH t[v] = _mm512_fmsub_ps(t[v], scale, power[v]);
    ROOFBENCH_EACH power[v] =
        _mm512_scalef_ps(_mm512_permutex2var_ps(lower, _mm512_castps_si512(number[v]), upper), power[v]);
    ROOFBENCH_EACH t[v] = _mm512_fmadd_ps(t[v], t[v], _mm512_set1_ps(Powers::kRest));
    ROOFBENCH_EACH sums[v] = _mm512_fmadd_ps(t[v], power[v], sums[v]);
  };
  int64_t i = 0;
  for (; i + kPerBlock <= n; i += kPerBlock) {
    PrefetchBlock(x + i, kAheadBytes);
    add(x + i);
  }
  if (i < n) add(Padded<T>(x + i, n - i).elements);
  __m512 sum = _mm512_setzero_ps();
  AddBlock(sums, sum);
  return _mm512_reduce_add_ps(sum);
}

// Losses without a gradient, in one pass over each row: exponentials may be relative to any number near the maximum,
// here the largest element of the row's first block. The few rows whose sum leaves fp32 then, or is so small that
// exponentials were lost, and those with NaNs and infinities, are left to the portable variant.
template <typename T>
TARGET void Losses(const CrossEntropy<T>& work, Range range) {
  constexpr float kMostShift = 120;  // the factors of Powers stay normal numbers
  constexpr float kLeastSum = 0x1p-80F;
  for (int64_t row = range.begin; row < range.end; ++row) {
    const T* const x = work.x + row * work.cols;
    Maximum<T> maximum;
    AddBlock(work.cols < kPerBlock ? Padded<T>(x, work.cols).elements : x, maximum);
    const float first = maximum.Get();
    const float shift = std::isfinite(first) ? std::nearbyint(std::clamp(first * kLog2E, -kMostShift, kMostShift)) : 0;
    const float sum = SumPowers(x, work.cols, shift);
    if (sum >= kLeastSum && std::isfinite(sum)) {
      const double at_target = double{ToFloat(x[work.target[row]])} * kLog2E;
      work.loss[row] = static_cast<float>((std::log2(double{sum}) + (shift - at_target)) * std::numbers::ln2);
    } else {
      Portable(work, {row, row + 1});
    }
  }
}

// Stores past the caches where the result is large and has its own memory.
template <typename Work>
void Share(const Work& work, Range range) {
  const auto* const y = ResultOf(work);
  if constexpr (requires { work.target; }) {
    if (y == nullptr) return Losses(work, range);
  }
  if (y != work.x && work.rows * work.cols * static_cast<int64_t>(sizeof(*y)) >= kStreamBytes) {
    Rows<true>(work, range);
  } else {
    Rows<false>(work, range);
  }
}

}  // namespace
}  // namespace avx512
#undef TARGET
#endif

namespace {

template <typename Work>
constexpr ShareVariant<Work> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::Share},
#endif
    {0, Portable},
};

}  // namespace

ROOFBENCH_RUNS(rows, 1, Softmax)
ROOFBENCH_RUNS(rows, 1, CrossEntropy)

}  // namespace roofbench::kernels
#endif
