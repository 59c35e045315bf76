// y[e] = W[e] · x for experts 3 and 5 of 8, as gpt_fast takes it: a token's feed-forward product in a mixture of
// experts. Which experts is data, so that an implementation may not lay out memory for the choice. 2 of 8 weights are
// read: of 1024 x 1024 in bf16 4 MiB, of 16384 x 16384 1 GiB (and 4 GiB lie in memory).

#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>

#include "benchmarks/micro/weight_operand.h"
#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/harness/onednn.h"
#include "lib/workload/gemv.h"

namespace roofbench {
namespace {

constexpr int64_t kExperts = 8;
const std::vector<int64_t> kChosen = {3, 5};

workload::GatherGemv WorkAt(const Point& at) {
  return {.expert = {.n = at.Number("n"), .k = at.Number("n"), .format = FormatAt(at)},
          .chosen = static_cast<double>(kChosen.size()),
          .experts = static_cast<double>(kExperts)};
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t n = at.Int("n");
  const auto count = static_cast<int64_t>(kChosen.size());
  const workload::Dtype dtype = ActivationAt(at);
  const std::string& impl = at.Text("impl");
  const at::Tensor rows = in.SampleRows(n, 32);
  const WeightOperand weight =
      MakeWeight(in, {.format = FormatAt(at), .experts = kExperts, .n = n, .k = n}, LayoutAt(at, in.device()), rows);
  const at::Tensor x = in.Randn({1, n}, dtype);
  const at::Tensor y = in.Empty({count, n}, dtype);
  const at::Tensor chosen = in.Keep([](at::Generator&) { return at::tensor(kChosen, at::kLong); });
  Case built{.result = [=] { return std::vector{y.index_select(1, rows)}; },
             .reference =
                 [=, exact = weight.exact_rows] {
                   return std::vector{at::matmul(exact().index_select(0, chosen), x[0].to(at::kDouble))};
                 },
             .tolerance = {.dtype = dtype, .reduction = static_cast<double>(n)}};
  // Expert by expert: gpt_fast's W[chosen] @ x would first copy the chosen weights.
  const auto each = [=](const auto& product) {
    return [=] {
      const int64_t* const experts = chosen.data_ptr<int64_t>();
      for (int64_t i = 0; i < count; ++i) product(experts[i], y.narrow(0, i, 1));
    };
  };
  if (impl == "native") {
    built.step = NativeGather(weight, chosen, x, y, in.device());
  } else if (impl == "onednn") {
    std::vector<at::Tensor> packed;
    for (int64_t expert = 0; expert < kExperts; ++expert) packed.push_back(OnednnPack(weight.data[expert], 1));
    built.step = each([=](int64_t expert, const at::Tensor& to) {
      to.copy_(OnednnLinear(x, packed[static_cast<std::size_t>(expert)]));
    });
  } else if (in.device().gpu() != nullptr) {
    // As gpt_fast has it: the host does not learn which experts they are, and the chosen weights are copied.
    built.step = [=] {
      const at::Tensor product = at::matmul(weight.data.index_select(0, chosen).to(x.scalar_type()), x[0]);
      if (weight.scales.defined()) product.mul_(weight.scales.index_select(0, chosen));
      y.copy_(product);
    };
  } else {
    built.step = each([=](int64_t expert, const at::Tensor& to) {
      at::Tensor product = to;
      TorchProduct(weight, expert, x, product);
      if (!product.is_same(to)) to.copy_(product);
    });
  }
  return built;
}

absl::Status Supports(const Point& at, const Device& device) {
  if (at.Text("impl") == "onednn" && FormatAt(at) == workload::WeightFormat::kInt8) {
    return absl::UnimplementedError("LibTorch's oneDNN has no product of 16-bit activations with int8 weights");
  }
  return WeightProductSupports(at, device, at.Int("n"), 1);
}

const Registration kGatherGemv(
    Family("gather_gemv", "y[e] = W[e] · x for 2 experts of 8")
        .Axis({.name = "impl",
               .choices = {"eager", "onednn", "native"},
               .doc = "eager: LibTorch's operator, expert by expert; onednn: weights prepacked by oneDNN; native: our "
                      "kernel"})
        .Axis(PrecisionAxis({"bf16", "int8"}))
        .Axis({.name = "n", .doc = "rows and columns of each expert"})
        .Grid(Suite::kQuick, {{"impl", {"eager", "native"}}, {"precision", {"bf16"}}, {"n", {"4096"}}})
        .Grid(Suite::kStandard,
              {{"impl", {"eager", "native"}}, {"precision", {"bf16", "int8"}}, {"n", {"1024", "4096", "8192"}}})
        .Grid(Suite::kStandard, {{"impl", {"onednn"}}, {"precision", {"bf16"}}, {"n", {"1024", "4096", "8192"}}})
        .Grid(Suite::kFull, {{"impl", {"eager", "native"}}, {"precision", {"bf16", "int8"}}, {"n", {"16384"}}})
        .Grid(Suite::kFull, {{"impl", {"onednn"}}, {"precision", {"bf16"}}, {"n", {"16384"}}})
        .ExpectLaw("n", 2)
        .Supports(Supports)
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
