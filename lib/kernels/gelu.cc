#include "lib/kernels/gelu.h"

#include "lib/kernels/highway_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/gelu.cc"  // NOLINT(bugprone-suspicious-include)
// clang-format off: this one comes before the others
#include "hwy/foreach_target.h"
// clang-format on
#include "hwy/contrib/math/math-inl.h"
#include "lib/kernels/highway_floats.inc"

HWY_BEFORE_NAMESPACE();
namespace roofbench::kernels::HWY_NAMESPACE {
namespace {

// exp(z²) · erfc(z) = t · p(t) with t = 1 / (1 + kNear · z), lowest power first: reweighted least squares of the
// relative error over z in [0, 9.5], 2.5e-7 in fp32. Half of it stands here, for Φ(-x) = erfc(x/√2) / 2.
constexpr float kNear = 0.47F;
constexpr float kTail[] = {0.2651114761829376F / 2,  0.2664669156074524F / 2,   0.2234673947095871F / 2,
                           0.2432977855205536F / 2,  -0.11435109376907349F / 2, 0.45000436902046204F / 2,
                           -0.5480610728263855F / 2, 0.2592478096485138F / 2,   -0.04518355429172516F / 2};

template <typename T>
HWY_INLINE void Part(const Gelu<T>& work, Range range) {
  const FloatTag d;
  const std::size_t lanes = FloatLanes();
  const FloatVec one = hn::Set(d, 1.0F);
  const FloatVec near_root = hn::Set(d, kNear * 0.70710678118654752F);
  const auto end = static_cast<std::size_t>(range.end);
  for (auto i = static_cast<std::size_t>(range.begin); i < end; i += lanes) {
    const FloatVec x = LoadSome(work.x + i, end - i);
    const FloatVec t = hn::Div(one, hn::MulAdd(hn::Abs(x), near_root, one));
    FloatVec p = hn::Set(d, kTail[8]);
    for (std::size_t k = 8; k-- > 0;) p = hn::MulAdd(p, t, hn::Set(d, kTail[k]));
    // Below -104 exp is zero in fp32, and Highway's is not defined at -infinity.
    const FloatVec power = hn::Max(hn::Set(d, -104.5F), hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5F)));
    const FloatVec tail = hn::Mul(hn::Mul(t, p), hn::Exp(d, power));
    const FloatVec share = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
    StoreSome(hn::Mul(x, share), work.y + i, end - i);
  }
}

ROOFBENCH_HIGHWAY_INSTANCES(Part, Gelu)

}  // namespace
}  // namespace roofbench::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace roofbench::kernels {

ROOFBENCH_HIGHWAY_DISPATCH(Part, Gelu)

namespace {
constexpr int64_t kGrain = 4096;  // elements: parts begin on pages
}

void Run(const Gelu<float>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrain, [&](Range range) { Part(work, range); });
}

void Run(const Gelu<Bf16>& work, const ParallelFor& parallel_for) {
  parallel_for(work.n, kGrain, [&](Range range) { Part(work, range); });
}

}  // namespace roofbench::kernels
#endif
