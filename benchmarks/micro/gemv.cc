// y = W · x with weights in fp32, bf16, int8 and int4: what bounds token generation on every device.
//
// Squares from 1024 (2 MiB of bf16: an L2 or two) to 16384 (512 MiB), as gpt_fast takes them; rectangles: the fused
// QKV, the feed-forward and the head of Llama-3-8B. Cold: the weights come from memory, as in a model that is larger
// than the caches.

#include <ATen/ops/matmul.h>

#include <memory>

#include "benchmarks/micro/weight_operand.h"
#include "lib/harness/compiled.h"
#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/harness/onednn.h"
#include "lib/workload/gemv.h"

namespace roofbench {
namespace {

using workload::WeightFormat;

workload::Gemv WorkAt(const Point& at) {
  return {.n = at.Number("n"),
          .k = at.Number("k"),
          .format = FormatAt(at),
          .group = at.Number("group"),
          .batch = at.Number("batch")};
}

absl::StatusOr<Case> Build(const Point& at, Inputs& in) {
  const int64_t n = at.Int("n");
  const int64_t k = at.Int("k");
  const int64_t batch = at.Int("batch");
  const workload::Dtype dtype = ActivationAt(at);
  const std::string& impl = at.Text("impl");
  const at::Tensor rows = in.SampleRows(n);
  const WeightOperand weight = MakeWeight(in, {.format = FormatAt(at), .n = n, .k = k, .group = at.Int("group")},
                                          LayoutAt(at, in.device()), rows);
  const at::Tensor x = in.Randn({batch, k}, dtype);
  const auto y = std::make_shared<at::Tensor>(in.Empty({batch, n}, dtype));
  Case built{.result = [=] { return std::vector{y->index_select(1, rows)}; },
             .reference =
                 [=, exact = weight.exact_rows] { return std::vector{at::matmul(x.to(at::kDouble), exact()[0].t())}; },
             .tolerance = {.dtype = dtype, .reduction = static_cast<double>(k)}};
  if (impl == "native") {
    built.step = NativeProduct(weight, x, *y, in.device());
  } else if (impl == "compiled") {
    const std::vector<at::Tensor> tensors = {x, weight.data[0]};
    const auto compiled = Compile("gemv", tensors, in.device());
    if (!compiled.ok()) return compiled.status();
    built.step = [=, operation = *compiled] { *y = operation(tensors); };
  } else if (impl == "onednn") {
    built.step = [x, y, packed = OnednnPack(weight.data[0], batch)] { *y = OnednnLinear(x, packed); };
  } else {
    built.step = [=] { TorchProduct(weight, 0, x, *y); };
  }
  return built;
}

absl::Status Supports(const Point& at, const Device& device) {
  const WeightFormat format = FormatAt(at);
  const bool int4 = format == WeightFormat::kInt4;
  const std::string& impl = at.Text("impl");
  if (impl == "onednn" && (int4 || format == WeightFormat::kInt8)) {
    return absl::UnimplementedError("LibTorch's oneDNN has no product of 16-bit activations with such weights");
  }
  if (impl == "compiled" && (int4 || format == WeightFormat::kInt8)) {
    return absl::UnimplementedError("impl:compiled is for fp32 and bf16 weights");
  }
  if (int4 && at.Int("k") % at.Int("group") != 0) return absl::UnimplementedError("k must be a multiple of group");
  if (int4 && at.Int("group") > 256) return absl::UnimplementedError("group must be 32, 64, 128 or 256");
  if (int4 && impl == "eager" && at.Int("n") % 16 != 0) {
    return absl::UnimplementedError("LibTorch packs int4 weights in blocks of 16 rows: n must be a multiple of 16");
  }
  return WeightProductSupports(at, device, at.Int("k"), at.Int("batch"));
}

const std::vector<std::string> kSquares = {"1024", "4096", "8192", "16384"};

GridAxes Points(std::vector<std::string> impls, std::vector<std::string> precisions, std::vector<std::string> n,
                std::vector<std::string> k = {}) {
  GridAxes axes = {{"impl", std::move(impls)}, {"precision", std::move(precisions)}, {"n", std::move(n)}};
  if (!k.empty()) axes.emplace_back("k", std::move(k));
  return axes;
}

GridAxes Int4Points(std::vector<std::string> impls, std::vector<std::string> groups) {
  return {{"impl", std::move(impls)}, {"precision", {"int4"}}, {"group", std::move(groups)}, {"n", {"4096"}}};
}

const Registration kGemv(
    Family("gemv", "y = W · x, weights in fp32, bf16, int8 or int4")
        .Axis({.name = "impl",
               .choices = {"eager", "onednn", "compiled", "native"},
               .doc = "eager: LibTorch's operator for the format; onednn: weights prepacked by oneDNN; compiled: by "
                      "Inductor; native: our kernels"})
        .Axis(PrecisionAxis({"fp32", "bf16", "int8", "int4"}))
        .Axis({.name = "group",
               .choices = {"32", "64", "128", "256"},
               .default_value = "128",
               .doc = "weights a scale, of int4"})
        .Axis({.name = "batch", .default_value = "1", .doc = "vectors that share the weights"})
        .Axis({.name = "n", .doc = "rows of W: outputs"})
        .Axis({.name = "k", .default_value = "n", .doc = "columns of W"})
        .Grid(Suite::kQuick, Points({"eager", "native"}, {"bf16", "int8", "int4"}, {"4096"}))
        .Grid(Suite::kQuick, Points({"onednn"}, {"bf16"}, {"4096"}))
        .Grid(Suite::kStandard, Int4Points({"eager", "native"}, {"32", "64"}))
        .Grid(Suite::kStandard, Points({"eager", "native"}, {"fp32", "bf16", "int8", "int4"}, kSquares))
        .Grid(Suite::kStandard, Points({"onednn"}, {"fp32", "bf16"}, kSquares))
        .Grid(Suite::kStandard, Points({"compiled"}, {"bf16"}, {"4096", "8192"}))
        .Grid(Suite::kStandard, {{"impl", {"eager", "native"}},
                                 {"precision", {"bf16", "int8", "int4"}},
                                 {"batch", {"2", "4", "8"}},
                                 {"n", {"4096"}}})
        .Grid(Suite::kFull,
              Points({"eager", "native"}, {"bf16", "int8", "int4"}, {"6144", "14336", "128256"}, {"4096"}))
        .Grid(Suite::kFull, Points({"onednn"}, {"bf16"}, {"6144", "14336", "128256"}, {"4096"}))
        .Grid(Suite::kFull, Points({"eager", "native"}, {"bf16", "int8", "int4"}, {"4096"}, {"14336"}))
        .Grid(Suite::kFull, Points({"onednn"}, {"bf16"}, {"4096"}, {"14336"}))
        .ExpectLaw("n", 2)
        .Supports(Supports)
        .Cost([](const Point& at) { return WorkAt(at).ForwardCost(); })
        .Build(Build));

}  // namespace
}  // namespace roofbench
