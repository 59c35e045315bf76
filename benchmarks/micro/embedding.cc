// SPDX-License-Identifier: Apache-2.0
// Tokens to vectors: rows of a table, copied by number.
//
// 8192 tokens of width 4096 (Llama-3-8B) are 64 MiB in bf16, out of a table of 32000 (250 MiB).

#include <ATen/ops/index_select.h>

#include "lib/kernels/operators/elementwise/data_movement.h"
#include "lib/suite/check.h"
#include "lib/suite/family_of.h"
#include "lib/workload/operators/elementwise.h"

namespace roofbench {
namespace {

struct Embedding {
  at::Tensor table, index, y, rows;  // `rows`: the ones that are compared
};

const Registration kEmbedding =
    FamilyOf<Embedding>("embedding", "y[i] = table[index[i]], row by row, at random indices")
        .Dtypes({"fp32", "bf16"})
        .Size("vocab", "rows of the table", 32000)
        .Size("tokens", "", 8192)
        .Size("d", "length of a row")
        .Work([](const Point& at) {
          return workload::Embedding{at.Number("vocab"), at.Number("tokens"), at.Number("d"), at.Dtype()};
        })
        .Operands([](const Point& at, Inputs& in) {
          const int64_t tokens = at.Int("tokens");
          const int64_t d = at.Int("d");
          return Embedding{in.Randn({at.Int("vocab"), d}, at.Dtype()), in.Integers(0, at.Int("vocab"), {tokens}),
                           in.Empty({tokens, d}, at.Dtype()), in.SampleRows(tokens)};
        })
        .Reference(
            [](const Embedding& o) { return o.table.index_select(0, o.index.index_select(0, o.rows)).to(at::kDouble); })
        .Changing([](const Embedding& o) { return o.index; })
        .RowSums([](const Embedding& o) { return ExactRowSums(o.table).index_select(0, o.index); })
        // The operation that at::embedding calls for a list of tokens, with a preallocated result.
        .Impl("eager", [](Embedding& o) { at::index_select_out(o.y, o.table, 0, o.index); })
        .Impl("native", Cpu([]<typename T>(Embedding& o) {
                return kernels::Embedding<T>{.table = Elements<T>(o.table),
                                             .index = Elements<int64_t>(o.index),
                                             .y = Elements<T>(o.y),
                                             .rows = o.y.size(0),
                                             .cols = o.y.size(1)};
              }))
        .Points(Suite::kStandard, {{"impl", {"eager", "native"}}, {"dtype", {"fp32", "bf16"}}, {"d", {768, 4096}}});

}  // namespace
}  // namespace roofbench
