// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding of a prompt's queries: every element is read and written once.
//
// 32 heads of 128 (Llama-3-8B) for 2048 tokens: 16 MiB a tensor in bf16.

#include <ATen/ops/arange.h>

#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/models/block/rotary_table.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

constexpr double kTheta = 500000;

struct Rope {
  at::Tensor x, y;
  models::RotaryTable rope;
};

const Registration kRope =
    FamilyOf<Rope>("rope", "rotary position embedding: halves of a head turned by their position's angles")
        .Dtypes({"fp32", "bf16"})
        .Size("heads", "", 32)
        .Size("tokens")
        .Size("d", "length of a head; even", 128)
        .Work([](const Point& at) {
          return workload::Rope{at.Number("heads"), at.Number("tokens"), at.Number("d"), at.Dtype()};
        })
        .Operands([](const Point& at, Inputs& in) {
          const std::vector<int64_t> shape = {at.Int("heads"), at.Int("tokens"), at.Int("d")};
          const models::RotaryTable rope(shape[1], shape[2], kTheta, at::TensorOptions(in.device().torch_device()));
          return Rope{in.Randn(shape, at.Dtype()), in.Empty(shape, at.Dtype()),
                      models::RotaryTable(in.Keep(rope.cosines()), in.Keep(rope.sines()))};
        })
        .Reference([](const Rope& o, const RowRange& rows) {
          const at::Tensor row = at::arange(rows.first, rows.first + rows.count, o.x.options().dtype(at::kLong));
          return o.rope.RotateAt(rows.Of(o.x), row.remainder(o.x.size(1)));
        })
        // Eagerly, tables and products are rounded before they are added.
        .Within([](const Point& at) { return Tolerance{.dtype = at.Dtype(), .roundings = 4}; })
        .Impl("eager", [](Rope& o) { o.y = o.rope.Rotate(o.x); })
        .Impl("native", Cpu([]<typename T>(Rope& o) {
                return kernels::Rope<T>{.x = Elements<T>(o.x),
                                        .y = Elements<T>(o.y),
                                        .cosines = Elements<float>(o.rope.cosines()),
                                        .sines = Elements<float>(o.rope.sines()),
                                        .rows = o.x.size(0) * o.x.size(1),
                                        .positions = o.x.size(1),
                                        .cols = o.x.size(2)};
              }))
        .Supports([](const Point& at, const Device&) {
          return at.Int("d") % 2 == 0
                     ? absl::OkStatus()
                     : absl::InvalidArgumentError("a head of odd length has no halves; take an even d");
        })
        .Points(Suite::kStandard, {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"tokens", {2048}}});

}  // namespace
}  // namespace roofbench
