// SPDX-License-Identifier: Apache-2.0
// y[e] = W[e] · x for experts 3 and 5 of 8, as in gpt_fast: a token's feed-forward product in a mixture of experts. The
// choice of experts is data, so an implementation may not lay out memory for it. 2 of 8 weights are read: of 1024 x
// 1024 in bf16 4 MiB, of 16384 x 16384 1 GiB (and 4 GiB lie in memory).

#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>

#include "benchmarks/micro/products/weight_operand.h"
#include "lib/aten/products.h"
#include "lib/workload/operators/products.h"

namespace roofbench {
namespace {

constexpr int64_t kExperts = 8;
const std::vector<int64_t> kChosen = {3, 5};

WeightProduct MakeGather(const Point& at, Inputs& in) {
  const int64_t n = at.Int("n");
  const at::Tensor rows = in.SampleRows(n, 32).clone();  // as in gemv
  return {.rows = rows,
          .weight = MakeWeight(at, in, {.experts = kExperts, .n = n, .k = n}, rows),
          .x = in.Randn({1, n}, ActivationAt(at)),
          .y = in.Empty({static_cast<int64_t>(kChosen.size()), n}, ActivationAt(at)),
          .chosen = in.Keep([](at::Generator&) { return at::tensor(kChosen, at::kLong); })};
}

// Expert by expert, product(expert, y): gpt_fast's W[chosen] @ x would first copy the chosen weights.
template <typename Product>
void EachExpert(WeightProduct& o, Product product) {
  const int64_t* const experts = o.chosen.data_ptr<int64_t>();
  for (int64_t i = 0; i < o.chosen.numel(); ++i) product(experts[i], o.y.narrow(0, i, 1));
}

void EagerGather(WeightProduct& o) {
  if (!o.x.is_cpu()) {
    // As in gpt_fast: the host does not learn which experts are chosen, and the chosen weights are copied.
    const at::Tensor product = at::matmul(o.weight.data.index_select(0, o.chosen).to(o.x.scalar_type()), o.x[0]);
    if (o.weight.scales.defined()) product.mul_(o.weight.scales.index_select(0, o.chosen));
    o.y.copy_(product);
    return;
  }
  EachExpert(o, [&](int64_t expert, const at::Tensor& to) {
    at::Tensor product = to;
    TorchProduct(o.weight, expert, o.x, product);
    if (!product.is_same(to)) to.copy_(product);
  });
}

auto PrepareOnednn(WeightProduct& o, const Point&, Inputs&) {
  std::vector<at::Tensor> packed;
  for (const at::Tensor& expert : o.weight.data.unbind()) packed.push_back(OnednnPack(expert, 1));
  o.weight.data.reset();  // otherwise it would stay in memory while the case is sampled
  return [&o, packed] {
    EachExpert(o, [&](int64_t expert, const at::Tensor& to) {
      to.copy_(OnednnLinear(o.x, packed[static_cast<std::size_t>(expert)]));
    });
  };
}

const Registration kGatherGemv =
    WeightProducts("gather_gemv", "y[e] = W[e] · x for 2 experts of 8", {"bf16", "int8"}, "n")
        .Size("n", "rows and columns of each expert")
        .Work([](const Point& at) {
          const workload::GatherGemv work{.expert = {.n = at.Number("n"), .k = at.Number("n"), .format = FormatAt(at)},
                                          .chosen = static_cast<double>(kChosen.size()),
                                          .experts = static_cast<double>(kExperts)};
          return CostAt(at, work.ForwardCost(), work.experts);
        })
        .Operands(MakeGather)
        .Reference([](const WeightProduct& o) {
          return at::matmul(o.weight.exact_rows().index_select(0, o.chosen), o.x[0].to(at::kDouble));
        })
        .Impl("eager", EagerGather)
        .When([](const Point& at, const Device& device) { return TorchTakes(at, at.Int("n"), device); })
        .Impl("onednn", OnCpu(PrepareOnednn))
        .Takes({"bf16"}, "LibTorch's oneDNN has no product of 16-bit activations with int8 weights, and none on GPUs")
        .Impl("compiled", Compiled([](WeightProduct& o) { return IsInt8(o) ? "gather_gemv_int8" : "gather_gemv"; },
                                   [](WeightProduct& o) {
                                     std::vector<at::Tensor> tensors = {o.x, o.weight.data, o.chosen};
                                     if (IsInt8(o)) tensors.push_back(o.weight.scales);
                                     return tensors;
                                   }))
        .Points(Suite::kQuick, {{"impl", {"eager", "native"}}, {"precision", {"bf16"}}, {"n", {4096}}})
        .Points(Suite::kStandard,
                {{"impl", {"eager", "compiled", "native"}}, {"precision", {"bf16", "int8"}}, {"n", {1024, 4096, 8192}}})
        .Points(Suite::kStandard, {{"impl", {"onednn"}}, {"precision", {"bf16"}}, {"n", {1024, 4096, 8192}}})
        .Points(Suite::kFull,
                {{"impl", {"eager", "compiled", "native"}}, {"precision", {"bf16", "int8"}}, {"n", {16384}}})
        .Points(Suite::kFull, {{"impl", {"onednn"}}, {"precision", {"bf16"}}, {"n", {16384}}})
        .Growth("n", 2);

}  // namespace
}  // namespace roofbench
