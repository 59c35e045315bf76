// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/elementwise/silu_mul.h"

#include "lib/kernels/operators/elementwise/activations_avx512.h"
#include "lib/kernels/simd/highway_dispatch.h"
#include "lib/kernels/threading/run_shares.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/operators/elementwise/silu_mul.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "lib/kernels/simd/highway_exponentials.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void PortableGradient(const SiluMulGradient<T>& work, Range range) {
  const FloatVec one = hn::Set(FloatTag(), 1.0F);
  const std::size_t lanes = FloatLanes();
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    const FloatVec gate = LoadSome(work.gate + i, end - i);
    const FloatVec up = LoadSome(work.up + i, end - i);
    const FloatVec dy = LoadSome(work.dy + i, end - i);
    const FloatVec sigmoid = hn::Div(one, OnePlusExp(hn::Neg(gate)));
    const FloatVec silu = hn::Mul(gate, sigmoid);
    const FloatVec slope = hn::MulAdd(silu, hn::Sub(one, sigmoid), sigmoid);
    StoreSome(hn::Mul(hn::Mul(dy, up), slope), work.d_gate + i, end - i);
    StoreSome(hn::Mul(dy, silu), work.d_up + i, end - i);
  }
}

template <typename X, typename Y>
HWY_INLINE void Portable(const SiluMul<X, Y>& work, Range range) {
  const std::size_t lanes = FloatLanes();
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    const FloatVec gate = LoadSome(work.gate + i, end - i);
    const FloatVec silu = hn::Div(gate, OnePlusExp(hn::Neg(gate)));
    StoreSome(hn::Mul(silu, LoadSome(work.up + i, end - i)), work.y + i, end - i);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Portable, SiluMul)
ROOFBENCH_HIGHWAY_INSTANCE(Portable, SiluMulRounded, SiluMul<float, Bf16>)
ROOFBENCH_HIGHWAY_INSTANCES(PortableGradient, SiluMulGradient)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCHES(Portable, SiluMul)
ROOFBENCH_HIGHWAY_DISPATCH(Portable, SiluMulRounded, SiluMul<float, Bf16>)
ROOFBENCH_HIGHWAY_DISPATCHES(PortableGradient, SiluMulGradient)

namespace {

template <typename Work>
constexpr ShareVariant<Work> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, Avx512Share},
#endif
    {0, Portable},
};

template <typename Work>
void RunElements(const Work& work, const ParallelFor& parallel_for) {
  RunShares<kVariants<Work>>(work, work.n, kGrainElements, parallel_for);
}

}  // namespace

void Run(const SiluMul<float>& work, const ParallelFor& parallel_for) { RunElements(work, parallel_for); }
void Run(const SiluMul<Bf16>& work, const ParallelFor& parallel_for) { RunElements(work, parallel_for); }
void Run(const SiluMul<float, Bf16>& work, const ParallelFor& parallel_for) { RunElements(work, parallel_for); }

void Run(const SiluMulGradient<float>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrainElements, [&](Range range) { PortableGradient(work, range); });
}

void Run(const SiluMulGradient<Bf16>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrainElements, [&](Range range) { PortableGradient(work, range); });
}

}  // namespace roofbench::kernels
#endif
