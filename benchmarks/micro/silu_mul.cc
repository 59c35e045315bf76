// SPDX-License-Identifier: Apache-2.0
// The middle of a SwiGLU block: two operands are read and one is written, so memory bandwidth is the roof.
//
// 512 tokens of width 14336 (Llama-3-8B, Mixtral) are 7 Mi elements: three bf16 arrays of 14 MiB.

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

struct SiluMul {
  at::Tensor gate, up, y;
};

const Registration kSiluMul =
    FamilyOf<SiluMul>("silu_mul", "y = silu(gate) · up, element by element")
        .Dtypes({"fp32", "bf16"})
        .Size("elements")
        .Work([](const Point& at) {
          return workload::SiluMul{at.Number("elements"), at.Dtype()};
        })
        .Operands([](const Point& at, Inputs& in) {
          const int64_t n = at.Int("elements");
          return SiluMul{in.Randn({n}, at.Dtype()), in.Randn({n}, at.Dtype()), in.Empty({n}, at.Dtype())};
        })
        .Changing([](const SiluMul& o) { return o.gate; })
        .Reference([](const SiluMul& o, const RowRange& rows) { return at::silu(rows.Of(o.gate)).mul_(rows.Of(o.up)); })
        // Eagerly, silu's result is rounded before it is multiplied.
        .Within([](const Point& at) { return Tolerance{.dtype = at.Dtype(), .roundings = 2}; })
        .Impl("eager", [](SiluMul& o) { at::silu_out(o.y, o.gate).mul_(o.up); })
        .Impl("native", Cpu([]<typename T>(SiluMul& o) {
                return kernels::SiluMul<T>{
                    .gate = Elements<T>(o.gate), .up = Elements<T>(o.up), .y = Elements<T>(o.y), .n = o.y.numel()};
              }))
        .Points(Suite::kStandard, {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"elements", {7_Mi}}});

}  // namespace
}  // namespace roofbench
