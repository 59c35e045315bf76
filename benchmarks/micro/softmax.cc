// SPDX-License-Identifier: Apache-2.0
// Probabilities from logits: every element is read and written once, and requires an exponential.
//
// The shapes of the norms: 4096 rows of 1024 (8 MiB in bf16, within a last-level cache) to 16384 (128 MiB).

#include <ATen/ops/_softmax.h>
#include <ATen/ops/ones.h>

#include "lib/kernels/operators/rows/softmax.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/rows.h"

namespace roofbench {
namespace {

struct Softmax {
  at::Tensor x, y, rows;  // `rows`: the ones that are compared
};

const Registration kSoftmax =
    FamilyOf<Softmax>("softmax", "y = exp(x - max) / sum(exp(x - max)), row by row")
        .Dtypes({"fp32", "bf16"})
        .Size("rows", "", 4096)
        .Size("d", "length of a row")
        .Work([](const Point& at) {
          return workload::Softmax{at.Number("rows"), at.Number("d"), at.Dtype()};
        })
        .Operands([](const Point& at, Inputs& in) {
          const std::vector<int64_t> shape = {at.Int("rows"), at.Int("d")};
          return Softmax{in.Randn(shape, at.Dtype()), in.Empty(shape, at.Dtype()), in.SampleRows(at.Int("rows"))};
        })
        .Reference([](const Softmax& o) { return at::_softmax(o.x.index_select(0, o.rows).to(at::kDouble), 1, false); })
        .RowSums([](const Softmax& o) { return at::ones({o.y.size(0)}, at::kDouble); })
        .Within([](const Point& at) { return Tolerance{.dtype = at.Dtype(), .reduction = at.Number("d")}; })
        .Impl("eager", [](Softmax& o) { at::_softmax_out(o.y, o.x, 1, false); })
        .Impl("compiled", Compiled("softmax", [](Softmax& o) { return std::vector{o.x}; }))
        .Impl("native", Cpu([]<typename T>(Softmax& o) {
                return kernels::Softmax<T>{
                    .x = Elements<T>(o.x), .y = Elements<T>(o.y), .rows = o.x.size(0), .cols = o.x.size(1)};
              }),
              Cuda(
                  "SoftmaxRows",
                  [](const kernels::GpuKernels& table, Softmax& o, void* stream) {
                    return table.softmax(RowTypeOf(o.x), o.y.data_ptr(), o.x.const_data_ptr(), o.x.size(0), o.x.size(1),
                                         stream);
                  },
                  [](const Point& at) { return GpuRowsSupport(at.Int("d")); }))
        .Points(Suite::kQuick, {{"impl", {"eager", "native"}}, {"dtype", {"bf16"}}, {"d", {4096}}})
        .Points(Suite::kStandard,
                {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"d", {1024, 4096, 8192, 16384}}})
        .Points(Suite::kStandard, {{"impl", {"compiled"}}, {"dtype", {"bf16"}}, {"d", {4096, 8192}}});

}  // namespace
}  // namespace roofbench
