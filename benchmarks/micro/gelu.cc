// SPDX-License-Identifier: Apache-2.0
// An activation: every element is read and written once, so memory bandwidth is the roof.
//
// 16 Mi elements: two bf16 arrays of 32 MiB, beyond the last-level cache of a desktop. Errors grow eightfold:
// 1 + erf(x) cancels where x is far below 0.

#include <ATen/ops/gelu.h>

#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

struct Gelu {
  at::Tensor x, y;
};

const Registration kGelu =
    FamilyOf<Gelu>("gelu", "y = GELU(x), element by element")
        .Dtypes({"fp32", "bf16"})
        .Size("elements")
        .Work([](const Point& at) {
          return workload::Gelu{at.Number("elements"), at.Dtype()};
        })
        .Operands([](const Point& at, Inputs& in) {
          return Gelu{in.Randn({at.Int("elements")}, at.Dtype()), in.Empty({at.Int("elements")}, at.Dtype())};
        })
        .Reference([](const Gelu& o, const RowRange& rows) { return at::gelu(rows.Of(o.x)); })
        .Within([](const Point& at) { return Tolerance{.dtype = at.Dtype(), .amplification = 8}; })
        .Impl("eager", [](Gelu& o) { at::gelu_out(o.y, o.x); })
        .Impl("native", Cpu([]<typename T>(Gelu& o) {
                return kernels::Gelu<T>{Elements<T>(o.x), Elements<T>(o.y), o.x.numel()};
              }))
        .DefaultImpl("eager")
        .Points(Suite::kQuick, {{"dtype", {"fp32", "bf16"}}, {"elements", {16_Mi}}})
        .Points(Suite::kStandard, {{"impl", {"native"}}, {"dtype", {"fp32", "bf16"}}, {"elements", {16_Mi}}});

}  // namespace
}  // namespace roofbench
